"""``python -m bspforest.cli`` is the same as ``bspforest``."""

from .main import main

raise SystemExit(main())
