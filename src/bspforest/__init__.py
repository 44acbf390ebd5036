"""Random forests that learn from a stream, exactly: online binary space partitioning forests."""

from typing import Any

from .estimators import BSPForestClassifier, BSPForestRegressor

__all__ = ["BSPForestClassifier", "BSPForestRegressor", "ModelFileError", "load"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in ("ModelFileError", "load"):  # imported when first asked for: most programs do not read files
        from . import persistence

        return getattr(persistence, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
