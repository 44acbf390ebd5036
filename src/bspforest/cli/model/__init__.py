"""Model files of the command: the record saved beside the forest, and checkpoints."""
