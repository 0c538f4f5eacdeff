"""Clients that are slow, many, or send too much: a server that listens, in a thread of this process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from optensemble.serving.settings import Limits
from tests.serving.processes import Server
from tests.serving.threads import threaded
from tests.serving.worlds import rows

LIMITS = Limits(most_bytes=100_000, request_seconds=0.5, idle_seconds=2.0, most_connections=20, most_listeners=2)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with threaded(tmp_path_factory.mktemp("served"), LIMITS) as server:
        yield server


def read_all(connection: Any) -> bytes:
    found = b""
    while part := connection.recv(65536):
        found += part
    return found


def test_slow_headers_are_not_waited_for(shared: Server) -> None:
    with shared.connect() as connection:
        began = time.monotonic()
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-")
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 408 Request Timeout")
        assert b"the headers did not arrive within 0.5 seconds" in answer
        assert time.monotonic() - began < 10
    with shared.connect() as connection, pytest.raises(ConnectionError):  # one byte at a time does not help  # noqa: PT012
        for byte in b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 100:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)
    with shared.connect() as connection:  # nor does silence
        assert read_all(connection) == b""


def test_slow_bodies_are_not_waited_for(shared: Server) -> None:
    head = b"POST /decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    for body in (b"", b'{"rows"'):
        with shared.connect() as connection:
            connection.sendall(head + body)
            answer = read_all(connection)
            assert answer.startswith(b"HTTP/1.1 408"), answer
            assert b"did not arrive within 0.5 seconds" in answer


def test_long_headers_are_refused(shared: Server) -> None:
    with shared.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 40_000)
        assert read_all(connection).startswith(b"HTTP/1.1 431 ")


def test_long_bodies_are_refused_before_they_are_read(shared: Server) -> None:
    status, _, body = shared.ask("POST", "/decide", b"x" * 200_000, {"Content-Type": "application/json"})
    assert (status, b"at most 100,000 bytes" in body) == (413, True)
    head = b"POST /decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with shared.connect() as connection:  # without its length
        connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(8):
            connection.sendall(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
        assert read_all(connection).startswith(b"HTTP/1.1 413")
    with shared.connect() as connection:  # which asks first
        connection.sendall(head + b"Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n")
        assert read_all(connection).startswith(b"HTTP/1.1 413")


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b""))


def test_bodies_in_parts(shared: Server) -> None:
    head = (
        b"POST /decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    whole = json.dumps({"rows": rows(*range(100)), "ids": [f"part {place}" for place in range(100)]}).encode()
    with shared.connect() as connection:
        connection.sendall(head + chunked(whole[:500])[:-5])
        time.sleep(0.1)
        connection.sendall(chunked(whole[500:]))
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 200"), answer
    with shared.connect() as connection:  # too much, and without an end
        connection.sendall(head + chunked(b"x" * 60_000)[:-5])
        time.sleep(0.1)
        connection.sendall(chunked(b"x" * 60_000)[:-5])
        assert read_all(connection).startswith(b"HTTP/1.1 413")
    with shared.connect() as connection:  # who goes away
        connection.sendall(head + chunked(b"{")[:-5])
    assert shared.ask("GET", "/healthz")[0] == 200


def test_what_is_not_http_is_refused(shared: Server) -> None:
    for sent in (
        b"\x16\x03\x01 hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    ):
        with shared.connect() as connection:
            connection.sendall(sent)
            answer = read_all(connection)
            assert answer.startswith(b"HTTP/1.1 400"), answer
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    with shared.connect() as connection:  # HTTP/1.0 without a host, and another protocol
        connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b" 400 " in read_all(connection).split(b"\r\n", 1)[0]
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    assert shared.ask("GET", "/healthz", headers=upgrade)[0] == 200


def test_too_many_connections(shared: Server) -> None:
    open_ = [shared.connect() for _ in range(20)]
    try:
        time.sleep(0.1)
        with shared.connect() as connection:
            answer = read_all(connection)
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"retry-after" in answer
    finally:
        for each in open_:
            each.close()
    time.sleep(0.2)
    assert shared.ask("GET", "/healthz")[0] == 200


def test_pipelined_requests_are_answered_in_order(shared: Server) -> None:
    with shared.connect() as connection:
        requests = [f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n" for path in ("/healthz", "/nowhere", "/readyz")]
        closing = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        connection.sendall("".join([*requests, closing]).encode())
        statuses = [line for line in read_all(connection).split(b"\r\n") if b"HTTP/1.1 " in line]
        assert [int(line.partition(b"HTTP/1.1 ")[2][:3]) for line in statuses] == [200, 404, 200, 200]


# The live page


def test_events_come_as_things_change(shared: Server) -> None:
    with shared.connect() as connection:
        connection.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        seen = b""
        while seen.count(b"data: ") < 1:
            seen += connection.recv(65536)
        assert b"content-type: text/event-stream" in seen
        assert b"cache-control: no-store" in seen
        assert shared.ask("POST", "/decide", {"rows": rows(900), "ids": ["seen on the page"]})[0] == 200
        while b"seen on the page" not in seen:
            seen += connection.recv(65536)
    event = next(line for line in seen.split(b"\n") if line.startswith(b"data: "))
    assert {"as-of", "verdict", "decisions"} <= set(json.loads(event[6:]))


def test_too_many_pages(shared: Server) -> None:
    open_ = [shared.connect() for _ in range(2)]
    try:
        for each in open_:
            each.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            each.recv(100)
        status, headers, body = shared.ask("GET", "/events")
        assert (status, headers["retry-after"]) == (503, "30")
        assert b"2 pages are being kept up to date" in body
    finally:
        for each in open_:
            each.close()
    until = time.monotonic() + 10
    while shared.ask("GET", "/metrics")[0] == 200 and time.monotonic() < until:
        with shared.connect() as connection:
            connection.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            if connection.recv(12) == b"HTTP/1.1 200":
                return
        time.sleep(0.1)
    raise AssertionError("listeners that have gone are counted")


def test_a_client_that_does_not_read(shared: Server) -> None:
    with shared.connect() as connection:
        connection.setsockopt(6, 1, 1)
        page = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        try:
            for _ in range(400):
                connection.sendall(page)
        except OSError:
            pass
        time.sleep(LIMITS.idle_seconds + 1)
        with pytest.raises(ConnectionError):  # noqa: PT012
            for _ in range(100):
                connection.sendall(page)
                time.sleep(0.02)
    assert shared.ask("GET", "/healthz")[0] == 200
