"""Files of a decision ensemble whose rows belong together, or are very many: read, also older ones, or refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.ensembles import _decision_fit
from optensemble.evaluation import payoff_record, payoff_totals
from optensemble.exceptions import FileError
from optensemble.members import fingerprints
from optensemble.persistence import archive
from tests.problems import Floats

MEMBERS = [("a", oe.Columns([0, 1, 2])), ("b", oe.Columns([3, 4, 5]))]


@cache
def rows(n: int = 600) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(n, 3))
    return np.concatenate(signal + 0.5 * rng.normal(size=(2, n, 3)), axis=1), signal + rng.normal(size=(n, 3))


def fit(groups: Any, **options: Any) -> oe.DecisionEnsemble:
    X, Y = rows()
    return oe.DecisionEnsemble(MEMBERS, feasible=feasible.Simplex(3)).fit(X[:400], Y[:400], groups=groups, **options)


def rewritten(ensemble: oe.DecisionEnsemble, path: Path, change: Callable[[Any, Any], None]) -> Path:
    ensemble.save(path / "now.oe")
    document, arrays = archive.read_archive(path / "now.oe")
    change(document, arrays)
    archive.write_archive(path / "then.oe", document, arrays)
    return path / "then.oe"


# Groups

LABELS: dict[str, list[Any]] = {
    "text": [f"day {row // 4}" for row in range(600)],
    "whole numbers": [row // 4 for row in range(600)],
    "numbers": [row // 4 / 2 for row in range(600)],
    "of two columns": [[f"day {row // 4}", row // 80] for row in range(600)],
}


def given(kind: str, start: int, stop: int) -> Any:
    labels = LABELS[kind][start:stop]
    return (lambda X: np.array(labels, dtype=object)) if kind == "of two columns" else labels


@pytest.mark.parametrize("updated", [False, True])
@pytest.mark.parametrize("kind", LABELS)
def test_a_file_that_lists_the_label_of_every_row_is_read_and_goes_on(kind: str, updated: bool, tmp_path: Path) -> None:
    (X, Y), n = rows(), 400
    ensemble = fit(given(kind, 0, 400))
    if updated:
        ensemble.update(X[400:500], Y[400:500], groups=given(kind, 400, 500))
        n = 500

    def as_it_was(document: Any, arrays: Any) -> None:
        assert document["groups"] == {"pooled": False}
        document["groups"] = LABELS[kind][:n]
        assert len(arrays.pop("group_ids")) == n // 4

    old = oe.load(rewritten(ensemble, tmp_path, as_it_was))
    assert old._groups is not None
    assert ensemble._groups is not None
    np.testing.assert_array_equal(old._groups.ids, ensemble._groups.ids)
    np.testing.assert_array_equal(old.record_.clusters, ensemble.record_.clusters)
    for each in (old, ensemble):  # the first rows are of groups that are known already
        each.update(X[n + 1 : 600], Y[n + 1 : 600], groups=given(kind, n - 3, 596))
    np.testing.assert_array_equal(old.record_.clusters, ensemble.record_.clusters)
    assert old.promise(X) == ensemble.promise(X)


WRONG_GROUPS: dict[str, tuple[Callable[[Any, Any], None], str]] = {
    "a label is missing": (
        lambda document, _: document.update(groups=LABELS["text"][:399]),
        "groups must have a label",
    ),
    "neither labels nor pools": (lambda document, _: document.update(groups={"pooled": 3}), "groups.pooled"),
    "pools with a list": (lambda document, _: document.update(groups={"pooled": True}), "groups must be different"),
    "no list": (lambda _, arrays: arrays.update(group_ids=arrays["group_ids"][:0]), "groups must be different"),
    "one twice": (
        lambda _, arrays: arrays.update(group_ids=np.append(arrays["group_ids"], arrays["group_ids"][:1])),
        "groups must be different",
    ),
    "no numbers": (lambda _, arrays: arrays.update(group_ids=arrays["group_ids"].astype(float)), "group_ids"),
}


@pytest.mark.parametrize("what", WRONG_GROUPS)
def test_groups_that_cannot_be_are_refused(what: str, tmp_path: Path) -> None:
    change, words = WRONG_GROUPS[what]
    with pytest.raises(FileError, match=words):
        oe.load(rewritten(fit(given("text", 0, 400)), tmp_path, change))


# Totals


def sampled(monkeypatch: pytest.MonkeyPatch, **options: Any) -> oe.DecisionEnsemble:
    """An ensemble whose record is of more rows than are kept."""
    for module in (_decision_fit, payoff_record, payoff_totals, fingerprints):
        monkeypatch.setattr(module, "EXACT_ROWS", 300)
    monkeypatch.setattr(payoff_totals, "SAMPLE_ROWS", 200)
    return fit(given("text", 0, 400), **options)


def test_an_advantage_has_totals_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = sampled(monkeypatch)
    again = oe.load(rewritten(ensemble, tmp_path, lambda document, arrays: None))
    for name in ("record_", "advantage_"):
        ours, theirs = getattr(again, name).totals, getattr(ensemble, name).totals
        for part in ("centre", "folds", "bins", "clusters", "low", "high"):
            np.testing.assert_array_equal(getattr(ours, part), getattr(theirs, part), err_msg=part)
    assert again.record_.totals is not None
    assert again.advantage_.totals is not None
    assert again.record_.totals.means != again.advantage_.totals.means


def put(name: str, change: Callable[[Floats], Any]) -> Callable[[Any, Any], None]:
    return lambda _, arrays: arrays.update({name: change(arrays[name])})


WRONG_TOTALS: dict[str, tuple[Callable[[Any, Any], None], str]] = {
    "rows that do not ascend": (put("record_rows", lambda rows: rows[::-1].copy()), "record_rows must ascend"),
    "too few rows": (put("record_rows", lambda rows: rows[:-1]), "record_rows"),
    "folds of fewer rows": (put("record/folds", lambda folds: folds * 0.5), "record/folds must count all rows"),
    "no folds": (put("record/folds", lambda folds: folds[:0]), "record/folds must count all rows"),
    "folds of another shape": (put("advantage/folds", lambda folds: folds[:, :5]), "advantage/folds"),
    "limits that are none": (put("record/limits", lambda limits: limits * np.nan), "record/limits"),
    "clusters of fewer rows": (put("record/clusters", lambda sums: sums[1:]), "record/clusters must count all rows"),
    "time of fewer rows": (put("advantage/bins", lambda sums: sums[1:]), "advantage/bins must count all rows"),
    "no time": (lambda _, arrays: arrays.pop("record/bins"), "record/bins"),
    "no advantage": (lambda _, arrays: arrays.pop("advantage/limits"), "advantage/limits"),
}


@pytest.mark.parametrize("what", WRONG_TOTALS)
def test_totals_that_cannot_be_are_refused(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change, words = WRONG_TOTALS[what]
    ensemble = sampled(monkeypatch, time_ordered=True)
    with pytest.raises(FileError, match=words):
        oe.load(rewritten(ensemble, tmp_path, change))
