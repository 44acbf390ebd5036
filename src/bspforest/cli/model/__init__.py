"""Model files as the command keeps them: what is recorded beside the forest, and checkpoints."""
