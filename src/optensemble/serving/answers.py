"""Answers to requests, in JSON or as an Arrow stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import orjson

from optensemble._core.arrays import Floats
from optensemble.ensembles._live_answer import LiveAnswer
from optensemble.serving.arrow_stream import write_stream

Decision = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Answered:
    """The answer of a call, and its decisions as JSON has them, which are made once for all requests in it."""

    answer: LiveAnswer
    labels: Sequence[str]

    @cached_property
    def decisions(self) -> list[Decision]:
        """All decisions."""
        return decisions_of(self.answer, self.labels)


@dataclass(frozen=True, eq=False)
class AnswerPart:
    """The part of an answer that belongs to one request."""

    whole: Answered
    rows: slice

    @property
    def decisions(self) -> list[Decision]:
        """Its decisions as JSON has them."""
        return self.whole.decisions[self.rows]

    @property
    def answer(self) -> LiveAnswer:
        """Its decisions as arrays."""
        whole, rows = self.whole.answer, self.rows
        names = ("actions", "promised", "low", "high", "chosen", "ids")
        return replace(whole, index=None, **{name: getattr(whole, name)[rows] for name in names})


def decisions_of(answer: LiveAnswer, names: Sequence[str]) -> list[Decision]:
    """Return the decisions of an answer as JSON has them; ``names`` are those of the labels."""
    weights = _weights(answer)
    columns = zip(
        answer.ids.tolist(),
        answer.actions.tolist(),
        answer.promised.tolist(),
        answer.low.tolist(),
        answer.high.tolist(),
        answer.followed.tolist(),
        weights,
        strict=True,
    )
    return [
        {
            "id": id_,
            "action": dict(zip(names, action, strict=True)),
            "promised": promised,
            "low": low,  # what is infinite becomes null in JSON
            "high": high,
            "followed": followed,
            "weights": chosen,
        }
        for id_, action, promised, low, high, followed, chosen in columns
    ]


def _weights(answer: LiveAnswer) -> list[dict[str, float]]:
    """Return the weights of the policies in each row; most often they are the same in all."""
    chosen, policies = answer.chosen, answer.policies
    if len(chosen) == 1 or (chosen == chosen[:1]).all():
        return [dict(zip(policies, chosen[0].tolist(), strict=True))] * len(chosen) if len(chosen) else []
    return [dict(zip(policies, row, strict=True)) for row in chosen.tolist()]


def decisions_json(decisions: list[Decision]) -> bytes:
    """Return decisions as the body of an answer."""
    return orjson.dumps({"decisions": decisions})


def decisions_stream(answer: LiveAnswer, names: Sequence[str], id_column: str) -> bytes:
    """Return the decisions of an answer as an Arrow stream, with the columns that a table of decisions has."""
    columns: dict[str, Any] = {id_column: answer.ids.tolist()}
    columns |= {f"action_{name}": answer.actions[:, j] for j, name in enumerate(names)}
    columns |= {"followed": answer.followed.tolist(), "promised": answer.promised}
    columns |= {"low": _finite(answer.low), "high": _finite(answer.high)}
    columns |= {f"weight_{name}": answer.chosen[:, i] for i, name in enumerate(answer.policies)}
    return write_stream(columns)


def _finite(limits: Floats) -> Any:
    """Return limits with nulls in place of infinity."""
    import pyarrow as pa

    return pa.array(limits, mask=~np.isfinite(limits))


def json_body(document: Any) -> bytes:
    """Return a document as the body of an answer; numbers of numpy's are numbers."""
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
