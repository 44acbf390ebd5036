"""The HTTP server of a session: the page, and its requests. For one person on this machine."""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from .. import __version__
from .assets import make_page
from .checks import (
    MAX_AT_ONCE,
    MAX_COUNT,
    get_choice,
    get_count,
    get_number,
    get_revision,
    get_start,
    get_view,
    get_window,
    parse_body,
)
from .learner import Row
from .pictures import View
from .session import Refused, Session, Stale, describe_choices

HOST = "127.0.0.1"
MAX_BYTES = 16_384  # in the body of a request
LINGER = 2.0  # seconds in which the rest of a refused request may arrive
JSON = "application/json"

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class RequestError(Exception):
    """A request that is refused, with its status and headers."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


def _learn(session: Session, content: dict[str, Any], view: View) -> str:
    return session.learn(get_count(content, "rows", 1, MAX_AT_ONCE), view.models)


def _add(session: Session, content: dict[str, Any], view: View) -> str:
    row = Row(get_number(content, "x"), get_number(content, "y"), get_number(content, "label"))
    return session.add(row, view.models)


def _forget(session: Session, content: dict[str, Any], view: View) -> str:
    return session.forget(get_count(content, "id", 0, MAX_COUNT), view.models)


def _undo(session: Session, content: dict[str, Any], view: View) -> str:
    return session.undo(view.models)


def _reset(session: Session, content: dict[str, Any], view: View) -> str:
    return session.reset(get_choice(content, "stream", tuple(session.stream_names)))


def _hold(session: Session, content: dict[str, Any], view: View) -> str:
    return session.hold(get_window(content))


# What changes a session, by the name in the address. Each returns a sentence about what happened.
CHANGES: dict[str, Callable[[Session, dict[str, Any], View], str]] = {
    "learn": _learn,
    "add": _add,
    "forget": _forget,
    "undo": _undo,
    "reset": _reset,
    "hold": _hold,
}
REQUESTS = ("state", "place", *CHANGES)


def answer(session: Session, request: str, content: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON answer to a request of a page."""
    view = get_view(content, session)
    known = get_revision(content)
    with session.lock:  # once, so that no change of another page comes between
        if request == "place":
            return {"start": session.n_starts, "places": session.read_place(view)}
        message = ""
        if request in CHANGES:
            if request != "reset":  # which is about no rows
                session.check_start(get_start(content))
            message = CHANGES[request](session, content, view)
        return {"message": message, **session.describe(view, known)}


class ExploreServer(ThreadingHTTPServer):
    """Serve a session on 127.0.0.1, at addresses that start with a random token.

    Parameters
    ----------
    session : Session
    port : int, default=0
        0 takes any free port.

    Attributes
    ----------
    url : str
        The address of the page.
    """

    daemon_threads = True

    def __init__(self, session: Session, port: int = 0) -> None:
        self.session = session
        self.token = secrets.token_urlsafe(24)
        super().__init__((HOST, port), _Handler)
        number = self.server_address[1]
        self.hosts = (f"{HOST}:{number}", f"localhost:{number}")
        self.url = f"http://{self.hosts[0]}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about a page that was closed before it was answered."""


