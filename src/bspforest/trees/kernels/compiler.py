"""How numba compiles kernels: in two thirds of the time, to code that is as fast. Used by `jit` only.

- A kernel that is inlined into its callers is optimised there, and not by itself.
- Code is optimised once. Numba does so twice, to prune reference counts, of which kernels have none.
- Loops are not vectorised by LLVM: those where it matters are written with vector instructions (`jit.bound_eight`).
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.typed_passes import NopythonTypeInference


class _InlinedLibrary(JITCodeLibrary):
    """The code of a kernel that is inlined."""

    def _optimize_final_module(self) -> None:
        """Leave it as it is."""


class _Library(JITCodeLibrary):
    """The code of any other kernel."""

    def _optimize_final_module(self) -> None:
        manager, builder = self._codegen._module_pass_manager(loop_vectorize=False)
        manager.run(self._final_module, builder)


@register_pass(mutates_CFG=False, analysis_only=True)
class _ChooseLibrary(FunctionPass):
    """Choose what code is kept in, before it is made."""

    _name = "bspforest_choose_library"

    def __init__(self) -> None:
        FunctionPass.__init__(self)  # abstract there

    def run_pass(self, state: Any) -> bool:
        library = _InlinedLibrary if state.flags.forceinline else _Library
        state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return False  # nothing that numba must look at again


class KernelCompiler(CompilerBase):
    """The steps in which numba compiles a kernel."""

    def define_pipelines(self) -> list[Any]:
        """Return the usual steps, with `_ChooseLibrary` among them."""
        steps = DefaultPassBuilder.define_nopython_pipeline(self.state)
        steps.add_pass_after(_ChooseLibrary, NopythonTypeInference)
        steps.finalize()
        return [steps]
