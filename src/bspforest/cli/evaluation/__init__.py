"""What ``bspforest evaluate`` runs along a stream: the forest, its baselines, and their scores."""
