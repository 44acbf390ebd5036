"""Files for the command to read."""

from __future__ import annotations

import csv


def write_rows(path, header, rows) -> str:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)
