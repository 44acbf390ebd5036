"""Tables encoded chunk by chunk."""

from __future__ import annotations

import numpy as np

from bspforest.tables import TableEncoder, read_table


def stream(frame, size, max_categories=64):
    """Encode a frame in chunks; return the encoder and all rows in its features."""
    encoder, held = None, np.empty((0, 0))
    for start in range(0, len(frame), size):
        table = read_table(frame[start : start + size])
        encoder = encoder or TableEncoder.begin(table, list(frame.columns), max_categories=max_categories)
        before = encoder
        encoder, rows = before.learn(table, start, start)
        if encoder.must_convert(before):
            held = encoder.convert(held.reshape(start, -1) if start else np.empty((0, before.width)), before)
        held = np.concatenate([held.reshape(start, encoder.width), rows])
    return encoder, held
