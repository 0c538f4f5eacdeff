"""Validation of estimators that skops has made, before anything asks them: what they hand to compiled code.

A model of scikit-learn trusts its own attributes. Whether a tree's features exist in X, whether categories fit the
columns they become: nothing checks that at prediction, so it is checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from optensemble.persistence.estimator_nodes import check_walk
from optensemble.persistence.estimator_types import BOOSTING, ENCODER, PREDICTOR, STACKING, TREE
from optensemble.persistence.parts import Wrong

_MERSENNE_WORDS = 624


class Unvouched(Exception):  # noqa: N818  (load makes an InputError of it)
    """A use of a type that no check here covers; its name must be trusted."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def check_estimator(estimator: Any, trusted: frozenset[str]) -> None:
    """Raise :class:`Wrong` or :class:`Unvouched` unless all parts of an estimator may be asked for predictions."""
    left, seen, vouched = [estimator], dict[int, Any](), set[int]()
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value  # kept, so that no other object gets its id
        names = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__]
        if names[0] in (TREE, PREDICTOR) and id(value) not in vouched:
            raise Wrong(names[0], "belong to an estimator", type(value).__name__)
        if names[0].startswith("sklearn."):
            _require_own_methods(value)
        for name in names:
            for part in _CHECKS[name](value) if name in _CHECKS else ():
                if isinstance(part, Unvouched):
                    if part.name not in trusted:
                        raise part
                else:
                    vouched.add(id(part))
        left += _parts(value)


def _parts(value: Any) -> list[Any]:
    """Return the objects that an object has."""
    if isinstance(value, dict):
        return [*value.keys(), *value.values(), *getattr(value, "__dict__", {}).values()]
    if isinstance(value, list | tuple | set):
        return list(value)
    if isinstance(value, np.ndarray):
        return list(value.flat) if value.dtype == object else []
    return list(getattr(value, "__dict__", {}).values()) if not isinstance(value, type) else []


def _require_own_methods(value: Any) -> None:
    """Refuse attributes in the place of methods: they would go around what a method checks."""
    for name in getattr(value, "__dict__", {}):
        if callable(getattr(type(value), name, None)):
            raise Wrong(type(value).__name__, f"have the method {name}", "an attribute")


# One check for each kind: it raises Wrong, and goes through the parts that it vouches for and what is not vouched for

Vouched = Iterator[Any]


def _whole(value: Any, name: str, low: int = 1) -> int:
    if type(value) is not int or value < low:
        raise Wrong(name, f"be a whole number, at least {low}", value)
    return value


def _check_decision_tree(model: Any) -> Vouched:
    """Check that X will have the features by which the tree splits: the model compares X with its own count."""
    if (tree := vars(model).get("tree_")) is None:
        return
    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in (type(tree),)]
    if names != [TREE] or _whole(vars(model).get("n_features_in_"), "n_features_in_") != tree.n_features:
        raise Wrong(type(model).__name__, "have a tree of its features", names)
    yield tree


def _check_boosting(model: Any) -> Vouched:
    """Check the trees of gradient boosting, which compiled code walks by itself, and its first prediction.

    It adds to what the initial estimator predicts, and does not look whether that has as many rows as X.
    """
    if (trees := vars(model).get("estimators_")) is None:
        return
    features = _whole(vars(model).get("n_features_in_"), "n_features_in_")
    if not isinstance(trees, np.ndarray) or trees.dtype != object or trees.ndim != 2 or trees.shape[1] != 1:
        raise Wrong(BOOSTING, "have one tree in each stage", getattr(trees, "shape", trees))
    for tree in trees.flat:
        if type(tree).__name__ != "DecisionTreeRegressor" or vars(tree).get("n_features_in_") != features:
            raise Wrong(BOOSTING, f"have trees of {features} features", tree)
    begin = vars(model).get("init_")
    mean = type(begin).__name__ == "DummyRegressor" and vars(begin).get("n_outputs_") == 1
    link = type(getattr(vars(model).get("_loss"), "link", None)).__name__
    if vars(model).get("n_trees_per_iteration_") != 1 or link != "IdentityLink" or not (mean or begin == "zero"):
        yield Unvouched(BOOSTING)


