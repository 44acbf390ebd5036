"""The command ``bspforest``: an online forest for a growing CSV, a Parquet folder or a pipe, without writing Python.

Rows go one way: a *source* reads a file in blocks (`sources`), a *stream* cuts them into chunks of a fixed number of
rows, encoded as numbers (`stream`, `encoding`, `target`), and a command hands the chunks to a forest (`evaluate`,
`learn`, `predict`). Memory is that of a block, a chunk and the forest, however long the file.
"""
