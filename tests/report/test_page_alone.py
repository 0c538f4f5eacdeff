"""A page on an ensemble that follows one candidate everywhere: it is named, and not compared with itself."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

import optensemble as oe
from optensemble import feasible
from optensemble.report.page import make_report_page
from optensemble.report.text import about_baselines
from tests.report.ensembles import Case, judge

Floats = npt.NDArray[np.float64]


def world(n: int, seed: int) -> tuple[Floats, Floats]:
    """Two models that have the first two coordinates the wrong way round, so that only a ridge can tell them apart."""
    rng = np.random.default_rng(seed)
    X, noise = rng.normal(size=(n, 6)), rng.normal(size=(n, 3))
    return X, 0.6 * X[:, [1, 0, 2]] * [1, 1, 0] + noise * [1, 1, 4] - [0, 0, 8]


@cache
def alone() -> Case:
    models = [("m0", oe.Columns([0, 1, 2])), ("m1", oe.Columns([3, 4, 5]))]
    for seed in range(50):  # by chance, so seeds are tried until it happens
        ensemble = oe.DecisionEnsemble(models, feasible=feasible.Simplex(3)).fit(*world(200, seed))
        if ensemble.winner_ in ensemble.names_:
            return judge(ensemble, *world(120, seed + 100), ["a", "b", "c"])
    raise AssertionError("the calibrated choice decides everywhere")


def test_what_decides_is_not_compared_with_itself() -> None:
    data = alone().data
    assert data.decides_alone
    assert data.decides_alone not in data.audit.lift["rival"].tolist()
    assert about_baselines(data).startswith(f"{data.decides_alone} decides in every row, and is not compared with")
    assert "and is not compared with itself" in make_report_page(data)
