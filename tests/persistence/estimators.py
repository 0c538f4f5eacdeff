"""Estimators of many kinds, fitted on few rows, and blobs of them with a few values changed."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, PoissonRegressor, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, OneHotEncoder, StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(60, 3)), np.arange(60) % 3])
Y = 2.0 * X[:, :3] + RNG.normal(size=(60, 3))

FOREST = "sklearn.tree._tree.Tree"
PREDICTOR = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
NEIGHBOURS = [
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neighbors._regression.KNeighborsRegressor",
]


def _encoded(**options: Any) -> ColumnTransformer:
    return ColumnTransformer([("kind", OneHotEncoder(**options), [3]), ("number", StandardScaler(), [0, 1, 2])])


def _boosted(**options: Any) -> MultiOutputRegressor:
    return MultiOutputRegressor(HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=5, **options))


PLAIN: dict[str, Callable[[], Any]] = {
    "linear": LinearRegression,
    "ridge": RidgeCV,
    "forest": lambda: RandomForestRegressor(4, random_state=0),
    "extra": lambda: ExtraTreesRegressor(4, random_state=np.random.RandomState(1)),
    "histogram": _boosted,
    "gradient": lambda: MultiOutputRegressor(GradientBoostingRegressor(n_estimators=3, random_state=0)),
    "network": lambda: MLPRegressor(hidden_layer_sizes=(4,), solver="lbfgs", max_iter=2000, random_state=0),
    "pipeline": lambda: make_pipeline(StandardScaler(), Ridge()),
    "encoded": lambda: make_pipeline(_encoded(), Ridge()),
    "dropped": lambda: make_pipeline(_encoded(drop="first", sparse_output=False), Ridge()),
    "target": lambda: TransformedTargetRegressor(Ridge(), transformer=StandardScaler()),
    "search": lambda: GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, scoring="neg_mean_squared_error"),
    "bagging": lambda: BaggingRegressor(n_estimators=2, random_state=0),
    "chain": lambda: RegressorChain(Ridge()),
    "bins": lambda: make_pipeline(KBinsDiscretizer(3, strategy="uniform"), Ridge()),
    "function": lambda: make_pipeline(SimpleImputer(), FunctionTransformer(np.arctan), Ridge()),
    "selected": lambda: MultiOutputRegressor(make_pipeline(SelectKBest(f_regression, k=2), Ridge())),
    "stacked": lambda: StackingRegressor([("ridge", Ridge()), ("tree", DecisionTreeRegressor(max_depth=2))], cv=2),
    "voting": lambda: MultiOutputRegressor(VotingRegressor([("a", Ridge()), ("b", DecisionTreeRegressor())])),
}
"""Estimators that need no trust."""

ASKED: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "neighbours": (KNeighborsRegressor, NEIGHBOURS),
    "vectors": (lambda: MultiOutputRegressor(SVR()), ["sklearn.svm._classes.SVR"]),
    "categories": (
        lambda: _boosted(categorical_features=[3]),
        ["functools.partial", PREDICTOR, "sklearn.utils.validation.check_array"],
    ),
    "grouped": (
        lambda: make_pipeline(_encoded(max_categories=2), Ridge()),
        [OneHotEncoder.__module__ + ".OneHotEncoder"],
    ),
    "begun": (
        lambda: MultiOutputRegressor(GradientBoostingRegressor(n_estimators=2, init=Ridge())),
        ["sklearn.ensemble._gb.GradientBoostingRegressor"],
    ),
}
"""Estimators that do, and the types to be named."""


def fitted(kind: str) -> Any:
    """Return an estimator, fitted."""
    make = PLAIN[kind] if kind in PLAIN else ASKED[kind][0]
    return make().fit(X, Y[:, 0] if kind == "stacked" else Y)


def poisson() -> Any:
    """Return an estimator with a compiled loss."""
    return PoissonRegressor().fit(X, np.abs(Y[:, 0]))


# Changed blobs


def unpacked(blob: bytes) -> tuple[Any, dict[str, bytes]]:
    """Return the schema of a blob, and its other files."""
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(files.pop("schema.json")), files


def packed(schema: Any, files: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a blob of a schema and files."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", compression) as archive:
        archive.writestr("schema.json", json.dumps(schema))
        for name, content in files.items():
            archive.writestr(name, content)
    return whole.getvalue()


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Go through the nodes of a schema."""
    if isinstance(schema, dict):
        if "__loader__" in schema:
            yield schema
        for value in schema.values():
            yield from nodes(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from nodes(value)


def node_of(schema: Any, own: str) -> dict[str, Any]:
    """Return the first node of a class, one that is fitted if there are others."""
    found = [node for node in nodes(schema) if node["__class__"] == own]
    learned = [node for node in found if "n_features_in_" in str((node.get("content") or {}).get("content"))]
    return (learned or found)[0]


def read_npy(content: bytes) -> Any:
    return np.load(io.BytesIO(content), allow_pickle=False)


def as_npy(array: Any) -> bytes:
    written = io.BytesIO()
    np.save(written, array)
    return written.getvalue()
