"""Decorators that compile kernels. With `compiler` and `jit_cache`, the only module that imports numba.

============================  ==========================================================================================
`entry_point`                 Called from Python, with examples of its arguments, so that it can be compiled ahead.
`kernel`                      Called from other kernels only. Without a wrapper for Python it compiles in half the time.
`always_inline`               A small kernel, inlined by LLVM: a tree is some eighty words, and passing them on the stack
                              costs more than what small kernels do.
`inline_source`               A part of one caller, inlined before type inference: never compiled by itself.
`called_by_address`           A large kernel with several callers. Numba would compile a copy of it into each of them.
============================  ==========================================================================================

Kernels work in arrays they are given and allocate nothing, so numba's reference counting is left out: with it, building
took 1.4 times as long, and threads contended for the counters.

Integers are int64 in every signature, except slots, which are int32: one type each, so each kernel compiles once. Numba
gives a literal argument a type of its own: large kernels are called with ``np.int64(0)``, not ``0``.
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

from .compiler import KernelCompiler
from .jit_cache import keep_compiled

_DISABLED: bool = numba.config.DISABLE_JIT  # type: ignore[attr-defined]

_options: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,
    "no_cfunc_wrapper": True,
}
_internal: dict[str, Any] = {**_options, "no_cpython_wrapper": True}


def _kept(**options: Any) -> Callable[[Callable], Any]:
    """Return a decorator that compiles with these options, and keeps what it has compiled."""
    decorate = numba.njit(**options, pipeline_class=KernelCompiler)
    return lambda function: keep_compiled(decorate(function))


_entry: Any = _kept(**_options)
kernel: Any = _kept(**_internal)
always_inline: Any = _kept(**_internal, forceinline=True)
inline_source: Any = _kept(**_options, inline="always")

# Return types of kernels that are `called_by_address`.
NONE, BOOLEAN, INTEGER = types.none, types.boolean, types.int64


# All kernels that are compiled by themselves, by name, each with a function that returns examples of its arguments.
registered: dict[str, tuple[Any, Callable[[], tuple]]] = {}


def _register(function: Callable, compiled: Any, examples: Callable[[], tuple]) -> None:
    """Note a kernel of this package in `registered`."""
    if _is_of_package(function):
        if function.__name__ in registered:
            raise ValueError(f"two kernels are called {function.__name__}")
        registered[function.__name__] = (compiled, examples)


def _is_of_package(function: Callable) -> bool:
    return function.__module__.startswith(f"{__name__.partition('.')[0]}.")


def entry_point(examples: Callable[[], tuple]) -> Callable[[Callable], Any]:
    """Compile a function to be called from Python, by way of `resolve`.

    The kernels it calls by address, directly or through others, are found by following the names in its code.

    Parameters
    ----------
    examples : callable
        Returns examples of its arguments.
    """

    def decorate(function: Callable) -> Any:
        compiled = _entry(function)
        if not _DISABLED:
            compiled.called_by_address = tuple(_find_called(function))
        _register(function, compiled, examples)
        return compiled

    return decorate


def _find_called(function: Callable) -> list[AddressedKernel]:
    """Return the kernels that a function calls by address, directly or through other kernels."""
    found: dict[int, AddressedKernel] = {}
    seen: set[Any] = set()
    pending = [function]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        for name in current.__code__.co_names:
            callee: Any = current.__globals__.get(name)
            if hasattr(callee, "addressed"):
                found[id(callee.addressed)] = callee.addressed
                pending.append(callee.addressed.function)
            elif hasattr(callee, "py_func"):
                pending.append(callee.py_func)
    return list(found.values())


class AddressedKernel:
    """A kernel that its callers call through a pointer, kept in a cell that the linker knows by name.

    Callers are compiled and loaded from the cache without it. `resolve` makes it ready before an entry point runs.

    Parameters
    ----------
    function : callable
    result : numba type
        What it returns.
    examples : callable
        Returns examples of its arguments.
    """

    def __init__(self, function: Callable, result: Any, examples: Callable[[], tuple]) -> None:
        self.function = function
        self.dispatcher = kernel(function)
        self._result = result
        self._examples = examples
        self._types: tuple | None = None
        self._cell = np.zeros(1, np.int64)
        self._name = f"{function.__module__}.{function.__name__}"
        binding.add_symbol(self._name, self._cell.ctypes.data)

    def argument_types(self) -> tuple:
        """Return the numba types of its arguments."""
        if self._types is None:
            self._types = tuple(numba.typeof(example) for example in self._examples())
        return self._types

    def compile(self) -> Any:
        """Compile it, or load it from the cache."""
        compiled = _compile_types(self.dispatcher, self.argument_types())
        if compiled.signature.return_type != self._result:
            raise TypeError(f"{self._name} returns {compiled.signature.return_type}, not {self._result}")
        return compiled

    def make_ready(self) -> None:
        """Set the pointer that callers follow."""
        if self._cell[0] == 0:
            compiled = self.compile()
            self._cell[0] = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)

    def type_call(self, typing: Any, *args: Any) -> Any:
        """Type a call from another kernel, for numba."""
        if args != self.argument_types():
            raise numba.TypingError(f"{self._name} is called with {args}, not {self.argument_types()}")
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


def called_by_address(result: Any, examples: Callable[[], tuple]) -> Callable[[Callable], Any]:
    """Compile a kernel once for all its callers: see `AddressedKernel`."""

    def decorate(function: Callable) -> Any:
        if _DISABLED:
            _register(function, function, examples)
            return function
        one = AddressedKernel(function, result, examples)

        def call(*args: Any) -> Any:
            return one.type_call(*args)

        parameters = inspect.signature(function).parameters.values()
        first = inspect.Parameter("typing", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        call.__signature__ = inspect.Signature([first, *parameters])  # type: ignore[attr-defined]
        call.__name__ = call.__qualname__ = function.__name__
        call.__doc__ = function.__doc__
        call.__module__ = function.__module__
        caller: Any = intrinsic(call)
        caller.addressed = one
        _register(function, caller, examples)
        return caller

    return decorate


def _prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Prefetch ``array[index]`` without blocking."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        at = context.cast(builder, args[1], signature.args[1], types.int64)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        start = builder.bitcast(view.data, byte)
        address = builder.gep(start, [builder.mul(at, builder.extract_value(view.strides, 0))])
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        builder.call(prefetch, [address, number(0), number(3), number(1)])  # for reading, into all cache levels, data
        return context.get_dummy_value()

    return types.void(array, index), generate


def _prefetch_nothing(array: Any, index: Any) -> None:
    """Replace `_prefetch` where kernels run uncompiled."""


def _bound_columns(width: int) -> Callable:
    """Make a kernel that bounds ``width`` columns of at least one row, with vector instructions.

    LLVM, as numba runs it, vectorises loops over rows but not the statements for several columns of one row.
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

    return bound_uncompiled if _DISABLED else intrinsic(bound)


