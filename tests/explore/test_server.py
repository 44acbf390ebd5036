"""The HTTP server of a session: who may ask, and what is refused."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
import time
from dataclasses import replace

import pytest

from bspforest.explore import Session, make_stream
from bspforest.explore.checks import get_view, parse_body
from bspforest.explore.pictures import View
from bspforest.explore.server import MAX_BYTES, _Handler
from bspforest.explore.session import Refused, describe_choices

MODELS = ["bsp-ridge", "mondrian-mean"]
VIEW = {
    "models": MODELS,
    "shows": "prediction",
    "tree": 0,
    "is_tree": False,
    "has_cuts": True,
    "budget": 1,
    "place": None,
}
DIGITS = "7" * 9000  # sent as a number, which `json.dumps` refuses to write
LABEL = {"x": 0.5, "y": 0.5, "label": 1.0}


def ask(server, method, path, body=None, headers=None):
    """Send a request; return its status, headers and content."""
    connection = http.client.HTTPConnection(*server.server_address, timeout=20)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def post(server, request, content, **more):
    """Send a request of the page; return its status and JSON answer."""
    body = content
    if isinstance(content, dict):
        body = json.dumps({"start": server.session.n_starts, **content}).replace(f'"{DIGITS}"', DIGITS)
    status, headers, answer = ask(server, "POST", f"/{server.token}/api/{request}", body, **more)
    assert headers["Content-Type"] == "application/json"
    return status, json.loads(answer)


def test_page_is_one_file_that_loads_nothing(server):
    status, headers, content = ask(server, "GET", f"/{server.token}/")
    page = content.decode()
    assert status == 200 and page.startswith("<!doctype html>")
    assert "{{" not in page
    assert not re.search(r"(src|href)=[\"']?(https?:|//|[\w/]+\.)", page)
    nonce = re.search(r"<script nonce=\"([\w-]{20,})\">", page)[1]
    policy = headers["Content-Security-Policy"]
    assert f"script-src 'nonce-{nonce}'" in policy and "default-src 'none'" in policy and "unsafe" not in policy
    assert headers["Referrer-Policy"] == "no-referrer" and headers["Cache-Control"] == "no-store"
    assert nonce not in ask(server, "GET", f"/{server.token}/")[2].decode()


def test_only_this_machine_can_connect(server):
    assert server.server_address[0] == "127.0.0.1"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", server.url)


@pytest.mark.parametrize("path", ["/", "/wrong/", "/wrong/api/state", "/favicon.ico", "//api/state", "/%C3%A9/"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_the_token_nothing_is_told(server, method, path):
    status, _, content = ask(server, method, path, "{}")
    assert status == 403
    assert json.loads(content) == {"error": "the token is wrong: use the address that the command has printed"}
    assert server.token.encode() not in content


def test_tokens_differ(server):
    from bspforest.explore import ExploreServer

    with ExploreServer(server.session) as other:
        assert other.token != server.token


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", ""])
def test_other_hosts_are_refused(server, host):
    status, _, content = ask(server, "GET", f"/{server.token}/", headers={"Host": host})
    assert status == 403 and b"the host must be 127.0.0.1:" in content


def test_localhost_is_this_host(server):
    host = f"localhost:{server.server_address[1]}"
    assert ask(server, "GET", f"/{server.token}/", headers={"Host": host})[0] == 200


def test_requests_of_other_sites_are_refused(server):
    status, answer = post(server, "learn", {"rows": 1, "view": VIEW}, headers={"Origin": "https://evil.example"})
    assert status == 403 and answer["error"] == "requests of other sites are refused"
    assert server.session.n_arrived == 12


ONLY = ", only the page and api/ with state, place, learn, add, forget, undo, reset, hold"


def test_addresses_without_the_slash_lead_to_the_page(server):
    for method in ("GET", "HEAD"):
        status, headers, _ = ask(server, method, f"/{server.token}")
        assert (status, headers["Location"]) == (308, f"/{server.token}/")
    assert ask(server, "POST", f"/{server.token}", "{}")[0] == 405
    assert ask(server, "GET", f"/{server.token}/?again")[0] == 200


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("BREW /{token}/ HTTP/1.1", 501),
        ("TRACE /{token}/ HTTP/1.1", 501),
        ("CONNECT 127.0.0.1:1 HTTP/1.1", 501),
        ("GET /" + "x" * 70_000 + " HTTP/1.1", 414),
        ("GET /{token}/ HTTP/1.1\r\nX: " + "x" * 70_000, 431),
        ("GET /{token}/ HTTP/1.1\r\n" + "\r\n".join(f"X{k}: 1" for k in range(200)), 431),
        ("GET /{token}/ HTTP/9.9", 505),
        ("rubbish", 400),
        ("one two three four five", 400),
    ],
)
def test_what_is_no_request_is_answered_in_json(server, head, status):
    data = head.replace("{token}", server.token) + f"\r\nHost: {server.hosts[0]}\r\n\r\n"
    found, headers, content = send(server, data.encode())
    assert (found, headers["Content-Type"], headers["X-Content-Type-Options"]) == (
        status,
        "application/json",
        "nosniff",
    )
    assert set(json.loads(content)) == {"error"} and server.token.encode() not in content


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "api/state", 405, "the method must be POST, got GET"),
        ("PUT", "api/learn", 405, "the method must be POST, got PUT"),
        ("POST", "", 405, "the method must be GET, HEAD, got POST"),
        ("DELETE", "", 405, "the method must be GET, HEAD, got DELETE"),
        ("GET", "api/rows", 404, f"there is no 'rows' here{ONLY}"),
        ("GET", "../../etc/passwd", 404, f"there is no 'passwd' here{ONLY}"),
        ("GET", "state", 404, f"there is no 'state' here{ONLY}"),
        ("GET", "api/", 404, f"there is no 'api' here{ONLY}"),
        ("POST", "api", 404, f"there is no 'api' here{ONLY}"),
    ],
)
def test_unknown_addresses_and_methods(server, method, path, status, message):
    found, headers, content = ask(server, method, f"/{server.token}/{path}", "{}")
    assert (found, json.loads(content)["error"]) == (status, message)
    assert (headers["Allow"] is not None) == (status == 405)


def test_content_type_must_be_json(server):
    body = json.dumps({"rows": 1, "view": VIEW})
    status, answer = post(server, "learn", body, headers={"Content-Type": "text/plain"})
    assert (status, answer["error"]) == (415, "the content type must be application/json, got text/plain")
    assert server.session.n_arrived == 12


def test_long_bodies_are_refused(server):
    body = json.dumps({"rows": 1, "view": VIEW, "more": "x" * MAX_BYTES})
    status, answer = post(server, "learn", body)
    assert status == 413 and "expected at most 16,384" in answer["error"]
    assert server.session.n_arrived == 12


@pytest.mark.parametrize("length", ["-1", "many", "²", "9" * 5000])
def test_length_must_be_a_number(server, length):
    with socket.create_connection(server.server_address, timeout=20) as connection:
        head = f"POST /{server.token}/api/learn HTTP/1.1\r\nHost: {server.hosts[0]}\r\nContent-Length: {length}\r\n\r\n"
        connection.sendall(head.encode())
        assert b" 411 " in connection.recv(1000).split(b"\r\n")[0]


def send(server, data, *, shuts=False):
    """Send bytes on a new connection, and perhaps the end of them; return the status, headers and content of the answer."""
    with socket.create_connection(server.server_address, timeout=20) as connection:
        connection.sendall(data)
        if shuts:
            connection.shutdown(socket.SHUT_WR)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status, response.headers, response.read()


def make_head(server, length, *, token=None, host=None):
    """Return the head of a request to learn."""
    lines = [f"POST /{token or server.token}/api/learn HTTP/1.1", f"Host: {host or server.hosts[0]}"]
    lines += ["Content-Type: application/json"] + ([] if length is None else [f"Content-Length: {length}"])
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize(("body", "came"), [(b"", 0), (b'{"rows"', 7)])
def test_a_body_must_arrive_in_time(server, monkeypatch, body, came):
    monkeypatch.setattr(_Handler, "timeout", 0.3)
    status, _, content = send(server, make_head(server, 50) + body)
    message = f"the body must arrive within 0.3 s: {came} of 50 bytes came"
    assert (status, json.loads(content)) == (408, {"error": message})


def test_a_body_that_trickles_in_takes_no_longer(server, monkeypatch):
    monkeypatch.setattr(_Handler, "timeout", 0.3)
    with socket.create_connection(server.server_address, timeout=20) as connection:
        connection.sendall(make_head(server, 5000))
        connection.settimeout(0.05)
        for _ in range(100):
            connection.sendall(b" ")
            try:
                answer = connection.recv(1000)
                break
            except TimeoutError:
                pass
        else:
            pytest.fail("no answer within 5 s")
    assert b" 408 " in answer.split(b"\r\n")[0]


@pytest.mark.parametrize("wrong", [{"token": "wrong"}, {"host": "evil.example"}])
def test_strangers_are_refused_before_their_body_is_read(server, wrong):
    start = time.monotonic()
    assert send(server, make_head(server, 50, **wrong))[0] == 403
    assert time.monotonic() - start < _Handler.timeout / 2


def test_a_body_that_is_cut_off_is_not_applied(server):
    body = json.dumps({"rows": 1, "view": VIEW, "start": server.session.n_starts}).encode()
    status, _, content = send(server, make_head(server, 9999) + body, shuts=True)
    message = f"the body ended early: {len(body)} bytes came, expected 9,999"
    assert (status, json.loads(content)) == (400, {"error": message})
    assert server.session.n_arrived == 12


def test_a_body_needs_its_length(server):
    status, _, content = send(server, make_head(server, None))
    assert status == 411 and "as Content-Length" in json.loads(content)["error"]


@pytest.mark.parametrize(
    ("request_", "content", "message"),
    [
        ("learn", "{", "the body must be a JSON object: Expecting property name"),
        ("learn", b"\xff\xfe\xfa", "the body must be a JSON object"),
        ("learn", "[" * 5000, "the body must be a JSON object"),
        ("learn", "[1]", "the body must be a JSON object, got [1]"),
        ("learn", {"rows": 1}, "view must be a JSON object, got null"),
        ("learn", {"rows": 0, "view": VIEW}, "rows must be a whole number from 1 to 200, got 0"),
        ("learn", {"rows": 201, "view": VIEW}, "rows must be a whole number from 1 to 200, got 201"),
        ("learn", {"rows": True, "view": VIEW}, "rows must be a whole number from 1 to 200, got true"),
        ("learn", {"rows": 1.5, "view": VIEW}, "rows must be a whole number from 1 to 200, got 1.5"),
        ("learn", {"rows": "1", "view": VIEW}, 'rows must be a whole number from 1 to 200, got "1"'),
        ("add", {**LABEL, "x": "0.5", "view": VIEW}, 'x must be a finite number, got "0.5"'),
        ("add", {**LABEL, "x": 5.0, "view": VIEW}, "x must be between"),
        ("add", {**LABEL, "label": None, "view": VIEW}, "label must be a finite number, got null"),
        ("add", {**LABEL, "label": 1e300, "view": VIEW}, "label must be a finite number, got 1e+300"),
        ("add", '{"x": NaN, "y": 0.5, "label": 1}', "the body must be a JSON object: NaN is not a finite number"),
        ("add", '{"x": -Infinity, "y": 0.5, "label": 1}', "-Infinity is not a finite number"),
        ("add", {**LABEL, "label": 10**400, "view": VIEW}, "label must be a finite number"),
        ("learn", {"rows": DIGITS, "view": VIEW}, "rows must be a whole number from 1 to 200, got 777"),
        ("add", {**LABEL, "x": DIGITS, "view": VIEW}, "x must be a finite number, got 777"),
        ("state", {"view": {"models": DIGITS}}, "models must be two of bsp-ridge, bsp-mean, mondrian-ridge, mondrian-mean, got 777"),
        ("forget", {"id": 12, "view": VIEW}, "row 12 is not held"),
        ("forget", {"id": -1, "view": VIEW}, "id must be a whole number from 0 to 1000000000, got -1"),
        ("forget", {"id": "3", "view": VIEW}, "id must be a whole number"),
        ("reset", {"stream": "sea", "view": VIEW}, "stream must be one of bumps, waves"),
        ("reset", {"stream": ["moons"], "view": VIEW}, "stream must be one of bumps, waves"),
        ("forget", {"id": 3, "view": VIEW, "start": None}, "start must be a whole number from 0 to 1000000000, got null"),
        ("hold", {"window": 10**9, "view": VIEW}, "the page holds at most 5,000 rows: window must not be larger"),
        ("hold", {"window": 0, "view": VIEW}, "window must be a whole number from 1 to"),
        ("state", {"view": {**VIEW, "models": ["bsp-ridge"]}}, "models must be two of bsp-ridge, bsp-mean"),
        ("state", {"view": {**VIEW, "models": ["bsp-ridge", {}]}}, "models must be two of bsp-ridge, bsp-mean"),
        ("state", {"view": {**VIEW, "tree": 5}}, "tree must be a whole number from 0 to 4, got 5"),
        ("state", {"view": {**VIEW, "budget": 1.1}}, "budget must be a finite number from 0 to 1, got 1.1"),
        ("state", {"view": {**VIEW, "is_tree": 1}}, "is_tree must be true or false, got 1"),
        ("state", {"view": {**VIEW, "shows": "all"}}, 'shows must be one of prediction, uncertainty, got "all"'),
        ("state", {"view": VIEW, "revision": "1"}, 'revision must be a whole number from 0 to 1000000000, got "1"'),
        ("place", {"view": {**VIEW, "place": [1]}}, "place must be null or two numbers, got [1]"),
        ("place", {"view": {**VIEW, "place": [1, "x" * 99]}}, "place must be a finite number, got \"xxx"),
    ],
)  # fmt: skip
def test_bad_requests_say_what_was_expected_and_change_nothing(server, request_, content, message):
    before = server.session.describe(View(tuple(MODELS)))
    status, answer = post(server, request_, content)
    assert (status, set(answer)) == (400, {"error"})
    assert message in answer["error"] and len(answer["error"]) < 300
    assert server.session.describe(View(tuple(MODELS))) == before


@pytest.mark.parametrize("where", ['{"view":%s}', "%s", '{"view":{"models":[%s,1]}}'])
def test_nested_values_are_refused_at_every_depth(server, where):
    """Those that can be read may still be too deep to be written in the message."""
    depths = range(1, 1300)
    for depth in depths:
        with pytest.raises(Refused, match="must be"):
            get_view(parse_body((where % ("[" * depth + "]" * depth)).encode()), server.session)
    for depth in depths[900:1050]:  # threads have stacks of their own
        status, answer = post(server, "learn", where % ("[" * depth + "]" * depth))
        assert status == 400 and len(answer["error"]) < 200


def test_requests_of_a_page(own_server):
    server = own_server
    status, first = post(server, "state", {"view": VIEW})
    assert status == 200 and first["held"] == 12 and len(first["rows"]["ids"]) == 12
    status, state = post(server, "state", {"view": VIEW, "revision": first["revision"]})
    assert "rows" not in state
    status, state = post(server, "add", {**LABEL, "view": VIEW, "revision": first["revision"]})
    assert state["message"] == "Row 12 added at x = 0.5, y = 0.5; 13 rows held."
    assert state["rows"]["ids"][-1] == 12 and state["rows"]["label"][-1] == 1.0
    assert post(server, "forget", {"id": 3, "view": VIEW})[1]["held"] == 12
    assert post(server, "undo", {"view": VIEW})[1]["rows"]["ids"][-1] == 13
    status, answer = post(server, "place", {"view": {**VIEW, "place": [0.2, 0.3]}})
    forest = server.session.learners["bsp-ridge"].forest
    assert answer["places"][0]["prediction"] == forest.predict([[0.2, 0.3]])[0]
    assert post(server, "hold", {"window": 5, "view": VIEW})[1]["rows"]["ids"] == [9, 10, 11, 12, 13]
    state = post(server, "reset", {"stream": "moons", "view": VIEW})[1]
    assert (state["held"], state["window"], state["stream"]["classes"]) == (0, 5, ["upper", "lower"])


CHANGES = {"learn": {"rows": 1}, "add": LABEL, "forget": {"id": 3}, "undo": {}, "hold": {"window": 5}}


@pytest.mark.parametrize("request_", CHANGES)
def test_pages_of_an_earlier_start_change_nothing(own_server, request_):
    server = own_server
    post(server, "forget", {"id": 0, "view": VIEW})
    post(server, "reset", {"stream": "waves", "view": VIEW})
    post(server, "learn", {"rows": 12, "view": VIEW})
    before = server.session.describe(View(tuple(MODELS)))
    status, answer = post(server, request_, {**CHANGES[request_], "view": VIEW, "start": before["start"] - 1})
    assert (status, set(answer)) == (409, {"error"}) and "another page has started" in answer["error"]
    assert server.session.describe(View(tuple(MODELS))) == before
    assert post(server, request_, {**CHANGES[request_], "view": VIEW})[0] == 200


def test_an_answer_describes_the_session_right_after_the_change(own_server, monkeypatch):
    """A change by another page has to wait for the description."""
    session = own_server.session
    others = []

    def forget_and_race(number, models, forget=session.forget):
        message = forget(number, models)
        others.append(threading.Thread(target=session.reset, args=("moons",)))
        others[0].start()
        others[0].join(0.3)
        return message

    monkeypatch.setattr(session, "forget", forget_and_race)
    status, state = post(own_server, "forget", {"id": 3, "view": VIEW})
    others[0].join()
    assert status == 200 and state["message"].startswith("Row 3 forgotten")
    assert (state["stream"]["name"], state["held"]) == ("bumps", 11)
    assert session.stream.name == "moons"


def test_names_are_shortened_and_kept_to_themselves(server):
    names = {"classes": ("a" * 900 + "1", "a" * 900 + "2"), "features": ("b\u202e", "c\n"), "target": "kind" * 99}
    session = Session(replace(make_stream("moons"), title="d" * 99, **names), n_trees=3)
    session.learn(3, tuple(MODELS))
    stream = session.describe(View(tuple(MODELS)))["stream"]
    assert len(set(stream["classes"])) == 2 and {len(name) for name in stream["classes"]} == {40}
    assert stream["whole"]["classes"] == list(names["classes"])
    assert stream["features"] == [r"b\u202e", r"c\n"] and len(stream["target"]) == 40
    assert r"at b\u202e = " in session.forget(0, tuple(MODELS))
    assert len(session.reset("moons")) < 80


def test_names_of_columns_cannot_end_the_script(server):
    from bspforest.explore.assets import make_page

    name = "</script><script>alert(1)</script>"
    page, _ = make_page(describe_choices(Session(replace(server.session.stream, name=name, title=name))))
    assert "<script>alert" not in page