def _check_histogram_boosting(model: Any) -> Vouched:
    """Check the trees of histogram-based boosting: children, features, and sets of categories."""
    if (predictors := vars(model).get("_predictors")) is None:
        return
    known = vars(model)["_bin_mapper"].is_categorical_
    if not isinstance(known, np.ndarray) or known.ndim != 1 or known.dtype.kind not in "bu":
        raise Wrong(PREDICTOR, "know which features are categories", known)
    if vars(model).get("_preprocessor") is not None:
        yield Unvouched(PREDICTOR)  # which may make other columns of X than it did
    elif _whole(vars(model).get("n_features_in_"), "n_features_in_") != len(known):
        raise Wrong(PREDICTOR, f"have {len(known)} features", model.n_features_in_)
    if vars(model).get("_in_fit"):
        raise Wrong(PREDICTOR, "be fitted", "a fit")
    for stage in predictors:
        for predictor in stage:
            _check_predictor(predictor, known != 0)
            yield predictor


def _check_predictor(predictor: Any, categorical: npt.NDArray[Any]) -> None:
    if f"{type(predictor).__module__}.{type(predictor).__qualname__}" != PREDICTOR:
        raise Wrong(PREDICTOR, "be a tree", predictor)
    nodes, sets = predictor.nodes, predictor.raw_left_cat_bitsets
    if nodes.ndim != 1 or not len(nodes) or nodes.dtype.names is None:
        raise Wrong(PREDICTOR, "have nodes", nodes)
    leaf = nodes["is_leaf"] != 0
    check_walk(PREDICTOR, nodes["left"], nodes["right"], leaf)
    split = nodes["feature_idx"][~leaf]
    if split.size and not 0 <= split.min() <= split.max() < len(categorical):
        raise Wrong(PREDICTOR, f"split by features from 0 to {len(categorical) - 1}", (split.min(), split.max()))
    if sets.ndim != 2 or sets.dtype != np.uint32 or sets.shape[1] != 8:
        raise Wrong(PREDICTOR, "have sets of 256 categories", sets)
    by_category = ~leaf & (nodes["is_categorical"] != 0)
    chosen, features = nodes["bitset_idx"][by_category], nodes["feature_idx"][by_category]
    if not categorical[features].all() or (chosen.size and not 0 <= chosen.min() <= chosen.max() < len(sets)):
        raise Wrong(PREDICTOR, "split categories by sets that it has", chosen)


def _check_encoder(model: Any) -> Vouched:
    """Check that categories fit the columns they become: the sparse matrix made of them is not checked."""
    if (categories := vars(model).get("categories_")) is None:
        return
    sizes, dropped = list[int](), vars(model).get("_drop_idx_after_grouping")
    drops = [None] * len(categories) if dropped is None else list(dropped)
    for known, drop in zip(categories, drops, strict=True):
        _require_ascending(known)
        if drop is not None and not 0 <= drop < len(known):
            raise Wrong(ENCODER, "drop categories that it has", drop)
        sizes.append(len(known) - (drop is not None))
    if vars(model).get("_infrequent_enabled"):
        yield Unvouched(ENCODER)
        return
    if vars(model).get("_n_features_outs") != sizes or vars(model).get("n_features_in_") != len(sizes):
        raise Wrong(ENCODER, f"make {sizes} columns", vars(model).get("_n_features_outs"))


def _require_ascending(known: Any) -> None:
    """Refuse categories out of order: a value would be found beyond the last of them."""
    if not isinstance(known, np.ndarray) or known.ndim != 1 or not len(known):
        raise Wrong(ENCODER, "have categories", known)
    values = [value for value in known.tolist() if value is not None and value == value]
    rest = known.tolist()[len(values) :]
    if any(value is not None and value == value for value in rest):
        raise Wrong(ENCODER, "have missing values last", known)
    if not all(first < second for first, second in pairwise(values)):
        raise Wrong(ENCODER, "have categories that ascend", known)


def _check_stacking(model: Any) -> Vouched:
    """Check that stacking asks for predictions: it calls the methods it names."""
    if any(method != "predict" for method in vars(model).get("stack_method_", ())):
        yield Unvouched(STACKING)


def _check_random_state(state: Any) -> Vouched:
    """Check the position of a random state, at which it reads its words."""
    if not 0 <= state.get_state(legacy=False)["state"]["pos"] <= _MERSENNE_WORDS:
        raise Wrong("a random state", "be at one of its words", "another position")
    return iter(())


_CHECKS: dict[str, Callable[[Any], Vouched]] = {
    "sklearn.tree._classes.BaseDecisionTree": _check_decision_tree,
    BOOSTING: _check_boosting,
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.BaseHistGradientBoosting": _check_histogram_boosting,
    ENCODER: _check_encoder,
    STACKING: _check_stacking,
    "numpy.random.mtrand.RandomState": _check_random_state,
}
