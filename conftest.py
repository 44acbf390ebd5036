"""Modules that need an extra are not collected for their doctests where it is not installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("river") else ["src/bspforest/river"]
