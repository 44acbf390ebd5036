"""The command ``bspforest``: online forests for CSV files, Parquet folders and pipes, without writing Python.

`main` parses the arguments (`parser`, with the types and groups of arguments beside it) and runs one of `commands`.
`data` reads files and pipes as chunks of numbers, `model` reads and writes model files, and `evaluation` scores the
forest and its baselines. Memory use does not depend on the length of the data: one block, one chunk and the forest.
"""
