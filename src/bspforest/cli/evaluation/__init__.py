"""Test-then-train evaluation: the forest, its baselines, and their scores."""
