"""Metrics in the text format of Prometheus, version 0.0.4."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate
from math import isfinite
from typing import NamedTuple

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper limits of a latency, in seconds."""

_PREFIX = "optensemble_"

Labels = tuple[tuple[str, str], ...]


class Metric(NamedTuple):
    """A metric: its name, kind, what it means, and its values by their labels."""

    name: str
    kind: str
    meaning: str
    values: Mapping[Labels, float]


def gauge(name: str, meaning: str, value: float | Mapping[Labels, float]) -> Metric:
    """Return a metric that goes up and down."""
    return Metric(name, "gauge", meaning, value if isinstance(value, Mapping) else {(): value})


def counter(name: str, meaning: str, value: float | Mapping[Labels, float]) -> Metric:
    """Return a metric that only grows."""
    return Metric(name, "counter", meaning, value if isinstance(value, Mapping) else {(): value})


def text_of(metrics: Iterable[Metric]) -> str:
    r"""Return metrics as Prometheus reads them.

    >>> print(text_of([gauge("open", "Rows.", {(("policy", 'a"b'),): 2.0})]), end="")
    # HELP optensemble_open Rows.
    # TYPE optensemble_open gauge
    optensemble_open{policy="a\"b"} 2
    """
    lines = list[str]()
    for metric in metrics:
        name = _PREFIX + metric.name
        lines += [f"# HELP {name} {metric.meaning}", f"# TYPE {name} {metric.kind}"]
        lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in metric.values.items()]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if not isfinite(value):
        return "NaN" if value != value else "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


class RequestMetrics:
    """Counts requests by path and status, and how long they took."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def add(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request; paths and methods must be few."""
        self._requests[method, path, status] += 1
        buckets = self._buckets.get(path)
        if buckets is None:
            buckets = self._buckets[path] = [0] * (len(BUCKETS) + 1)
            self._seconds[path] = 0.0
        buckets[bisect_left(BUCKETS, seconds)] += 1
        self._seconds[path] += seconds

    def text(self) -> str:
        """Return the metrics."""
        requests: dict[Labels, float] = {
            (("method", method), ("path", path), ("status", str(status))): float(count)
            for (method, path, status), count in sorted(self._requests.items())
        }
        return text_of([counter("http_requests_total", "Requests by path and status.", requests)]) + self._histogram()

    def _histogram(self) -> str:
        name = f"{_PREFIX}http_request_seconds"
        lines = [
            f"# HELP {name} Seconds from a request's headers to the end of its answer.",
            f"# TYPE {name} histogram",
        ]
        for path, buckets in sorted(self._buckets.items()):
            totals, limits = list(accumulate(buckets)), [*map(str, BUCKETS), "+Inf"]
            lines += [
                f'{name}_bucket{{path="{path}",le="{limit}"}} {total}'
                for limit, total in zip(limits, totals, strict=True)
            ]
            lines += [
                f'{name}_sum{{path="{path}"}} {self._seconds[path]!r}',
                f'{name}_count{{path="{path}"}} {totals[-1]}',
            ]
        return "\n".join(lines) + "\n"
