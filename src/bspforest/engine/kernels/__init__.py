"""The compiled functions. They work in the arrays of `bspforest.engine.arrays` and allocate nothing."""
