"""Compiled functions that predict: they read trees, and know of duals and labels."""
