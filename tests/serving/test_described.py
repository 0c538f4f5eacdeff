"""The description and the metrics say what the server does."""

from __future__ import annotations

import re
from typing import Any

import pytest

from optensemble.serving import metrics
from optensemble.serving.accept import chosen_type
from optensemble.serving.access_log import AccessLog, escaped
from optensemble.serving.metrics import RequestMetrics, gauge, text_of
from optensemble.serving.refusals import Refusal
from optensemble.serving.routes import OPERATIONS
from tests.serving.clients import TestClient
from tests.serving.conftest import Make
from tests.serving.worlds import COLUMNS, LABELS, labels, rows


def test_all_operations_are_described(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(operation.method, operation.path) for operation in OPERATIONS}
    assert document["openapi"].startswith("3.1")
    names = set(re.findall(r'"#/components/schemas/(\w+)"', client.get("/openapi.json").text))
    assert names <= set(document["components"]["schemas"])


def test_the_columns_of_this_ensemble_are_described(client: TestClient) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    row = schemas["DecideRequest"]["properties"]["rows"]["items"]
    assert list(row["properties"]) == COLUMNS
    assert row["properties"]["a_0"] == {"type": ["number", "null"]}
    assert schemas["Decision"]["properties"]["action"]["required"] == LABELS
    assert schemas["ObserveRequest"]["properties"]["labels"]["items"]["required"] == LABELS


def test_a_token_is_described(served: Make) -> None:
    client = served(token="a-token-of-some-length")
    document = client.get("/openapi.json", headers={"Authorization": "Bearer a-token-of-some-length"}).json()
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert "401" in document["paths"]["/decide"]["post"]["responses"]
    assert "401" not in document["paths"]["/healthz"]["get"]["responses"]


LINE = re.compile(r'(\w+)(\{(?:\w+="(?:[^"\\\n]|\\.)*",?)+\})? (NaN|[+-]?Inf|[-+0-9.e]+)')


def parsed(text: str) -> dict[str, float]:
    """The values of metrics, whose every line must be as Prometheus wants it."""
    found, typed = dict[str, float](), set[str]()
    for line in text.splitlines():
        if line.startswith("#"):
            word, name, _ = line[2:].split(" ", 2)
            assert word in ("HELP", "TYPE")
            typed |= {name} if word == "TYPE" else set()
            continue
        match = LINE.fullmatch(line)
        assert match, line
        assert re.sub("_(bucket|sum|count)$", "", match[1]) in typed or match[1] in typed
        key = match[1] + (match[2] or "")
        assert key not in found
        found[key] = float(match[3])
    return found


def test_metrics(client: TestClient) -> None:
    client.post("/decide", json={"rows": rows(0, 1, 2), "ids": [0, 1, 2]})
    client.post("/observe", json={"ids": [0, 1], "labels": labels(0, 1)})
    client.post("/decide", content=b"x", headers={"Content-Type": "application/json"})
    client.get("/nowhere/at/all")
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = parsed(answer.text)
    names = {
        "decisions_total": 3,
        "labels_total": 2,
        "open_rows": 1,
        "expired_total": 0,
        "refit_due": 0,
        "refit_running": 0,
        "refits_failed_total": 0,
        "log_entries_total": 2,
        "ready": 1,
        'http_requests_total{method="POST",path="/decide",status="200"}': 1,
        'http_requests_total{method="POST",path="/decide",status="400"}': 1,
        'http_requests_total{method="GET",path="other",status="404"}': 1,
        'http_request_seconds_count{path="/decide"}': 2,
        'http_request_seconds_bucket{path="/decide",le="+Inf"}': 2,
        'alarm_standing{kind="broken",direction="less"}': 0,
    }
    assert {name: found[f"optensemble_{name}"] for name in names} == names
    for name in (
        "promised_sum",
        "earned_sum",
        "log_bytes",
        'policy_weight{policy="online stack"}',
        'evidence_log10{direction="less"}',
    ):
        assert f"optensemble_{name}" in found
    assert (
        found["optensemble_last_label_timestamp_seconds"] >= found["optensemble_last_decision_timestamp_seconds"] > 1e9
    )
    assert any(name.startswith("optensemble_build_info{version=") for name in found)


def test_metrics_while_the_ensemble_is_busy(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "optensemble_decisions_total 0" in client.get("/metrics").text
    service = client.app.state.service  # type: ignore[attr-defined]
    monkeypatch.setattr("optensemble.serving.service._SCRAPE", 0.05)
    own = type(service.calls).metrics

    def slow(calls: Any) -> str:
        import time

        time.sleep(0.5)
        return str(own(calls))

    monkeypatch.setattr(type(service.calls), "metrics", slow)
    assert "optensemble_decisions_total 0" in client.get("/metrics").text


def test_numbers_as_prometheus_writes_them() -> None:
    text = text_of(
        [gauge(str(n), "m", value) for n, value in enumerate([float("nan"), float("inf"), -float("inf"), 0.1])]
    )
    assert [line.split()[1] for line in text.splitlines() if line[0] != "#"] == ["NaN", "+Inf", "-Inf", "0.1"]


def test_latencies_are_counted_up_to_their_limit() -> None:
    counted = RequestMetrics()
    for seconds in (0.001, 0.0011, 60.0):
        counted.add("GET", "/", 200, seconds)
    found = parsed(counted.text())
    assert found['optensemble_http_request_seconds_bucket{path="/",le="0.001"}'] == 1
    assert found['optensemble_http_request_seconds_bucket{path="/",le="0.0025"}'] == 2
    assert found[f'optensemble_http_request_seconds_bucket{{path="/",le="{metrics.BUCKETS[-1]}"}}'] == 2
    assert found['optensemble_http_request_seconds_bucket{path="/",le="+Inf"}'] == 3


def test_access_log(capsys: pytest.CaptureFixture[str]) -> None:
    for form, expected in (
        ("text", r"\S+ GET /a\\x0ab 200 1\.50 ms 7 bytes\n"),
        ("json", r'\{"time":.*"bytes":7\}\n'),
        ("", ""),
    ):
        log = AccessLog(form)
        log.add("GET", "/a\nb", 200, 0.0015, 7)
        log.close()
        assert re.fullmatch(expected, capsys.readouterr().err)
    assert len(escaped("x" * 999)) == 200
    assert escaped("\u2028\U000e0001") == r"\u2028\U000e0001"


def test_an_access_log_that_nobody_reads() -> None:
    class Closed:
        def write(self, _: str) -> None:
            raise BrokenPipeError

    log: Any = AccessLog("text", Closed())  # type: ignore[arg-type]
    log.add("GET", "/", 200, 0.0, 0)
    log.close()
    log.add("GET", "/", 200, 0.0, 0)
    assert not log._thread.is_alive()


def test_types_that_are_accepted() -> None:
    offered = ("application/json", "text/html")
    for accept, expected in (
        (None, "application/json"),
        (b"", "application/json"),
        (b"text/html", "text/html"),
        (b"*/*;q=0.1, text/*", "text/html"),
        (b"application/json;q=0.2, */*;q=0.5", "text/html"),
        (b"text/html;q=x, application/*", "application/json"),
        (b"text/html;q=nan, */*", "application/json"),
    ):
        assert chosen_type(accept, offered) == expected
    with pytest.raises(Refusal, match="Accept one of these"):
        chosen_type(b"image/png", offered)
