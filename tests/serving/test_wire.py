from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import optensemble as oe
from optensemble.serving.answers import decisions_json, decisions_of
from tests.serving.clients import TestClient
from tests.serving.conftest import Make
from tests.serving.worlds import LABELS, M, N, ensemble, labels, rows, world

ARROW = "application/vnd.apache.arrow.stream"


def decide(client: TestClient, given: list[Any], ids: list[Any] | None = None) -> list[dict[str, Any]]:
    body = {"rows": given} if ids is None else {"rows": given, "ids": ids}
    answer = client.post("/decide", json=body)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["decisions"]
    return found


def stream(columns: dict[str, Any]) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def test_decisions_are_those_of_the_ensemble(client: TestClient) -> None:
    found = decide(client, rows(0, 1, 2), ["a", "b", "c"])
    expected = oe.LiveEnsemble(ensemble(), refit="never").answer(world()[0].iloc[N : N + 3], ids=["a", "b", "c"])
    assert [each["id"] for each in found] == ["a", "b", "c"]
    assert [list(each["action"]) for each in found] == [LABELS] * 3
    np.testing.assert_allclose([list(each["action"].values()) for each in found], expected.actions)
    for name in ("promised", "low", "high"):
        np.testing.assert_allclose([each[name] for each in found], getattr(expected, name))
    assert {each["followed"] for each in found} <= {"fitted", "online stack"}
    assert sum(found[0]["weights"].values()) == pytest.approx(1.0)


def test_a_number_and_its_text_are_one_id(client: TestClient) -> None:
    first = decide(client, rows(0), [7])
    assert first[0]["id"] == "7"
    for same in ("7", 7.0, "7.0"):
        assert decide(client, rows(0), [same]) == first
    answer = client.post("/observe", json={"ids": ["7"], "labels": labels(0)})
    assert answer.json()["learned"] == 1


def test_rows_without_ids_are_given_ones_that_nobody_has(client: TestClient) -> None:
    found = [each["id"] for _ in range(3) for each in decide(client, rows(0, 1))]
    assert len(set(found)) == 6
    assert all(len(each) == 32 for each in found)
    answer = client.post("/observe", json={"ids": found[:2], "labels": labels(0, 1)})
    assert answer.json()["learned"] == 2


def test_ids_may_be_in_a_column(served: Make) -> None:
    client = served(table={"id_column": "order"})
    given = [{**row, "order": 40 + i} for i, row in enumerate(rows(0, 1))]
    assert [each["id"] for each in decide(client, given)] == ["40", "41"]
    assert decide(client, rows(2), ["beside"])[0]["id"] == "beside"
    both = client.post("/decide", json={"rows": given, "ids": [1, 2]})
    assert both.status_code == 422
    assert "there are ids, and rows have a column 'order'" in both.json()["error"]
    none = client.post("/decide", json={"rows": rows(3)})
    assert none.status_code == 422
    assert "column 'order'[0] must be text" in none.json()["error"]
    read = client.post("/decide", content=stream({**arrow_rows(4), "order": [9]}), headers={"Content-Type": ARROW})
    assert read.json()["decisions"][0]["id"] == "9"


def arrow_rows(*places: int) -> dict[str, Any]:
    part = world()[0].iloc[[N + place for place in places]]
    return {str(name): part[name].to_numpy() for name in part}


def test_arrow_in_and_out(client: TestClient) -> None:
    body = stream({**arrow_rows(0, 1), "id": [5, 6]})
    answer = client.post("/decide", content=body, headers={"Content-Type": ARROW, "Accept": ARROW})
    assert answer.headers["content-type"] == ARROW
    table = pa.ipc.open_stream(answer.content).read_all()
    same = decide(client, rows(0, 1), ["5", "6"])
    assert table["id"].to_pylist() == ["5", "6"]
    for name in LABELS:
        assert table[f"action_{name}"].to_pylist() == [each["action"][name] for each in same]
    assert table["promised"].to_pylist() == [each["promised"] for each in same]
    assert table["weight_fitted"].to_pylist() == [each["weights"]["fitted"] for each in same]
    given = world()[1].iloc[N : N + 2]
    observed = stream(
        {"id": pa.array(["5", "6"]).dictionary_encode(), **{str(name): given[name].to_numpy() for name in given}}
    )
    learned = client.post("/observe", content=observed, headers={"Content-Type": ARROW})
    assert learned.json()["learned"] == 2


