"""Whatever is wrong with a request is told with a status, and the message that the package has for it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

import optensemble as oe
from optensemble.exceptions import LogError, SolverError
from optensemble.serving.refusals import Refusal, refusal_of, shown
from optensemble.serving.settings import Limits
from tests.serving.clients import TestClient
from tests.serving.conftest import Make
from tests.serving.test_wire import ARROW, arrow_rows, stream
from tests.serving.worlds import N, labels, rows, world

JSON = {"Content-Type": "application/json"}

BODIES: dict[str, tuple[str, bytes, int, str]] = {
    "no JSON": ("/decide", b"{", 400, "the body is not JSON"),
    "nothing": ("/decide", b"", 400, "the body is not JSON"),
    "NaN": ("/decide", b'{"rows":[{"a_0":NaN}]}', 400, "the body is not JSON"),
    "infinite": ("/decide", b'{"rows":[{"a_0":1e999}]}', 400, "the body is not JSON"),
    "half a character": ("/decide", b'{"rows":[{"a_0":"\\ud800"}]}', 400, "the body is not JSON"),
    "deep": ("/decide", b"[" * 5000, 400, "the body is not JSON"),
    "a name twice": ("/decide", b'{"rows":[{"a_0":1,"a_0":2}]}', 400, "the name 'a_0' twice. Give each name once."),
    "a field twice": ("/decide", b'{"rows":[],"rows":[]}', 400, "the name 'rows' twice"),
    "a name twice, deep": ("/decide", b'{"rows":[{"x":{"y":1,"y":2}}]}', 400, "the name 'y' twice"),
    "a list": ("/decide", b"[1]", 422, "must be a JSON object"),
    "a typo": ("/decide", b'{"row":[{"a":1}]}', 422, "no field 'row'. Did you mean 'rows'?"),
    "no rows": ("/decide", b'{"ids":[1]}', 422, "lacks the field 'rows'"),
    "empty rows": ("/decide", b'{"rows":[]}', 422, "rows must be a list of objects"),
    "empty row": ("/decide", b'{"rows":[{}]}', 422, "rows[0] must be an object"),
    "rows of lists": ("/decide", b'{"rows":[[1,2]]}', 422, "rows[0] must be an object"),
    "too few ids": ("/decide", b'{"rows":[{"a":1}],"ids":[]}', 422, "one id for each of the 1 rows; got 0 ids"),
    "ids of truth": ("/decide", b'{"rows":[{"a":1}],"ids":[true]}', 422, "ids[0] must be text of 1 to 200 characters"),
    "fractions": ("/decide", b'{"rows":[{"a":1}],"ids":[1.5]}', 422, "or a whole number of at most 2^53; got 1.5"),
    "too large": ("/decide", b'{"rows":[{"a":1}],"ids":[9007199254740993]}', 422, "at most 2^53"),
    "unprintable": ("/decide", b'{"rows":[{"a":1}],"ids":["a\\u0000"]}', 422, "can be printed"),
    "long id": ("/decide", b'{"rows":[{"a":1}],"ids":["' + b"x" * 201 + b'"]}', 422, "1 to 200 characters"),
    "columns": ("/decide", b'{"rows":[{"a":1}]}', 422, "the request has no column 'a_0'"),
    "labels": ("/observe", b'{"ids":[1],"labels":[{"a":1}]}', 422, "the request has no column 'y_air'"),
    "weights": ("/observe", b'{"ids":[1],"labels":[{"a":1}],"weights":["x"]}', 422, "weights must hold a number"),
    "groups": ("/observe", b'{"ids":[1],"labels":[{"a":1}],"groups":[[]]}', 422, "groups must hold text or a number"),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(client: TestClient, name: str) -> None:
    path, body, status, message = BODIES[name]
    answer = client.post(path, content=body, headers=JSON)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    assert message in answer.json()["error"]


def test_nested_objects(client: TestClient) -> None:
    for depth in (10, 990, 1020, 10_000):  # how deep the parser goes depends on the version of Python
        answer = client.post("/decide", content=b'{"a":' * depth + b"1" + b"}" * depth, headers=JSON)
        assert answer.status_code in (400, 422), depth


def test_values(client: TestClient) -> None:
    for value, message in (
        ("x", "has 'x' in row 0 (counted from 0), which is not a number"),
        ([1], "which is not a number"),
        (10**30, ""),
    ):
        answer = client.post("/decide", json={"rows": [{**rows(0)[0], "a_0": value}]})
        assert answer.status_code == (422 if message else 200), answer.text
        assert message in answer.text
    answer = client.post("/observe", json={"ids": ["unknown"], "labels": labels(0)})
    assert answer.status_code == 422
    assert "of no open row: 'unknown'" in answer.json()["error"]


def test_conflicts(client: TestClient) -> None:
    client.post("/decide", json={"rows": rows(0, 1), "ids": [0, 1]})
    other = client.post("/decide", json={"rows": rows(2), "ids": [0]})
    assert other.status_code == 409
    assert "'0'" in other.json()["error"]
    client.post("/observe", json={"ids": [0], "labels": labels(0)})
    again = client.post("/observe", json={"ids": [0], "labels": labels(1)})
    assert again.status_code == 409
    assert "already have different labels: '0'" in again.json()["error"]


def test_paths_methods_and_types(client: TestClient) -> None:
    missing = client.get("/nowhere")
    assert (missing.status_code, "openapi" in missing.json()["error"]) == (404, True)
    assert client.get("/decide/").status_code == 404
    wrong = client.get("/decide")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert client.delete("/status").headers["allow"] == "GET, HEAD"
    assert client.options("/decide", headers={"Origin": "http://testserver"}).status_code == 405
    assert client.head("/status").status_code == 200
    assert client.post("/nowhere", json={"left": "unread"}).headers["connection"] == "close"
    assert "connection" not in client.post("/decide", json={}).headers
    assert "connection" not in client.get("/status", headers={"Content-Length": "0"}).headers
    for kind in ("text/plain", "", "application/xml"):
        answer = client.post("/decide", content=b"{}", headers={"Content-Type": kind})
        assert answer.status_code == 415, kind
    assert client.get("/status", headers={"Accept": "text/html"}).status_code == 406
    assert client.get("/status", headers={"Accept": "text/html, */*;q=0.1"}).status_code == 200
    assert client.get("/status", headers={"Accept": "application/json;q=0"}).status_code == 406
    assert client.get("/events", headers={"Accept": "application/json"}).status_code == 406


def test_too_many_rows(served: Make) -> None:
    client = served(limits=Limits(most_rows=2))
    kind = {"Content-Type": ARROW}
    for answer in (
        client.post("/decide", json={"rows": rows(0, 1, 2)}),
        client.post("/observe", json={"ids": [0, 1, 2], "labels": labels(0, 1, 2)}),
        client.post("/decide", content=stream(arrow_rows(0, 1, 2)), headers=kind),
    ):
        assert answer.status_code == 413
        assert "at most 2 rows" in answer.json()["error"]
    empty = client.post("/decide", content=stream(arrow_rows()), headers=kind)
    assert empty.status_code == 422
    assert "has no rows" in empty.json()["error"]


def test_too_long_bodies(served: Make) -> None:
    client = served(limits=Limits(most_bytes=1000))
    for headers in (JSON, {**JSON, "Content-Length": "1"}):
        answer = client.post("/decide", content=b" " * 2000, headers=headers)
        assert answer.status_code == 413


def test_a_label_that_is_named_like_a_term(served: Make) -> None:
    X, Y = world()
    models = [("a", oe.Columns(["a_0", "a_1", "a_2"])), ("b", oe.Columns(["b_0", "b_1", "b_2"]))]
    named = Y[:N].set_axis(["weights", "rail", "sea"], axis=1)
    live = oe.LiveEnsemble(oe.DecisionEnsemble(models, feasible=oe.feasible.Simplex(3)).fit(X[:N], named))
    client = served(live=live)
    client.post("/decide", json={"rows": rows(0), "ids": [0]})
    given = dict(zip(["weights", "rail", "sea"], labels(0)[0].values(), strict=True))
    refused = client.post("/observe", json={"ids": [0], "labels": [given], "weights": [1]})
    assert refused.status_code == 422
    assert client.post("/observe", json={"ids": [0], "labels": [given]}).status_code == 200


def test_arrow_that_is_none(client: TestClient) -> None:
    kind = {"Content-Type": "application/vnd.apache.arrow.stream"}
    answer = client.post("/decide", content=b"no arrow", headers=kind)
    assert answer.status_code == 400
    assert "is not a complete Arrow stream" in answer.json()["error"]


def test_what_is_unexpected_is_not_told(served: Make, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    client = served()

    def fail(*_: Any) -> None:
        raise RuntimeError("secret /etc/passwd")

    monkeypatch.setattr("optensemble.serving.findings.status", fail)
    answer = client.get("/status")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "secret" in caplog.text


def test_a_log_that_cannot_be_written(served: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    client = served()
    calls = client.app.state.service.calls  # type: ignore[attr-defined]

    def fail(*_: Any, **__: Any) -> None:
        raise LogError("/secret/decisions.db: the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(type(calls.live.log), "append", fail)
        patched.setattr(type(calls.live.log), "require_lead", fail)
        answer = client.post("/decide", json={"rows": rows(0), "ids": [1]})
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert "secret" not in answer.text
        ready = client.get("/readyz")
        assert ready.status_code == 503
        assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200
    assert client.post("/decide", json={"rows": rows(0), "ids": [1]}).status_code == 200


def test_messages_are_short_and_printable() -> None:
    assert shown("a\x1b[31m\nb") == "a?[31m b"
    assert len(shown("x" * 5000)) == 1000
    assert orjson.loads(Refusal(400, "half \ud800").body) == {"error": "half ?"}
    assert refusal_of(SolverError("row 1")).status == 422
    assert refusal_of(MemoryError()).status == 500
