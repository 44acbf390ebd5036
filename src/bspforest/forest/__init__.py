"""What a forest answers: from the statistics in its leaves to predictions."""
