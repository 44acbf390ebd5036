"""The engine: rows in, rows out, trees with the exact law. It knows nothing of scikit-learn, river, files or the command."""