class _Handler(BaseHTTPRequestHandler):
    server: ExploreServer
    server_version = f"bspforest/{__version__}"
    sys_version = ""
    timeout: ClassVar[float] = 30  # seconds for a request to arrive

    def do_GET(self) -> None:
        self._reply()

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what the base class refuses, such as unknown methods and long headers, as other refusals."""
        if self.request_version == "HTTP/0.9":  # assumed of lines that are no request, and without any head
            self.request_version = self.protocol_version
        text = (message or self.responses[code][0])[:200]
        self._send(code, JSON, _encode({"error": text}), {"Connection": "close"})
        self._linger()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal quiet; addresses contain the token."""

    def _reply(self) -> None:
        more = {}
        try:
            request = self._check_address()
            if request:
                status, kind, content = 200, JSON, _encode(self._answer(request))
            else:
                self._check_method("GET", "HEAD")
                page, policy = make_page(describe_choices(self.server.session))
                status, kind, content = 200, "text/html; charset=utf-8", page.encode()
                more = {"Content-Security-Policy": policy}
        except RequestError as error:
            status, kind, content, more = error.status, JSON, _encode({"error": str(error)}), error.headers
        except Refused as error:
            status = 409 if isinstance(error, Stale) else 400
            kind, content = JSON, _encode({"error": str(error)})
        except Exception as error:
            message = f"{type(error).__name__}: {error} (this is a mistake in bspforest)"
            status, kind, content = 500, JSON, _encode({"error": message})
        self._send(status, kind, content, more)
        if status != 200:
            self._linger()

    def _send(self, status: int, kind: str, content: bytes, more: dict[str, str]) -> None:
        self.send_response(status)
        length = {"Content-Type": kind, "Content-Length": str(len(content))}
        for name, value in (HEADERS | length | more).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _linger(self) -> None:
        """Read what is left of a refused request: closed with bytes unread, a connection is reset and loses the answer."""
        end = time.monotonic() + LINGER
        left = 64 * MAX_BYTES
        try:
            self.connection.shutdown(socket.SHUT_WR)
            while left > 0 and (seconds := end - time.monotonic()) > 0:
                self.connection.settimeout(seconds)
                part = self.connection.recv(MAX_BYTES)
                if not part:
                    return
                left -= len(part)
        except OSError:
            pass  # it has gone, or took too long

    def _check_length(self) -> int:
        """Return the length of the body, at most `MAX_BYTES`."""
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Transfer-Encoding") or not (length.isascii() and length.isdigit() and len(length) < 20):
            raise RequestError(411, "a body needs its length in bytes, as Content-Length")
        if int(length) > MAX_BYTES:
            raise RequestError(413, f"the body has {int(length):,} bytes, expected at most {MAX_BYTES:,}")
        return int(length)

    def _read_body(self, length: int) -> bytes:
        """Return the whole body. One that is cut off could be a valid request of another meaning."""
        body = b""
        end = time.monotonic() + self.timeout
        while len(body) < length:
            try:
                self.connection.settimeout(max(end - time.monotonic(), 0.001))
                part = self.rfile.read1(length - len(body))
            except TimeoutError:
                came = f"{len(body):,} of {length:,} bytes came"
                raise RequestError(408, f"the body must arrive within {self.timeout:g} s: {came}") from None
            finally:
                self.connection.settimeout(self.timeout)
            if not part:
                raise RequestError(400, f"the body ended early: {len(body):,} bytes came, expected {length:,}")
            body += part
        return body

    def _check_address(self) -> str:
        """Return the name of the request after the token, empty for the page.

        A page of another site could send requests here under a name of its own: the host must be this one.
        """
        if self.headers.get("Host", "") not in self.server.hosts:
            raise RequestError(403, f"the host must be {' or '.join(self.server.hosts)}")
        origin = self.headers.get("Origin")
        if origin is not None and origin not in [f"http://{host}" for host in self.server.hosts]:
            raise RequestError(403, "requests of other sites are refused")
        token, slash, path = self.path.partition("?")[0].removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            raise RequestError(403, "the token is wrong: use the address that the command has printed")
        if not slash:
            self._check_method("GET", "HEAD")
            raise RequestError(308, "the address of the page ends with a slash", {"Location": f"/{token}/"})
        request = path.removeprefix("api/")
        if path and (request == path or request not in REQUESTS):
            name = path.rstrip("/").split("/")[-1]
            raise RequestError(
                404, f"there is no {name[:40]!r} here, only the page and api/ with {', '.join(REQUESTS)}"
            )
        return request

    def _answer(self, request: str) -> dict[str, Any]:
        self._check_method("POST")
        length = self._check_length()
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise RequestError(415, f"the content type must be {JSON}, got {kind or 'none'}")
        return answer(self.server.session, request, parse_body(self._read_body(length)))

    def _check_method(self, *allowed: str) -> None:
        if self.command not in allowed:
            methods = ", ".join(allowed)
            raise RequestError(405, f"the method must be {methods}, got {self.command}", {"Allow": methods})


def _encode(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
