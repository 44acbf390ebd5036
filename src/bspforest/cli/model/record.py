"""The record that the command saves beside the forest: the encoding, the target, and how far each source was learned."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...persistence import saver as persistence
from ..errors import CommandError

if TYPE_CHECKING:
    from ..data.encoding import Encoder
    from ..data.stream import Stream
    from ..data.target import Target

KEY, FORMAT = "command", 1


@dataclass
class Record:
    """The command's part of a model file. ``sources`` are in the order in which they were learned, the current last."""

    columns: list[dict[str, Any]]
    target: dict[str, Any]
    dropped: list[str]
    chunk_rows: int
    sources: list[dict[str, Any]] = field(default_factory=list)

    def make_encoder(self) -> Encoder:
        """The encoder, as it was when the model was saved."""
        from ..data.encoding import Encoder

        return Encoder.from_json(self.columns)

    def make_target(self) -> Target:
        """The target."""
        from ..data.target import Target

        return Target(**self.target)

    def to_extra(self, stream: Stream) -> dict[str, Any]:
        """For the model file, now that all rows the stream has given out are learned."""
        current = {"first": stream.first, **self.sources[-1]}  # a stream that was resumed began with larger chunks
        current |= {"rows": stream.n_rows, "skipped": stream.n_skipped, "crc": list(stream.crc)}
        return {
            KEY: {
                "format": FORMAT,
                "columns": stream.encoder.to_json(),
                "target": self.target,
                "dropped": self.dropped,
                "chunk_rows": self.chunk_rows,
                "sources": [*self.sources[:-1], current],
            }
        }


def parse_record(extra: dict[str, Any] | None, path: Path) -> Record:
    """The record in the extra of a model file."""
    if not extra or KEY not in extra:
        raise CommandError(
            f"{path} was saved from Python, without names of columns: the command cannot read data for it"
        )
    content = dict(extra[KEY])
    number = content.pop("format", None)
    if number != FORMAT:
        raise CommandError(f"{path}: the notes of the command have format {number}, and {FORMAT} is expected")
    try:
        record = Record(**content)
        record.make_encoder(), record.make_target()
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise CommandError(f"{path}: the notes of the command are not complete: {error}") from None
    return record


def load_model(path: Path, *, to_change: bool = False) -> tuple[Any, Record]:
    """The forest in a model file, and the record beside it."""
    forest, extra = persistence.load_with_extra(path, check="fully" if to_change else True)
    return forest, parse_record(extra, path)
