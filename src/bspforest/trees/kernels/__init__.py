"""The compiled functions. They work in the arrays of `bspforest.trees.layout` and allocate nothing."""
