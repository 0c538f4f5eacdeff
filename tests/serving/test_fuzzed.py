"""Bodies of every kind: no answer is the server's fault, and none is undescribed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.serving.clients import TestClient
from tests.serving.processes import make_log, running
from tests.serving.test_wire import ARROW, arrow_rows, stream
from tests.serving.worlds import COLUMNS, LABELS, labels, rows

FINE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
anything = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
numbers = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**60), 2**60), st.none())
ids = st.one_of(st.integers(-5, 5), st.text(max_size=5), st.sampled_from(["0", "1", 1.0, 0.5, None]))


def requests(columns: list[str], what: str) -> st.SearchStrategy[dict[str, Any]]:
    row = st.fixed_dictionaries(dict.fromkeys(columns, numbers | anything))
    most = {"ids": st.lists(ids, max_size=3), what: st.lists(row, min_size=1, max_size=3)}
    return st.fixed_dictionaries(most, optional={"weights": st.lists(numbers, max_size=3), "groups": anything})


def send(client: TestClient, path: str, body: bytes, kind: str = "application/json") -> int:
    answer = client.post(path, content=body, headers={"Content-Type": kind})
    assert answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert (answer.status_code == 200) != ("error" in answer.json())
    return int(answer.status_code)


@FINE
@given(body=st.binary(max_size=200) | anything.map(lambda each: orjson.dumps(repr(each))))
@pytest.mark.parametrize("path", ["/decide", "/observe"])
def test_bytes(client: TestClient, path: str, body: bytes) -> None:
    assert send(client, path, body) in (400, 422)


@FINE
@given(body=requests(COLUMNS, "rows"))
def test_rows(client: TestClient, body: dict[str, Any]) -> None:
    body.pop("weights", None)
    body.pop("groups", None)
    send(client, "/decide", as_json(body))


@FINE
@given(body=requests(LABELS, "labels"))
def test_labels(client: TestClient, body: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of labels that are very large
        client.post("/decide", json={"rows": rows(0, 1, 2), "ids": [0, 1, 2]})
        send(client, "/observe", as_json(body))
        assert client.get("/status").status_code == 200


def as_json(body: Any) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError:  # half characters, and integers of more than 64 bits
        return repr(body).encode(errors="replace")


@FINE
@given(data=st.data())
@pytest.mark.parametrize("path", ["/decide", "/observe"])
def test_streams_with_other_bytes(client: TestClient, path: str, data: st.DataObject) -> None:
    columns = arrow_rows(0, 1) if path == "/decide" else {name: [row[name] for row in labels(0, 1)] for name in LABELS}
    body = bytearray(stream({**columns, "id": ["a", "b"]}))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        send(client, path, bytes(body), ARROW)


@pytest.mark.slow
@pytest.mark.no_cover
def test_schemathesis(tmp_path: Path) -> None:
    """Requests that schemathesis makes of the description, some as described and some not quite."""
    run: Callable[..., None] = _run_schemathesis
    with running(make_log(tmp_path / "a.db"), "--quiet", "--most-rows", "50") as server:
        run(f"http://127.0.0.1:{server.port}")
        assert server.ask("GET", "/readyz")[0] == 200
        assert server.stop() == 0
        assert "Traceback" not in server.told()


def _run_schemathesis(url: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import schemathesis
        from schemathesis.checks import not_a_server_error
        from schemathesis.specs.openapi.checks import (
            content_type_conformance,
            response_headers_conformance,
            response_schema_conformance,
            status_code_conformance,
        )

        checks = [
            not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_headers_conformance,
            response_schema_conformance,
        ]
        schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            schema.config.generation.update(modes=[mode])
            for result in schema.exclude(path="/events").get_all_operations():
                operation: Any = result.ok()  # type: ignore[union-attr]
                if mode == schemathesis.GenerationMode.NEGATIVE and not operation.body:
                    continue  # there is nothing that could be wrong
                found = operation.as_strategy(generation_mode=mode)

                @settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
                @given(case=found)
                def ask(case: Any) -> None:
                    case.call_and_validate(checks=checks)

                ask()
