"""How kernels are compiled. The only place that imports numba.

Two kinds of functions: an `entry` is called from Python, a `kernel` from an entry or another kernel. Both work in arrays
they are given and allocate nothing, so numba's reference counting is left out: with it, building took 1.4 times as long,
and two threads spent their time on each other's counters. A kernel has no way in from Python, which halves the time
to compile it. An `inlined` kernel is a small one: a tree is some eighty words, and passing them on the stack costs more
than what small kernels do. A `pasted` kernel is a part of another that has one caller: it is never compiled by itself.

Whole numbers are int64 in every signature, except slots, which are int32: one type each, so each kernel compiles once.
Numba gives a literal argument a type of its own: large kernels are called with ``np.int64(0)``, not ``0``.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import event, types
from numba.extending import intrinsic

_options: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "_nrt": False,
    "no_cfunc_wrapper": True,  # nor a way in from C
}

_within: dict[str, Any] = {**_options, "no_cpython_wrapper": True}

entry: Any = numba.njit(**_options)
kernel: Any = numba.njit(**_within)
inlined: Any = numba.njit(**_within, forceinline=True)
pasted: Any = numba.njit(**_options, inline="always")


def _fetch(typing: Any, array: Any, index: Any) -> Any:
    """Have ``array[index]`` brought to the cache, and go on at once. (A read holds up what comes some hundred steps later.)"""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        at = context.cast(builder, args[1], signature.args[1], types.int64)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        start = builder.bitcast(view.data, byte)
        address = builder.gep(start, [builder.mul(at, builder.extract_value(view.strides, 0))])
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        builder.call(fetch, [address, number(0), number(3), number(1)])  # to be read, by all caches, data
        return context.get_dummy_value()

    return types.void(array, index), generate


def _fetch_nothing(array: Any, index: Any) -> None:
    """Where kernels run uncompiled."""


fetch: Any = _fetch_nothing if numba.config.DISABLE_JIT else intrinsic(_fetch)  # type: ignore[attr-defined]


def resolve(entry: Any, args: tuple) -> Callable:
    """The compiled version of an entry for arguments of the types of ``args``, and of no other: it does not look at them.

    Numba chooses a version at each call by the types of all arrays in all arguments: 7 µs for a forest and its scratch space,
    a quarter of what learning a row with 10 trees takes. Called directly, the version starts after 1 µs.
    """
    if not hasattr(entry, "overloads"):
        return entry  # kernels run uncompiled
    types = tuple(numba.typeof(arg) for arg in args)
    if types not in entry.overloads:
        entry.compile(types)
    compiled = entry.overloads[types].entry_point
    return lambda *args: compiled(
        *args
    )  # whoever counts memory walks into `compiled`, and on into numba, but not into functions


class _Undisturbed(event.Listener):
    """Lets Python's garbage collector rest while a kernel is compiled.

    Compiling makes millions of objects, most of which stay: looking through them for garbage again and again took a tenth of the time.
    """

    _outermost: Any = None

    def on_start(self, event: event.Event) -> None:
        dispatcher = event.data["dispatcher"]
        if self._outermost is None and gc.isenabled() and dispatcher.py_func.__module__.startswith(f"{__package__}."):
            self._outermost = dispatcher
            gc.disable()

    def on_end(self, event: event.Event) -> None:
        if event.data["dispatcher"] is self._outermost:
            self._outermost = None
            gc.enable()


event.register("numba:compile", _Undisturbed())