prefetch: Any = _prefetch_nothing if _DISABLED else intrinsic(_prefetch)
bound_eight: Any = _bound_columns(8)
bound_four: Any = _bound_columns(4)


def compile_for(kernel: Any, args: tuple) -> Any:
    """Return the version of a kernel for arguments of the types of ``args``, compiled or loaded from the cache."""
    if hasattr(kernel, "addressed"):
        return kernel.addressed.compile()
    if not hasattr(kernel, "overloads"):
        return kernel  # kernels run uncompiled
    return _compile_types(kernel, tuple(numba.typeof(arg) for arg in args))


def _compile_types(kernel: Any, kinds: tuple) -> Any:
    if kinds not in kernel.overloads:
        kernel.compile(kinds)
    return kernel.overloads[kinds]


def resolve(entry: Any, args: tuple) -> Callable:
    """Return the version of an entry point for arguments of the types of ``args``. It does not check types.

    Numba chooses a version at each call by the types of all arrays in all arguments: 7 µs for a forest and its scratch
    space, a quarter of what learning a row with 10 trees takes. Called directly, the version starts after 1 µs.
    """
    if not hasattr(entry, "overloads"):
        return entry  # kernels run uncompiled
    for addressed in entry.called_by_address:
        addressed.make_ready()
    compiled = compile_for(entry, args).entry_point
    # A function, because tools that measure memory walk from `compiled` into all of numba, but not into functions.
    return lambda *args: compiled(*args)


class NotCompiledError(Exception):
    """A kernel is not in the cache."""


class _CompileListener(event.Listener):
    """Forbid compiling within `only_cached`, and pause the garbage collector while numba compiles.

    Compiling makes millions of objects, most of which stay: collecting took a tenth of the time.
    """

    _outermost: Any = None
    forbidden = False

    def on_start(self, event: event.Event) -> None:
        dispatcher = event.data["dispatcher"]
        if not _is_of_package(dispatcher.py_func):
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


_listener = _CompileListener()
event.register("numba:compile", _listener)


@contextmanager
def only_cached() -> Iterator[None]:
    """Raise `NotCompiledError` instead of compiling a kernel that is not in the cache."""
    _listener.forbidden = True
    try:
        yield
    finally:
        _listener.forbidden = False
