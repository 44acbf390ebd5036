"""From files and pipes to chunks of numbers for a forest.

The path of a row: `sources` opens DATA as a CSV (`csv_source`) or typed (`table_sources`) source, which yields `blocks`
of rows with columns converted to their kinds (`column_kinds`, `notation`); in CSV, lines that are no rows are blanked first
(`csv_records`, `csv_cleaning`). A `stream` encodes them as numbers (`encoding`, `target`)
and cuts them into chunks of a fixed number of rows. `stream_setup` chooses the encoding from the first rows, or takes it
from a model; `hints` says what may help if columns are not as expected.
"""
