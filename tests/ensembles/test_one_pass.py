"""One pass over the members: an answer, an audit and an explanation ask each member once and solve no row twice."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble.stacking.arms import ENSEMBLE
from tests.ensembles.passes import (
    FITTED,
    NEW,
    Tally,
    decision,
    fitting,
    later,
    paper,
    patch_rounds,
    policies_to_solve,
    won_by,
)

NOT_CONVERGED = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")
BOTH = pytest.mark.parametrize("kind", [oe.WhiteBoxEnsemble, oe.BlackBoxEnsemble])
PATCHED = pytest.mark.parametrize("subgroups", [None, "region"], ids=["no patch", "patched"])
WINNERS = pytest.mark.parametrize("winner", [ENSEMBLE, 0, 2, "average", "stack", "ridge", "mean"])


@cache
def plain(subgroups: str | None, policies: bool = True, sense: str = "max") -> oe.DecisionEnsemble:
    return decision(subgroups, policies, sense)


def assert_pass(tally: Tally, ensemble: oe.DecisionEnsemble, expected: Counter[int]) -> None:
    """Each member was asked once, and each policy solved once; a round of the patch solves the rows that it moved."""
    assert tally.asked == [1] * len(ensemble.members_)
    assert tally.bound == 1
    batches, rounds = tally.solved, patch_rounds(ensemble)
    assert expected <= batches
    assert batches.total() <= expected.total() + rounds
    assert tally.rows <= sum(size * times for size, times in expected.items()) + NEW * rounds


@PATCHED
@pytest.mark.parametrize("policies", [True, False])
@pytest.mark.parametrize("sense", ["max", "min"])
def test_deciding_asks_each_member_and_solves_each_policy_once(
    subgroups: str | None, policies: bool, sense: str
) -> None:
    ensemble, (X, _) = plain(subgroups, policies, sense), later()
    assert ensemble.decider_.winner == ENSEMBLE
    tally = Tally(ensemble)
    for ask in (ensemble.decide, ensemble.answer, ensemble.promise, ensemble.predict, ensemble.self_assess):
        tally.clear()
        ask(X)
        assert_pass(tally, ensemble, policies_to_solve(ensemble, every=False))


@PATCHED
@WINNERS
def test_what_the_winner_does_not_need_is_not_solved(subgroups: str | None, winner: int | str) -> None:
    ensemble, (X, _) = won_by(winner, plain(subgroups)), later()
    tally = Tally(ensemble)
    ensemble.decide(X)
    expected = policies_to_solve(ensemble, every=False)
    if winner != ENSEMBLE and subgroups is None:  # of members, at most the winner: only patches look at what all do
        own = winner == 0
        expected -= Counter({NEW: ensemble.n_models_ - own})
    assert_pass(tally, ensemble, expected)


@PATCHED
@WINNERS
def test_an_audit_solves_beyond_a_decision_only_what_it_shows(subgroups: str | None, winner: int | str) -> None:
    ensemble, (X, Y) = won_by(winner, plain(subgroups)), later()
    tally = Tally(ensemble)
    ensemble.decide(X)
    decided = tally.solved
    tally.clear()
    audit = ensemble.audit(X, Y)
    assert_pass(tally, ensemble, policies_to_solve(ensemble, every=True))
    more = tally.solved - decided
    assert tally.solved == decided + more
    if winner == ENSEMBLE:
        assert more == Counter({NEW: 1, 1: 1})  # ridge, and the mean label
    known = {"average", "stack", "ridge", "mean", "a", "b"} & set(audit.lift["rival"])
    assert more.total() <= len(known) + 2  # a refined and a patched forecast are among the candidates to swap


@PATCHED
def test_an_explanation_is_one_pass_too(subgroups: str | None) -> None:
    ensemble, (X, _) = plain(subgroups), later()
    tally = Tally(ensemble)
    explanation = ensemble.explain(X, 7)
    expected, rounds = policies_to_solve(ensemble, every=True), patch_rounds(ensemble)
    assert tally.asked == [1] * len(ensemble.members_)
    assert expected <= tally.solved
    # the row's own patches are found by replaying them on it alone
    assert tally.rows <= sum(size * times for size, times in expected.items()) + (NEW + 1) * rounds + 1
    np.testing.assert_array_equal(explanation.action, ensemble.decide(X).iloc[7])


@PATCHED
def test_fitting_asks_each_member_once(subgroups: str | None) -> None:
    ensemble = copy.copy(plain(subgroups))
    tally = Tally(ensemble)
    ensemble.fit(*fitting())
    assert tally.asked == [1] * len(ensemble.members_)
    assert tally.bound == 1


# The paper's ensembles


def rounds_of(ensemble: Any) -> int:
    return sum(len(log.rounds) for log in ensemble.log_)


@NOT_CONVERGED
@BOTH
@pytest.mark.parametrize("validation", ["cv", None])
def test_the_papers_ensembles_ask_once_and_solve_what_they_correct(kind: Any, validation: str | None) -> None:
    ensemble, (X, Y) = paper(kind, validation=validation), later()
    assert rounds_of(ensemble) > 0
    tally = Tally(ensemble)
    for ask in (ensemble.decide, ensemble.answer, ensemble.promise):
        tally.clear()
        ask(X)
        starts = 2 if kind is oe.WhiteBoxEnsemble else 1  # its models' policies, or its own
        assert tally.asked == [1] * len(ensemble.members_)
        assert tally.bound == 1
        # a round solves, of every model, the rows that it moved
        assert NEW * starts <= tally.rows <= NEW * starts * (1 + rounds_of(ensemble))
    decided = tally.solved
    tally.clear()
    audit = ensemble.audit(X, Y)
    assert tally.asked == [1] * len(ensemble.members_)
    baselines = [name for name in audit.lift["rival"] if name in ("average", "stack", "ridge", "mean")]
    assert bool(baselines) == (validation == "cv")
    shown = Counter({NEW: len(baselines) - 1, 1: 1}) if baselines else Counter[int]()
    assert tally.solved == decided + shown


# Reading reads


def reading(ensemble: Any, folder: Path) -> dict[str, Callable[[], Any]]:
    X, Y = later()
    return {
        "answer": lambda: ensemble.answer(X),
        "decide": lambda: ensemble.decide(X),
        "predict": lambda: ensemble.predict(X),
        "promise": lambda: ensemble.promise(X),
        "self_assess": lambda: ensemble.self_assess(X),
        "choose": lambda: ensemble.choose(X),
        "explain": lambda: ensemble.explain(X, 3),
        "score": lambda: ensemble.score(X, Y),
        "audit": lambda: ensemble.audit(X, Y),
        "audit_with_answer": lambda: ensemble.audit_with_answer(X, Y),
        "save": lambda: ensemble.save(folder / "ensemble.oe"),
        "repr": lambda: (repr(ensemble), ensemble._repr_html_()),
    }


def every_kind() -> list[Any]:
    boxes = (oe.WhiteBoxEnsemble, oe.BlackBoxEnsemble)
    return [plain("region"), *(paper(box, validation=validation) for box in boxes for validation in ("cv", None))]


@NOT_CONVERGED
def test_reading_changes_nothing(tmp_path: Path) -> None:
    """No method that reads sets an attribute, and what it has read stays as it was."""
    X, _ = later()
    for ensemble in every_kind():
        before, answer = vars(ensemble).copy(), ensemble.answer(X)
        logs = copy.deepcopy([getattr(ensemble, "log_", None), getattr(ensemble, "decider_", None)])
        for name, read in reading(ensemble, tmp_path).items():
            read()
            assert vars(ensemble).keys() == before.keys(), name
            assert [key for key, value in vars(ensemble).items() if value is not before[key]] == [], name
        for ours, theirs in zip(vars(ensemble.answer(X)).values(), vars(answer).values(), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        after = [getattr(ensemble, "log_", None), getattr(ensemble, "decider_", None)]
        np.testing.assert_equal(bare(after), bare(logs))


def bare(value: Any) -> Any:
    """Objects as what they consist of, without what was worked out on the way."""
    if isinstance(value, (list, tuple)):
        return [bare(each) for each in value]
    fields = getattr(value, "__dataclass_fields__", None)
    return value if fields is None else {name: bare(getattr(value, name)) for name in fields}


@NOT_CONVERGED
def test_saving_neither_fits_nor_asks(tmp_path: Path) -> None:
    for number, ensemble in enumerate(every_kind()):
        tally = Tally(ensemble)
        ensemble.save(tmp_path / f"{number}.oe")
        assert tally.asked == [0] * len(ensemble.members_)
        assert (tally.rows, tally.bound) == (0, 0)
        assert (tmp_path / f"{number}.oe").exists()


@NOT_CONVERGED
@BOTH
def test_cross_fitting_asks_each_member_once(kind: Any) -> None:
    ensemble = paper(kind, validation=None)
    tally = Tally(ensemble)
    ensemble.cross_fit()
    assert tally.asked == [1] * len(ensemble.members_)
    assert tally.bound == 1
    assert tally.rows > 5 * FITTED  # it is no reading
    tally.clear()
    ensemble.cross_fit()
    assert tally.asked == [0] * len(ensemble.members_)
    assert tally.rows == 0
