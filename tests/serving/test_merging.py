"""Requests that are made one: every one gets its own, and only the guilty gets the error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

import optensemble as oe
from optensemble.exceptions import ConflictError, InputError, LogError
from optensemble.jobs.live_table import LiveTable
from optensemble.serving.accept import JSON
from optensemble.serving.answers import AnswerPart
from optensemble.serving.calls import LiveCalls
from optensemble.serving.requests import RowRequest, read_decide, read_observe
from optensemble.serving.settings import Limits
from tests.serving.worlds import ensemble, labels, rows


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[LiveCalls]:
    with oe.LiveEnsemble(ensemble(), log=tmp_path / "a.db", refit="never") as live:
        yield LiveCalls(LiveTable.of(live), Limits())


def decide(calls: LiveCalls, place: int, id_: Any = None, **change: Any) -> RowRequest:
    body = {"rows": [{**rows(place)[0], **change}], "ids": [place if id_ is None else id_]}
    return read_decide(orjson.dumps(body), JSON, calls.terms)


def observe(calls: LiveCalls, places: list[int], of: list[int] | None = None, **more: Any) -> RowRequest:
    body = {"ids": places, "labels": labels(*(of or places)), **more}
    return read_observe(orjson.dumps(body), JSON, calls.terms)


def entries(calls: LiveCalls) -> int:
    log: Any = calls.live.log
    return int(log.counts().entries)


def test_many_are_one_entry_of_the_log(calls: LiveCalls) -> None:
    requests = [decide(calls, place) for place in range(10)]
    assert len({request.key for request in requests}) == 1
    found = calls.decide(requests)
    assert entries(calls) == 1
    assert [part.decisions[0]["id"] for part in found] == [str(place) for place in range(10)]
    alone = oe.LiveEnsemble(ensemble(), refit="never")
    table = LiveTable.of(alone)
    for place, part in enumerate(found):
        single = table.decide(decide(calls, place).tables, [str(place)])
        assert part.answer.actions.tolist() == single.actions.tolist()
        assert part.answer.promised.tolist() == single.promised.tolist()


def test_only_the_guilty_gets_the_error(calls: LiveCalls) -> None:
    requests = [decide(calls, place) for place in range(8)]
    requests[3] = decide(calls, 3, a_0="x")
    found = calls.decide(requests)
    assert isinstance(found[3], InputError)
    assert "row 0 (counted from 0)" in str(found[3])
    assert all(isinstance(part, AnswerPart) for place, part in enumerate(found) if place != 3)
    assert calls.live.decided_ == 7


def test_one_id_in_two_requests(calls: LiveCalls) -> None:
    found = calls.decide([decide(calls, 0, "a"), decide(calls, 0, "a"), decide(calls, 1, "a")])
    assert found[0].decisions == found[1].decisions
    assert isinstance(found[2], ConflictError)
    assert calls.live.decided_ == 1


def test_rows_of_other_columns_stay_by_themselves(calls: LiveCalls) -> None:
    assert decide(calls, 0).key != decide(calls, 0, further=1).key
    irregular = {"rows": [rows(0)[0], {**rows(1)[0], "further": 1}], "ids": [0, 1]}
    assert read_decide(orjson.dumps(irregular), JSON, calls.terms).key is None
    plain, weighted = observe(calls, [0]), observe(calls, [0], weights=[2.0])
    assert plain.key != weighted.key


def test_labels_are_learned_together(calls: LiveCalls) -> None:
    calls.decide([decide(calls, place) for place in range(6)])
    before = entries(calls)
    found = calls.observe([observe(calls, [0]), observe(calls, [1, 2]), observe(calls, [3])])
    assert [each["learned"] for each in found] == [1, 2, 1]
    assert entries(calls) == before + 1


def test_what_was_known_is_told_to_whom_it_belongs(calls: LiveCalls) -> None:
    calls.decide([decide(calls, place) for place in range(6)])
    calls.observe([observe(calls, [0, 1])])
    gaps = observe(calls, [4])
    gaps.records[0]["y_air"] = None
    found = calls.observe([observe(calls, [2]), observe(calls, [0, 3]), observe(calls, [1]), gaps, observe(calls, [5])])
    assert [(each["learned"], each["known"], each["unlabelled"]) for each in found] == [
        (1, 0, 0),
        (1, 1, 0),
        (0, 1, 0),
        (0, 0, 1),
        (1, 0, 0),
    ]


def test_only_the_guilty_labels_are_refused(calls: LiveCalls) -> None:
    calls.decide([decide(calls, place) for place in range(4)])
    found = calls.observe([observe(calls, [0]), observe(calls, [9]), observe(calls, [1]), observe(calls, [0], [2])])
    assert [each["learned"] if isinstance(each, dict) else type(each) for each in found] == [
        1,
        InputError,
        1,
        ConflictError,
    ]
    broken = observe(calls, [2])
    broken.records[0]["y_air"] = "x"
    found = calls.observe([broken, observe(calls, [3])])
    assert isinstance(found[0], InputError)
    assert found[1]["learned"] == 1


def test_weights_and_groups_are_joined(calls: LiveCalls) -> None:
    calls.decide([decide(calls, place) for place in range(4)])
    found = calls.observe([observe(calls, [0], weights=[2]), observe(calls, [1, 2], weights=[3, 4])])
    assert [each["learned"] for each in found] == [1, 2]
    assert calls.live.certificate()["counted"].iloc[0] == 9


def test_a_log_that_fails_fails_all_at_once(calls: LiveCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = list[int]()

    def fail(*_: Any, **__: Any) -> None:
        tried.append(1)
        raise LogError("full")

    with monkeypatch.context() as patched:
        patched.setattr(type(calls.live.log), "append", fail)
        found = calls.decide([decide(calls, place) for place in range(5)])
    assert all(isinstance(each, LogError) for each in found)
    assert len(tried) == 1
    assert calls.failed is not None
    assert all(isinstance(each, AnswerPart) for each in calls.decide([decide(calls, place) for place in range(5)]))
    assert calls.failed is None
