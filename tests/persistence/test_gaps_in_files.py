"""What a file says of absent members and weights: read as it was written, or refused by the name of the part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import FileError
from tests.fuzz_files import Content
from tests.persistence.test_files_of_strangers import array, document, entry
from tests.problems import Floats

N, D = 400, 3


def table() -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(N, D))
    said = np.hstack([signal + size * rng.normal(size=(N, D)) for size in (0.5, 0.8, 1.0)])
    said[::3, :D] = np.nan
    said[1::5, D : 2 * D] = np.nan
    return said, signal + 0.5 * rng.normal(size=(N, D))


@pytest.fixture(scope="module")
def ensemble() -> oe.DecisionEnsemble:
    models = [(f"m{m}", oe.Columns(list(range(D * m, D * (m + 1))))) for m in range(3)]
    X, Y = table()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, N)
    return oe.DecisionEnsemble(models, feasible=feasible.Simplex(D)).fit(X, Y, sample_weight=weights)


@pytest.fixture
def saved(ensemble: oe.DecisionEnsemble, tmp_path: Path) -> Path:
    ensemble.save(tmp_path / "gaps.oe")
    return tmp_path / "gaps.oe"


def test_a_loaded_ensemble_answers_and_promises_as_before(ensemble: oe.DecisionEnsemble, saved: Path) -> None:
    again, X = oe.load(saved), table()[0]
    assert again.decider_.forecaster.patterns[0].absent == ensemble.decider_.forecaster.patterns[0].absent
    before, after = ensemble.answer(X), again.answer(X)
    for name in ("actions", "promised", "low", "high", "chosen", "predictions"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))
    assert ensemble.promise(X) == again.promise(X)


WRONG: list[tuple[Callable[[Content], None], str]] = [
    (document("absences", value=[3]), "absences.0 must be a whole number from 0 to 2"),
    (document("absences", value=[1, 0]), "absences must ascend"),
    (document("on_error", value="ignore"), "on_error must be one of"),
    (document("unit", value=0.0), "unit must be positive"),
    (document("forecaster", "patterns", value=[[5]]), "forecaster.patterns.0.0"),
    (document("forecaster", "patterns", value=[[0], [0]]), "forecaster.patterns must be different members"),
    (document("forecaster", "patterns", value=[[0, 1, 2]]), "forecaster.patterns must be different members"),
    (document("forecaster", "patterns", value=[[0]] * 1 + [[1]] + [[2]] + [[0, 2]] + [[1, 2]] + [[]]), "pattern"),
    (entry("pattern0/ridge/scale", 0.0), "pattern0/ridge/scale must be at least"),
    (array("pattern1/stack/weights", lambda weights: weights[:-1]), "pattern1/stack/weights"),
    (array("filling/covariance", lambda values: values[:, :2]), "filling/covariance"),
    (entry("filling/centre", np.nan), "filling/centre must hold numbers"),
    (entry("weights", -1.0), "weights must be at least 0"),
    (array("weights", lambda weights: weights[:-1]), "weights must be an array"),
    (array("weights", np.zeros_like), "weights must be at least 0, and not all 0"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_wrong_value_is_refused_by_its_name(number: int, saved: Path) -> None:
    change, words = WRONG[number]
    content = Content.of(saved)
    change(content)
    content.write(saved)
    with pytest.raises(FileError, match=words):
        oe.load(saved)


def test_a_file_that_knows_nothing_of_absent_members_still_decides_where_some_are(saved: Path) -> None:
    content = Content.of(saved)
    for name in ("absences", "on_error", "unit"):
        content.document.pop(name)
    content.document["forecaster"].pop("patterns")
    content.document["forecaster"]["patch"] = None
    assert "patched" not in content.document["decider"]["forecasts"]
    content.arrays = {
        name: each for name, each in content.arrays.items() if not name.startswith(("filling", "pattern"))
    }
    content.arrays.pop("weights")
    content.write(saved)
    old, (X, Y) = oe.load(saved), table()
    answer = old.answer(X)
    assert np.isfinite(answer.promised).all()
    assert not (answer.chosen[np.isnan(X[:, 0])] == 0).any()
    earned = (np.asarray(answer.actions) * Y).sum(axis=1).mean()
    assert earned > 0.5 * Y.max(axis=1).mean()


def test_absences_must_be_those_of_the_cells_that_were_patched(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(0), 2000
    signal, away = rng.normal(size=(n, D)), np.arange(n) % 3 == 0
    said = np.hstack([signal + size * rng.normal(size=(n, D)) for size in (0.5, 0.8)])
    said[away, :D] = np.nan
    Y = signal + 0.5 * rng.normal(size=(n, D))
    Y[:, 0] -= 1.5 * (said[:, D] > said[:, D + 1])  # the second is biased where it takes the first coordinate
    models = [(f"m{m}", oe.Columns(list(range(D * m, D * (m + 1))))) for m in range(2)]
    made = oe.DecisionEnsemble(models, feasible=feasible.Simplex(D)).fit(said, Y)
    made.save(tmp_path / "patched.oe")
    content = Content.of(tmp_path / "patched.oe")
    assert content.document["forecaster"]["patch"] is not None
    for absences in ([], [0, 1]):
        content.document["absences"] = absences
        content.write(tmp_path / "wrong.oe")
        with pytest.raises(FileError, match=r"forecaster\.patch\.layout\.sizes"):
            oe.load(tmp_path / "wrong.oe")
