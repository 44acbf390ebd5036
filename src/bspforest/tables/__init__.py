"""Tables as rows of numbers: what the estimators and the command do to columns with gaps, text and categories."""

from .columns import Column
from .encoder import TableEncoder
from .reading import Table, is_frame, read_table

__all__ = ["Column", "Table", "TableEncoder", "is_frame", "read_table"]
