"""Model files: a forest in one file, without pickle, read back bit for bit."""

from .header import ModelFileError
from .saver import Saver, load, load_with_extra, read_header, save

__all__ = ["ModelFileError", "Saver", "load", "load_with_extra", "read_header", "save"]