def test_arrow_without_ids(client: TestClient) -> None:
    answer = client.post("/decide", content=stream(arrow_rows(0)), headers={"Content-Type": ARROW})
    assert len(answer.json()["decisions"][0]["id"]) == 32
    lacking = client.post("/observe", content=stream({"y_air": [1.0]}), headers={"Content-Type": ARROW})
    assert lacking.status_code == 422
    assert "no column 'id'" in lacking.json()["error"]


def test_large_requests_are_read_and_written_aside(client: TestClient) -> None:
    places = list(range(400))
    found = decide(client, rows(*places), [f"row {place}" for place in places])
    assert [each["id"] for each in found] == [f"row {place}" for place in places]
    answer = client.post("/observe", json={"ids": [each["id"] for each in found], "labels": labels(*places)})
    assert answer.json()["learned"] == 400


def test_infinite_limits_are_null(client: TestClient) -> None:
    answer = oe.LiveEnsemble(ensemble()).answer(world()[0].iloc[:1], ids=["a"])
    answer.low[:], answer.high[:] = -np.inf, np.inf
    assert b'"low":null,"high":null' in decisions_json(decisions_of(answer, LABELS))


def test_observe_tells_what_was_new(client: TestClient) -> None:
    decide(client, rows(0, 1, 2), [0, 1, 2])
    first = client.post("/observe", json={"ids": [1], "labels": labels(1)}).json()
    assert first == {"learned": 1, "known": 0, "unlabelled": 0, "open": 2, "refit": {"due": "", "running": False}}
    again = client.post("/observe", json={"ids": [1, 0], "labels": labels(1, 0)}).json()
    assert (again["learned"], again["known"], again["open"]) == (1, 1, 1)
    nothing = client.post("/observe", json={"ids": [2], "labels": [dict.fromkeys(LABELS)]}).json()
    assert (nothing["learned"], nothing["unlabelled"], nothing["open"]) == (0, 1, 1)


def test_labels_may_have_weights(client: TestClient) -> None:
    decide(client, rows(0, 1), [0, 1])
    answer = client.post("/observe", json={"ids": [0, 1], "labels": labels(0, 1), "weights": [2, 3.5]})
    assert answer.json()["learned"] == 2
    assert client.get("/certificate").json()["counted"] == 5.5
    refused = client.post("/observe", json={"ids": [0], "labels": labels(0), "groups": ["g"]})
    assert refused.status_code == 422
    assert "Leave groups out" in refused.json()["error"]


def test_groups_of_a_fit_with_groups(served: Make) -> None:
    X, Y = world()
    models = [(model, oe.Columns([f"{model}_{j}" for j in range(3)])) for model in ("a", "b")]
    groups = np.arange(N) // 3
    fit = oe.DecisionEnsemble(models, feasible=oe.feasible.Simplex(3)).fit(X[:N], Y[:N], groups=groups)
    client = served(live=oe.LiveEnsemble(fit))
    decide(client, rows(0, 1), [0, 1])
    answer = client.post("/observe", json={"ids": [0, 1], "labels": labels(0, 1), "groups": ["a", 7]})
    assert answer.json()["learned"] == 2


def test_findings(client: TestClient) -> None:
    decide(client, rows(*range(100)), list(range(100)))
    client.post("/observe", json={"ids": list(range(80)), "labels": labels(*range(80))})
    status, certificate = client.get("/status").json(), client.get("/certificate").json()
    assert (status["decided"], status["labels"], status["open"]) == (100, 80, 20)
    assert status["log"]["decisions"] == 100
    assert [each["policy"] for each in certificate["policies"]] == list(status["policies"])
    assert all(each["lost"] <= each["bound"] for each in certificate["policies"])
    assert certificate["finding"] == status["finding"]
    assert client.get("/monitor").json()["watches"]["rows"] == 80
    assert M > 100


def test_without_a_log_and_a_monitor(served: Make) -> None:
    X, Y = world()
    box = oe.WhiteBoxEnsemble([("a", oe.Columns(["a_0", "a_1", "a_2"]))], oe.feasible.Simplex(3), validation=None)
    live = oe.LiveEnsemble(box.fit(X[:N], Y[:N]), refit="never")
    client = served(live=live)
    decide(client, rows(0), [1])
    assert client.get("/status").json()["log"] is None
    assert client.get("/monitor").json()["watches"] is None
    assert client.get("/readyz").status_code == 200
    assert "optensemble_log_entries_total" not in client.get("/metrics").text
