"""What the fit of an estimator is given, and whether it is fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import RANSACRegressor, Ridge
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optensemble.members.estimators import fit_arguments, to_be_fitted

X, Y = np.arange(8.0).reshape(4, 2), np.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize(
    ("estimator", "key"),
    [
        (MultiOutputRegressor(Ridge()), "sample_weight"),
        (MultiOutputRegressor(KNeighborsRegressor()), None),
        (make_pipeline(StandardScaler(), MultiOutputRegressor(KNeighborsRegressor())), None),
        (make_pipeline(StandardScaler(), make_pipeline(Ridge())), "pipeline__ridge__sample_weight"),
        (make_pipeline(StandardScaler(), "passthrough"), None),
        (RANSACRegressor(), "sample_weight"),
        (RANSACRegressor(KNeighborsRegressor()), None),
        (BaggingRegressor(KNeighborsRegressor(), 2), "sample_weight"),  # it draws rows by their weights
        (KNeighborsRegressor(), None),
    ],
)
def test_weights_are_given_to_those_who_can_use_them(estimator: Any, key: str | None) -> None:
    weights = np.ones(4)
    found = fit_arguments(estimator, {"sample_weight": weights, "groups": np.arange(4), "time_ordered": True})
    assert found == ({} if key is None else {key: weights})


def test_a_gaussian_process_is_fitted_once_it_has_learned() -> None:
    new = GaussianProcessRegressor(optimizer=None)
    piped = make_pipeline(StandardScaler(), GaussianProcessRegressor(optimizer=None))
    assert to_be_fitted(new, "m", None)
    assert to_be_fitted(piped, "m", None)
    assert not to_be_fitted(FrozenEstimator(new), "m", None)  # whose user says that it is
    assert not to_be_fitted(new.fit(X, Y), "m", None)
    assert not to_be_fitted(piped.fit(X, Y), "m", None)
