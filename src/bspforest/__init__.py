"""Online binary space partitioning forests: random forests that learn data streams row by row and unlearn rows exactly.

`BSPForestClassifier` and `BSPForestRegressor` are scikit-learn estimators; `load` reads a forest that was saved with ``forest.save``.
`bspforest.river` has the same forests as river models.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .estimators import BSPForestClassifier, BSPForestRegressor
    from .files import ModelFileError, load
    from .sizes import estimate_size

__all__ = ["BSPForestClassifier", "BSPForestRegressor", "ModelFileError", "estimate_size", "load"]
__version__ = "0.1.0"

# Imported on first use: importing numba and scikit-learn takes a second, which `bspforest --help` should not cost.
_HOMES = {
    "BSPForestClassifier": "estimators",
    "BSPForestRegressor": "estimators",
    "ModelFileError": "files",
    "estimate_size": "sizes",
    "load": "files",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
