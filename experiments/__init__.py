"""Reproduction of the paper's experiments: one module per table or figure, and a common runner."""
