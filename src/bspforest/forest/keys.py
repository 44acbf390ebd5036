"""What the user calls the rows that are held: keys, by which they can be forgotten."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from numbers import Integral
from typing import Any
from uuid import UUID

import numpy as np

# Bytes of a key, at most. Longer ones can be hashed.
LONGEST = 256

DIGEST_BYTES = SALT_BYTES = 16


class KeyTable:
    """The keys of rows, by id. A row need not have one, and several rows may have the same.

    Keys are bytes of UTF-8, all in one array, where they are overwritten with zeros when their rows are forgotten.

    Parameters
    ----------
    salt : bytes
        Not empty: keys are hashed with it.

    Examples
    --------
    >>> table = KeyTable()
    >>> table.add(0, 4, table.encode(["ann", "bob", "ann", None]))
    >>> table.find(table.encode(["ann"])).tolist()
    [0, 2]
    >>> table.wipe(np.array([0]))
    >>> table.get(np.array([0, 1, 2, 3]))
    [None, 'bob', 'ann', None]
    """

    def __init__(self, salt: bytes = b"") -> None:
        self.salt = salt
        self.first = 0  # the id of the first entry
        self.entries = np.empty(0, dtype="S1")

    def copy(self) -> KeyTable:
        """Return a table with an array of its own."""
        other = KeyTable(self.salt)
        other.first, other.entries = self.first, self.entries.copy()
        return other

    @property
    def width(self) -> int:
        """Bytes per key; 0 if there is none."""
        return self.entries.dtype.itemsize if len(self.entries) else 0

    @property
    def nbytes(self) -> int:
        return self.entries.nbytes

    def encode(self, keys: Iterable[Any]) -> np.ndarray:
        """Return keys as the table holds them: whole numbers as text, missing ones empty, hashed if it has a salt."""
        encoded = [self._encode(key, k) for k, key in enumerate(keys)]
        return np.array(encoded, dtype=f"S{max(map(len, encoded), default=1) or 1}")

    def _encode(self, key: Any, k: int) -> bytes:
        if key is None or (isinstance(key, float | np.floating) and key != key):
            return b""
        if isinstance(key, Integral) and not isinstance(key, bool | np.bool_):
            key = int(key)
        elif not isinstance(key, str | UUID):
            raise TypeError(
                f"a key must be text or a whole number, got {key!r:.60} of type {type(key).__name__} in row {k}"
            )
        try:
            data = str(key).encode()
        except UnicodeEncodeError:
            raise ValueError(f"key {str(key)!r:.60} in row {k} is not valid Unicode") from None
        if not data or b"\0" in data:
            raise ValueError(f"key {str(key)!r:.60} in row {k} is empty or holds the character NUL")
        if self.salt:
            return hashlib.blake2b(data, digest_size=DIGEST_BYTES, key=self.salt).hexdigest().encode()
        if len(data) > LONGEST:
            raise ValueError(
                f"key {str(key)!r:.60} in row {k} has {len(data)} bytes, at most {LONGEST} are possible: hash_keys=True "
                "shortens keys"
            )
        return data

    def add(self, first: int, n_rows: int, keys: np.ndarray | None) -> None:
        """Add the encoded keys, if any, of rows with consecutive ids from ``first`` on, which are larger than all before.

        Whatever was added for these ids by a call that was then given up is overwritten.
        """
        if keys is None:
            if len(self.entries):
                self.entries[max(0, first - self.first) : max(0, first + n_rows - self.first)] = b""
            return
        if not len(self.entries) or first < self.first:  # nothing but room is left
            self.first, self.entries = first, keys.copy()
            return
        n = first - self.first + len(keys)
        width = max(self.entries.dtype.itemsize, keys.dtype.itemsize)
        if n > len(self.entries) or width > self.entries.dtype.itemsize:
            larger = np.zeros(max(n, 3 * len(self.entries) // 2), dtype=f"S{width}")
            larger[: len(self.entries)] = self.entries
            old, self.entries = self.entries, larger
            old[:] = b""  # which is no longer part of the forest, but may be kept by the system for a while
        self.entries[n - len(keys) : n] = keys

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Return the ids of all rows with one of some encoded keys."""
        return self.first + np.flatnonzero(np.isin(self.entries, keys[keys != b""]))

    def get(self, ids: np.ndarray) -> list[str | None]:
        """Return the keys of rows as text, None for those without."""
        at = ids - self.first
        inside = (at >= 0) & (at < len(self.entries))
        found = np.zeros(len(ids), dtype=self.entries.dtype)
        found[inside] = self.entries[at[inside]]
        return [entry.decode() or None for entry in found.tolist()]

    def keep(self, ids: np.ndarray) -> None:
        """Wipe the keys of all rows but these."""
        every = self.first + np.arange(len(self.entries))
        self.wipe(every[~np.isin(every, ids)])

    def wipe(self, ids: np.ndarray) -> None:
        """Overwrite the keys of rows with zeros, and drop the first entries if they were the last with a key."""
        if not len(self.entries):
            return
        at = ids - self.first
        at = at[(at >= 0) & (at < len(self.entries))]
        self.entries[at] = b""
        n = 0
        while n < len(self.entries) and self.entries[n] == b"" and n <= len(at):
            n += 1
        self.entries, self.first = self.entries[n:], self.first + n

    def export(self, first: int, n: int) -> np.ndarray:
        """Return the keys of n rows from the id ``first`` on as bytes, of shape (n, width); no columns if none has a key.

        The width is a multiple of 8.
        """
        keys = np.zeros(n, dtype=f"S{-(-self.entries.dtype.itemsize // 8) * 8}")
        begin, end = max(first, self.first), min(first + n, self.first + len(self.entries))
        if begin < end:
            keys[begin - first : end - first] = self.entries[begin - self.first : end - self.first]
        if not (keys != b"").any():
            return np.zeros((n, 0), dtype=np.uint8)
        return keys.view(np.uint8).reshape(n, -1)

    @classmethod
    def restore(cls, salt: bytes, first: int, exported: np.ndarray) -> KeyTable:
        """Return a table with keys that `export` returned."""
        table = cls(salt)
        if exported.size:
            table.first = first
            table.entries = np.ascontiguousarray(exported).view(f"S{exported.shape[1]}").ravel().copy()
        return table
