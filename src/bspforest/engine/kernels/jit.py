"""How kernels are compiled. The only place that imports numba.

Two kinds of functions: an `entry` is called from Python, a `kernel` from an entry or another kernel. Both work in arrays
they are given and allocate nothing, so numba's reference counting is left out: with it, building took 1.4 times as long,
and two threads spent their time on each other's counters. A kernel has no way in from Python, which halves the time
to compile it. An `inlined` kernel is a small one: a tree is some eighty words, and passing them on the stack costs more
than what small kernels do. A `pasted` kernel is a part of another that has one caller: it is never compiled by itself. A `shared`
kernel is a large one with several callers, which call it by its address: numba otherwise makes a copy of it for each caller, and
optimises that copy again.

Whole numbers are int64 in every signature, except slots, which are int32: one type each, so each kernel compiles once.
Numba gives a literal argument a type of its own: large kernels are called with ``np.int64(0)``, not ``0``.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils, event, types
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

# What a shared kernel may return.
NONE, BOOLEAN, INTEGER = types.none, types.boolean, types.int64


class Shared:
    """A kernel that its callers call by address, which is in a cell with a name that the linker knows.

    ``result`` is the type of what it returns, and ``examples()`` are examples of its arguments: callers are compiled, and loaded from
    the cache, without it. Before any of them runs, somebody must `make_ready`: `resolve` does, for what an entry is `calling`.
    """

    def __init__(self, function: Callable, result: Any, examples: Callable[[], tuple]) -> None:
        self._kernel = kernel(function)
        self._result = result
        self._examples = examples
        self._types: tuple | None = None
        self._cell = np.zeros(1, np.int64)
        self._name = f"{function.__module__}.{function.__name__}"
        binding.add_symbol(self._name, self._cell.ctypes.data)

    def _argument_types(self) -> tuple:
        if self._types is None:
            self._types = tuple(numba.typeof(example) for example in self._examples())
        return self._types

    def compile(self) -> Any:
        """Compile it, or load it from the cache."""
        compiled = _compile_types(self._kernel, self._argument_types())
        if compiled.signature.return_type != self._result:
            raise TypeError(f"{self._name} returns {compiled.signature.return_type}, not {self._result}")
        return compiled

    def make_ready(self) -> None:
        """Let callers find it."""
        if self._cell[0] == 0:
            compiled = self.compile()
            self._cell[0] = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)

    def type_call(self, typing: Any, *args: Any) -> Any:
        """What numba makes of a call in another kernel."""
        if args != self._argument_types():
            raise numba.TypingError(f"{self._name} is called with {args}, not {self._argument_types()}")
        return self._result(*args), self._generate

    def _generate(self, context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = context.call_conv.get_function_type(self._result, signature.args)
        try:
            cell = builder.module.get_global(self._name)
        except KeyError:
            cell = ir.GlobalVariable(builder.module, kind.as_pointer(), self._name)
        status, value = context.call_conv.call_function(builder, builder.load(cell), self._result, signature.args, args)
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return value


def shared(result: Any, examples: Callable[[], tuple]) -> Callable[[Callable], Any]:
    """A `Shared` kernel, as its callers see it."""

    def decorate(function: Callable) -> Any:
        if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            return function
        one = Shared(function, result, examples)

        def call(*args: Any) -> Any:
            return one.type_call(*args)

        parameters = inspect.signature(function).parameters.values()
        first = inspect.Parameter("typing", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        call.__signature__ = inspect.Signature([first, *parameters])  # type: ignore[attr-defined]
        call.__name__ = call.__qualname__ = function.__name__
        call.__doc__ = function.__doc__
        call.__module__ = function.__module__
        caller: Any = intrinsic(call)
        caller.shared = one
        return caller

    return decorate


def calling(*kernels: Any) -> Callable[[Any], Any]:
    """An entry that calls these `shared` kernels, itself or through one of them."""

    def decorate(entry: Any) -> Any:
        entry.calls = tuple(kernel.shared for kernel in kernels if hasattr(kernel, "shared"))
        return entry

    return decorate


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


def _bound_columns(width: int) -> Callable:
    """The smallest and largest of so many columns of some rows, which are there, from one column on, into a box.

    Numba's compiler is asked to look for loops that fit vector registers, but not for statements that do.
    """

    def bound(typing: Any, rows: Any, start: Any, end: Any, column: Any, box: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            number, several = ir.IntType(64), ir.VectorType(ir.DoubleType(), width)
            first, last, at = (context.cast(builder, args[k], signature.args[k], types.int64) for k in (1, 2, 3))

            def find(view: Any, row: Any) -> Any:
                start = builder.bitcast(view.data, ir.IntType(8).as_pointer())
                before = builder.mul(row, builder.extract_value(view.strides, 0))
                address = builder.gep(start, [builder.add(before, builder.mul(at, number(8)))])
                return builder.bitcast(address, several.as_pointer())

            given = context.make_array(signature.args[0])(context, builder, args[0])
            own = context.make_array(signature.args[4])(context, builder, args[4])
            found = builder.load(find(given, first), align=8)
            low, high = (cgutils.alloca_once_value(builder, found) for _ in range(2))
            with cgutils.for_range_slice(builder, builder.add(first, number(1)), last, number(1), number) as (row, _):
                found = builder.load(find(given, row), align=8)
                for bound, sign in ((low, "<"), (high, ">")):
                    known = builder.load(bound)
                    builder.store(builder.select(builder.fcmp_ordered(sign, found, known), found, known), bound)
            builder.store(builder.load(low), find(own, number(0)), align=8)
            builder.store(builder.load(high), find(own, number(1)), align=8)
            return context.get_dummy_value()

        return types.void(rows, start, end, column, box), generate

    def bound_uncompiled(rows: np.ndarray, start: int, end: int, column: int, box: np.ndarray) -> None:
        part = rows[start:end, column : column + width]
        box[0, column : column + width] = part.min(axis=0)
        box[1, column : column + width] = part.max(axis=0)

    return bound_uncompiled if numba.config.DISABLE_JIT else intrinsic(bound)  # type: ignore[attr-defined]


fetch: Any = _fetch_nothing if numba.config.DISABLE_JIT else intrinsic(_fetch)  # type: ignore[attr-defined]
bound_eight: Any = _bound_columns(8)
bound_four: Any = _bound_columns(4)


def compile_for(kernel: Any, args: tuple) -> Any:
    """The compiled version of an entry, or of a shared kernel, for arguments of the types of ``args``; loaded from the cache if there."""
    if hasattr(kernel, "shared"):
        return kernel.shared.compile()
    if not hasattr(kernel, "overloads"):
        return kernel  # kernels run uncompiled
    return _compile_types(kernel, tuple(numba.typeof(arg) for arg in args))


def _compile_types(kernel: Any, kinds: tuple) -> Any:
    if kinds not in kernel.overloads:
        kernel.compile(kinds)
    return kernel.overloads[kinds]


def resolve(entry: Any, args: tuple) -> Callable:
    """The compiled version of an entry for arguments of the types of ``args``, and of no other: it does not look at them.

    Numba chooses a version at each call by the types of all arrays in all arguments: 7 µs for a forest and its scratch space,
    a quarter of what learning a row with 10 trees takes. Called directly, the version starts after 1 µs.
    """
    if not hasattr(entry, "overloads"):
        return entry  # kernels run uncompiled
    for kernel in getattr(entry, "calls", ()):
        kernel.make_ready()
    compiled = compile_for(entry, args).entry_point
    return lambda *args: compiled(
        *args
    )  # whoever counts memory walks into `compiled`, and on into numba, but not into functions


class NotCompiledError(Exception):
    """A kernel is not in the cache."""


class _Watch(event.Listener):
    """Hears of every kernel that is about to be compiled, because it is not in the cache.

    Lets Python's garbage collector rest meanwhile: compiling makes millions of objects, most of which stay, and looking through
    them for garbage again and again took a tenth of the time.
    """

    _outermost: Any = None
    forbidden = False

    def on_start(self, event: event.Event) -> None:
        dispatcher = event.data["dispatcher"]
        if not dispatcher.py_func.__module__.startswith(f"{__name__.partition('.')[0]}."):
            return
        if self.forbidden:
            raise NotCompiledError(dispatcher.py_func.__name__)
        if self._outermost is None and gc.isenabled():
            self._outermost = dispatcher
            gc.disable()

    def on_end(self, event: event.Event) -> None:
        if event.data["dispatcher"] is self._outermost:
            self._outermost = None
            gc.enable()


_watch = _Watch()
event.register("numba:compile", _watch)


@contextmanager
def only_cached() -> Iterator[None]:
    """Within it, a kernel that is not in the cache is not compiled: `NotCompiledError`."""
    _watch.forbidden = True
    try:
        yield
    finally:
        _watch.forbidden = False
