"""A local page on which a person sees real forests learn: `Session` holds them, `ExploreServer` serves the page.

One person, one machine: the server listens on 127.0.0.1 only, and every address of it starts with a random token.
"""

from .server import ExploreServer
from .session import Session
from .streams import STREAMS, PlaneStream, make_stream

__all__ = ["STREAMS", "ExploreServer", "PlaneStream", "Session", "make_stream"]
