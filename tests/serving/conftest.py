from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import optensemble as oe
from optensemble.jobs.live_table import LiveTable
from optensemble.serving.app import make_app
from optensemble.serving.service import LiveService
from optensemble.serving.settings import Limits, Settings
from tests.serving.clients import TestClient
from tests.serving.worlds import ensemble

Make = Callable[..., TestClient]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Make]:
    """Makes clients of servers in this process; each has a log of its own."""
    with ExitStack() as stack:
        count = 0

        def make(
            limits: Limits | None = None, table: dict[str, Any] | None = None, live: Any = None, **settings: Any
        ) -> TestClient:
            nonlocal count
            count += 1
            asked = Settings(limits=limits or Limits(), hosts=("testserver",), **settings)

            def opening() -> LiveTable:
                found = live or oe.LiveEnsemble(
                    ensemble(), log=tmp_path / f"{count}.db", refit_in="background", refit="never"
                )
                return LiveTable.of(found, **(table or {}))

            service = LiveService(opening, asked.limits)
            app = make_app(service, asked)
            app.state.service = service
            client = stack.enter_context(TestClient(app, raise_server_exceptions=False))
            _wait_until_ready(client)
            return client

        yield make


def _wait_until_ready(client: TestClient) -> None:
    service: LiveService = client.app.state.service  # type: ignore[attr-defined]
    while service.state == "starting" and service.failure is None:
        client.get("/healthz")


@pytest.fixture
def client(served: Make) -> TestClient:
    """A client of a server with a log."""
    return served()
