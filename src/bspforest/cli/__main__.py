"""``python -m bspforest.cli`` is the same as ``bspforest``."""

from .main import main

if __name__ == "__main__":
    raise SystemExit(main())
