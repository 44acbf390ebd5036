"""Names of classes, columns and files as the page shows them: anybody's text, on one line and kept to itself."""

from __future__ import annotations

import unicodedata

MAX_SHOWN = 40  # characters
MAX_WHOLE = 1000  # characters of a name in full, shown on hovering

# Marks around text that has its own direction: it cannot turn around what stands beside it.
ISOLATE, END = "\u2068", "\u2069"

# Control, format, separator and surrogate characters; of these, two join letters and emoji, and are harmless.
_HIDDEN = {"Cc", "Cf", "Zl", "Zp", "Cs"}
_JOINERS = "\u200c\u200d"


def show_name(name: str, most: int = MAX_SHOWN) -> str:
    """Return a name of at most about ``most`` characters, with hidden characters escaped.

    Names are cut in the middle: those of many classes or columns begin alike.

    >>> show_name("two\\nlines")
    'two\\\\nlines'
    >>> show_name("a" * 30 + "b" * 30)
    'aaaaaaaaaaaaaaaaaaaaaaaa…bbbbbbbbbbbbbbb'
    """
    if len(name) > most:
        end = 3 * most // 8
        name = f"{name[: most - 1 - end]}…{name[-end:]}"
    text = "".join(_escape(letter) for letter in name)
    is_turned = any(unicodedata.bidirectional(letter) in ("R", "AL", "AN") for letter in text)
    return f"{ISOLATE}{text}{END}" if is_turned else text


def _escape(letter: str) -> str:
    is_hidden = unicodedata.category(letter) in _HIDDEN and letter not in _JOINERS
    return letter.encode("unicode_escape").decode() if is_hidden else letter
