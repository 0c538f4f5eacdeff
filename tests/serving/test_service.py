"""From start to stop: what becomes of an ensemble in service when things go wrong, and of its log."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import optensemble as oe
from optensemble.exceptions import FileError, InputError, LogError
from optensemble.jobs.live_table import LiveTable
from optensemble.report.live_page import make_live_page
from optensemble.serving import service as service_module
from optensemble.serving.http_protocol import LimitedProtocol
from optensemble.serving.limits import Room
from optensemble.serving.refusals import Refusal
from optensemble.serving.run import Address, serve
from optensemble.serving.service import LiveService
from optensemble.serving.settings import Limits, Settings
from tests.serving.clients import TestClient
from tests.serving.conftest import Make
from tests.serving.threads import Running, threaded
from tests.serving.worlds import N, ensemble, rows, world


def opening(log: Path, **terms: Any) -> Callable[[], LiveTable]:
    return lambda: LiveTable.of(oe.LiveEnsemble(ensemble(), log=log, refit="never", **terms))


def test_while_it_starts(tmp_path: Path) -> None:
    go = threading.Event()

    def slowly() -> LiveTable:
        assert go.wait(20)
        return opening(tmp_path / "a.db")()

    running = Running(slowly, Settings())
    while not running.url:
        time.sleep(0.01)
    from tests.serving.processes import Server

    server = Server(running, int(running.url.rpartition(":")[2]), tmp_path)  # type: ignore[arg-type]
    for path in ("/readyz", "/status", "/openapi.json", "/", "/events"):
        status, headers, body = server.ask("GET", path)
        assert (status, headers["retry-after"]) == (503, "1"), path
        assert b"the server is starting" in body
    assert server.ask("POST", "/decide", {"rows": rows(0)})[0] == 503
    assert server.ask("GET", "/healthz")[0] == 200
    assert b"optensemble_ready 0" in server.ask("GET", "/metrics")[2]
    go.set()
    while server.ask("GET", "/readyz")[0] != 200:
        time.sleep(0.02)
    running.stop()
    assert running.finished


def test_an_ensemble_that_cannot_be_opened_ends_the_server() -> None:
    def fail() -> LiveTable:
        raise LogError("there is no log")

    running = Running(fail, Settings())
    running.thread.join(30)
    assert isinstance(running.error, LogError)


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with (
        threaded(tmp_path, Limits()) as server,
        pytest.raises(InputError, match=r"cannot listen on 127\.0\.0\.1, port"),
    ):
        serve(opening(tmp_path / "b.db"), Address("127.0.0.1", server.port), Settings())


def test_a_call_that_does_not_end_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = threading.Event()
    running = Running(opening(tmp_path / "a.db"), Settings(), grace=1.0)
    while running.server is None or running.server.service.state != "ready":
        time.sleep(0.02)
    service: LiveService = running.server.service
    service.worker._loop.call_soon_threadsafe(  # type: ignore[union-attr]
        lambda: asyncio.ensure_future(service.worker.call(stuck.wait, 20))
    )
    time.sleep(0.1)
    began = time.monotonic()
    running.stop()
    assert time.monotonic() - began < 10
    assert running.finished is False
    stuck.set()


def test_old_decisions_are_pruned_once_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(service_module, "_FIRST_PRUNING", 0.2)
    monkeypatch.setattr(service_module, "_DAY", 0.2)
    running = Running(opening(tmp_path / "a.db"), Settings(), keep_days=0.0)
    until = time.monotonic() + 20
    while "pruned 0 rows" not in caplog.text and time.monotonic() < until:
        time.sleep(0.05)
    monkeypatch.setattr(oe.LiveEnsemble, "log", property(lambda _: 1 / 0))
    while "the log was not pruned" not in caplog.text and time.monotonic() < until:
        time.sleep(0.05)
    monkeypatch.undo()
    running.stop()
    assert "pruned 0 rows that were older than 0 days" in caplog.text
    assert "the log was not pruned: division by zero" in caplog.text


def test_a_log_that_cannot_be_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    running = Running(opening(tmp_path / "a.db"), Settings())
    while running.server is None or running.server.service.state != "ready":
        time.sleep(0.02)
    calls = running.server.service.calls
    calls.close = lambda: 1 / 0
    running.stop()
    assert "the log was not closed" in caplog.text
    calls.live.close()


def test_a_page_that_cannot_be_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with threaded(tmp_path, Limits()) as server:
        monkeypatch.setattr("optensemble.serving.live_view.live_sections", lambda _: 1 / 0)
        with server.connect() as connection:
            connection.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(100)
            until = time.monotonic() + 20
            while "the live page was not drawn" not in caplog.text and time.monotonic() < until:
                time.sleep(0.05)
        assert "the live page was not drawn" in caplog.text


def test_pages_are_drawn_once_for_all(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = list[int]()
    from optensemble.serving import live_view

    def draw(*given: Any, **named: Any) -> str:
        drawn.append(1)
        return make_live_page(*given, **named)

    monkeypatch.setattr(live_view, "make_live_page", draw)
    pages = {client.get("/").text for _ in range(3)}
    assert (len(pages), len(drawn)) == (1, 1)
    monkeypatch.setattr(live_view, "REFRESH", 0.0)
    client.get("/")
    assert len(drawn) == 2


def test_room_for_bodies_is_limited_in_all() -> None:
    room = Room(Limits(most_bytes_at_once=100))

    class Asking:
        held = 0

    first: Any = Asking()
    room.take(first, 60)
    with pytest.raises(Refusal, match="as much as it can hold"):
        room.take(Asking(), 60)  # type: ignore[arg-type]
    room.release(first)
    room.take(Asking(), 60)  # type: ignore[arg-type]


def test_websockets_are_closed(client: TestClient) -> None:
    with pytest.raises(Exception), client.websocket_connect("/events"):  # noqa: B017, PT011
        pass
    assert LimitedProtocol.limits == Limits()


def test_the_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from optensemble.cli import serve_command

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "uvicorn" else name)
    with pytest.raises(FileError, match=r"needs uvicorn\. Install it with: pip install 'optensemble\[serve\]'"):
        serve_command._require_extra()


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import typer

    from optensemble.cli.serve_command import serve_command

    given = dict[str, Any]()
    log = tmp_path / "a.db"
    opening(log)().live.close()

    def pretend(open_: Callable[[], LiveTable], address: Address, settings: Settings, **terms: Any) -> bool:
        given.update(address=address, settings=settings, **terms)
        if terms["on_listening"] is not None:
            terms["on_listening"]("http://here")
        with open_().live as live:
            given["refit_in"] = live.refit_in
        logging.getLogger("optensemble.serving").error("failed", exc_info=ValueError("why"))
        return bool(settings.access_log)

    monkeypatch.setattr("optensemble.serving.run.serve", pretend)
    monkeypatch.delenv("OPTENSEMBLE_TOKEN", raising=False)
    with pytest.warns(UserWarning, match="--allow-host means that others ask by way of a proxy, and there is no token"):
        serve_command(str(log), most_rows=7, allow_host=["Name"], log_format="json")
    told = capsys.readouterr().err
    assert "optensemble: listening on http://here" in told
    assert "ValueError: why" in told
    assert given["refit_in"] == "background"
    assert given["settings"].limits.most_rows == 7
    assert "name" in given["settings"].hosts
    with pytest.raises(typer.Exit):
        serve_command(str(log), quiet=True)
    with pytest.raises(InputError, match="--log-format must be one of"):
        serve_command(str(log), log_format="xml")
    with pytest.raises(InputError, match="labels"):
        serve_command(str(log), labels="a")
    for name in ("optensemble.serving", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True


def test_closed_live(served: Make) -> None:
    client = served()
    client.app.state.service.calls.live.close()  # type: ignore[attr-defined]
    assert client.post("/decide", json={"rows": rows(0), "ids": [1]}).status_code == 503
    assert client.get("/readyz").status_code == 503


def test_a_server_that_lost_its_log_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process leads by now; a supervisor starts this one again, and it waits for its turn."""
    monkeypatch.setattr(service_module, "_LOOK", 0.02)
    found = list[LiveTable]()

    def remembered() -> LiveTable:
        found.append(opening(tmp_path / "a.db")())
        return found[0]

    running = Running(remembered, Settings())
    until = time.monotonic() + 20
    while not found and time.monotonic() < until:
        time.sleep(0.01)
    found[0].live.log._lead.lost = True
    running.thread.join(20)
    assert isinstance(running.error, LogError)
    assert "is led by another process by now: this one stops" in str(running.error)


def test_a_refit_is_taken_up_while_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "_LOOK", 0.02)
    live = oe.LiveEnsemble(ensemble(), log=tmp_path / "a.db", refit=60, refit_in="background")
    X, Y = world()
    running = Running(lambda: LiveTable.of(live), Settings())
    live.answer(X[N : N + 60], ids=range(60))
    live.observe(range(60), Y[N : N + 60])
    until = time.monotonic() + 20
    while not len(live.refits_) and time.monotonic() < until:
        time.sleep(0.02)
    assert len(live.refits_) == 1
    running.stop()
