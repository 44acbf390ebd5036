"""One module per command of ``bspforest``, each with a function ``run``."""
