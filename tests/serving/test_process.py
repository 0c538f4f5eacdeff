"""A server as it is run: a process that is stopped, killed, and asked by clients of all kinds."""

from __future__ import annotations

import json
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import optensemble as oe
from tests.serving.processes import make_log, running
from tests.serving.worlds import labels, rows

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

TOKEN = "a-token-of-some-length"
# From start to end


def test_nothing_is_lost_with_sixteen_clients(tmp_path: Path) -> None:
    log = make_log(tmp_path / "a.db")
    with running(log, "--log-format", "json") as server:

        def client(number: int) -> list[str]:
            made = []
            for place in range(number, 400, 16):
                status, _, body = server.ask("POST", "/decide", {"rows": rows(place), "ids": [place]})
                assert status == 200, body
                made.append(json.loads(body)["decisions"][0]["id"])
                if place % 2:
                    status, _, body = server.ask("POST", "/observe", {"ids": [place], "labels": labels(place)})
                    assert (status, json.loads(body)["learned"]) == (200, 1)
            return made

        with ThreadPoolExecutor(16) as clients:
            found = [id_ for made in clients.map(client, range(16)) for id_ in made]
        assert sorted(map(int, found)) == list(range(400))
        metrics = server.ask("GET", "/metrics")[2].decode()
        assert "optensemble_decisions_total 400" in metrics
        assert "optensemble_labels_total 200" in metrics
        assert server.stop() == 0
        lines = [json.loads(line) for line in server.told().splitlines() if line.startswith("{")]
    assert sum(line["path"] == "/decide" and line["status"] == 200 for line in lines) == 400
    with oe.LiveEnsemble.resume(log, read_only=True) as live:
        assert (live.decided_, live.rows_, len(live.open_)) == (400, 200, 200)
        assert {each.id for each in live.log.latest(400)} == set(map(str, range(400)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_requests_under_way_are_finished(tmp_path: Path, number: int) -> None:
    slow = (
        "import time\n"
        "from optensemble.serving.calls import LiveCalls\n"
        "own = LiveCalls.decide\n"
        "LiveCalls.decide = lambda self, requests: (time.sleep(0.5), own(self, requests))[1]\n"
    )
    log = make_log(tmp_path / "a.db")
    with running(log, code=slow) as server, ThreadPoolExecutor(8) as clients:
        asked = [
            clients.submit(server.ask, "POST", "/decide", {"rows": rows(place), "ids": [place]}) for place in range(8)
        ]
        time.sleep(0.3)
        server.process.send_signal(number)
        time.sleep(0.2)
        with pytest.raises(ConnectionError):
            server.ask("GET", "/healthz")
        assert [each.result(30)[0] for each in asked] == [200] * 8
        assert server.process.wait(30) == 0, server.told()
    with oe.LiveEnsemble.resume(log) as live:
        assert live.decided_ == 8


def test_a_killed_server_is_followed_by_one_that_goes_on(tmp_path: Path) -> None:
    log = make_log(tmp_path / "a.db")
    with running(log) as first:
        _, _, made = first.ask("POST", "/decide", {"rows": rows(0), "ids": ["kept"]})
        first.stop(signal.SIGKILL)
    with running(log) as second:
        assert second.ask("POST", "/decide", {"rows": rows(0), "ids": ["kept"]})[2] == made
        assert second.ask("POST", "/observe", {"ids": ["kept"], "labels": labels(0)})[0] == 200
        assert second.stop() == 0


def test_streams_do_not_keep_it_from_stopping(tmp_path: Path) -> None:
    with running(make_log(tmp_path / "a.db")) as server, server.connect() as connection:
        connection.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.recv(100)
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 15


def test_two_servers_of_one_log(tmp_path: Path) -> None:
    log = make_log(tmp_path / "a.db")
    with running(log), running(log, "--wait", "0.5") as second:
        assert second.process.wait(30) == 1
        assert "is led by process" in second.told()


def test_with_a_token(tmp_path: Path) -> None:
    log = make_log(tmp_path / "a.db")
    with running(log, "--host", "0.0.0.0", "--token-env", "SECRET", token=TOKEN) as server:
        assert server.ask("GET", "/status")[0] == 401
        assert server.ask("GET", "/status", headers={"Authorization": f"Bearer {TOKEN}"})[0] == 200
        assert server.stop() == 0
        assert TOKEN not in server.told()


def test_the_access_log_has_no_secrets(tmp_path: Path) -> None:
    with running(make_log(tmp_path / "a.db")) as server:
        server.ask("GET", "/no%0awhere?token=secret")
        server.ask("POST", "/decide", {"rows": rows(0), "ids": ["secret"]})
        assert server.stop() == 0
        told = server.told()
    assert "GET /no\\x0awhere 404" in told
    assert "POST /decide 200" in told
    assert "secret" not in told


def test_wrong_use_is_told_in_a_line(tmp_path: Path) -> None:
    log = make_log(tmp_path / "a.db")
    for options, code, message in (
        (["--host", "0.0.0.0"], 2, "a token is needed"),
        (["--log-format", "xml"], 2, "--log-format must be one of text, json"),
        (["--host", "127.0.0.999"], 2, "cannot listen on 127.0.0.999"),
        (["--labels", "a,b"], 2, "labels"),
    ):
        with running(log, *options) as server:
            assert server.process.wait(30) == code, server.told()
            assert message in server.told()
            assert "Traceback" not in server.told()
    with running(tmp_path / "missing.db") as server:
        assert server.process.wait(30) == 1
        assert "there is no log" in server.told()


def test_quiet(tmp_path: Path) -> None:
    with running(make_log(tmp_path / "a.db"), "--quiet") as server:
        server.ask("GET", "/status")
        assert server.stop() == 0
        assert server.told() == ""
    assert threading.active_count() < 50
