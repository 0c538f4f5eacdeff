"""Validation of what estimators hand to compiled code, or make arrays of the size of, once skops has made them.

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
from optensemble.persistence.estimator_types import (
    BIN_MAPPER,
    BOOSTING,
    CHAIN,
    COLUMNS,
    DUMMY,
    ENCODER,
    FUNCTION,
    POLYNOMIAL,
    PREDICTOR,
    SCORER,
    STACKING,
    TREE,
    TREES,
    full_name,
)
from optensemble.persistence.parts import Wrong

_MERSENNE_WORDS = 624
_HIGHEST_DEGREE = 20
_MOST_COLUMNS = 100_000
"""Columns of a polynomial that need no trust: a row of them takes up 800 kB."""


class Unvouched(Exception):  # noqa: N818  (load makes an InputError of it)
    """A use of a type that no check here covers; its name must be trusted."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


# One check for each kind: it raises Wrong, and goes through the parts that it vouches for and what is not vouched for

Vouched = Iterator[Any]


def _whole(value: Any, name: str, low: int = 1) -> int:
    if type(value) is not int or value < low:
        raise Wrong(name, f"be a whole number, at least {low}", value)
    return value


def _array(value: Any, name: str, kinds: str, dimensions: int) -> npt.NDArray[Any]:
    """Return an array that is one and no more: a masked one hides entries from checks, and not from compiled code."""
    if type(value) is not np.ndarray or value.dtype.kind not in kinds or value.ndim != dimensions:
        found = type(value).__name__, getattr(value, "ndim", None), str(getattr(value, "dtype", None))
        raise Wrong(name, f"be a plain array, in {dimensions} dimensions, of kind {' or '.join(kinds)}", found)
    return value


def _check_decision_tree(model: Any) -> Vouched:
    """Check that X will have the features by which the tree splits: the model compares X with its own count."""
    own = vars(model)
    if "tree_" not in own:  # not fitted
        return
    tree, kind = own["tree_"], full_name(type(own["tree_"]))
    if kind != TREE or _whole(own.get("n_features_in_"), "n_features_in_") != tree.n_features:
        raise Wrong(type(model).__name__, "have a tree of its features", kind)
    yield tree


def _check_forest(model: Any) -> Vouched:
    """Check that a forest makes room for as many outputs as its trees have."""
    own = vars(model)
    if "estimators_" not in own and "n_outputs_" not in own:  # not fitted
        return
    trees, outputs = own.get("estimators_"), _whole(own.get("n_outputs_"), "n_outputs_")
    if type(trees) is not list or not trees or any(full_name(type(tree)) not in TREES for tree in trees):
        raise Wrong(type(model).__name__, "have trees", type(trees).__name__)
    sizes = {getattr(vars(tree).get("tree_"), "n_outputs", None) for tree in trees}
    if sizes != {outputs}:
        raise Wrong(type(model).__name__, f"have trees of {outputs} outputs", sizes)
    yield from ()


def _check_dummy(model: Any) -> Vouched:
    """Check that a constant is repeated as often as there are outputs, and rows, and no more."""
    own = vars(model)
    if "constant_" in own or "n_outputs_" in own:
        shape = _array(own.get("constant_"), "constant_", "biuf", 2).shape
        if shape != (1, _whole(own.get("n_outputs_"), "n_outputs_")):
            raise Wrong(DUMMY, f"have {shape[1]} outputs", own.get("n_outputs_"))
    yield from ()


def _check_boosting(model: Any) -> Vouched:
    """Check the trees of gradient boosting, which compiled code walks by itself, and its first prediction.

    It adds to what the initial estimator predicts, and does not look whether that has as many rows as X.
    """
    own = vars(model)
    if "estimators_" not in own:  # not fitted
        return
    features, trees = (
        _whole(own.get("n_features_in_"), "n_features_in_"),
        _array(own["estimators_"], "estimators_", "O", 2),
    )
    if trees.shape[1] != 1:
        raise Wrong(BOOSTING, "have one tree in each stage", trees.shape)
    for tree in trees.flat:
        fitted = full_name(type(tree)) in TREES and full_name(type(vars(tree).get("tree_"))) == TREE
        if not fitted or vars(tree).get("n_features_in_") != features:
            raise Wrong(BOOSTING, f"have trees of {features} features", type(tree).__name__)
    begin, loss = own.get("init_"), own.get("_loss")
    mean = full_name(type(begin)) == DUMMY and vars(begin).get("n_outputs_") == 1
    zero = type(begin) is str and begin == "zero"
    link = full_name(type(getattr(loss, "link", None)))
    if own.get("n_trees_per_iteration_") != 1 or link != "sklearn._loss.link.IdentityLink" or not (mean or zero):
        yield Unvouched(BOOSTING)


def _check_histogram_boosting(model: Any) -> Vouched:
    """Check the trees of histogram-based boosting: children, features, and sets of categories."""
    own = vars(model)
    if "_predictors" not in own:  # not fitted
        return
    if full_name(type(own.get("_bin_mapper"))) != BIN_MAPPER:
        raise Wrong(PREDICTOR, "know its bins", type(own.get("_bin_mapper")).__name__)
    known = _array(vars(own["_bin_mapper"]).get("is_categorical_"), "is_categorical_", "bu", 1)
    _array(own.get("_baseline_prediction"), "_baseline_prediction", "f", 2)
    if _whole(own.get("n_trees_per_iteration_"), "n_trees_per_iteration_") != 1:
        raise Wrong(PREDICTOR, "be of one output", own["n_trees_per_iteration_"])
    if own.get("_preprocessor") is not None:
        yield Unvouched(PREDICTOR)  # which may make other columns of X than it did
    elif _whole(own.get("n_features_in_"), "n_features_in_") != len(known):
        raise Wrong(PREDICTOR, f"have {len(known)} features", own["n_features_in_"])
    if own.get("_in_fit"):
        raise Wrong(PREDICTOR, "be fitted", "a fit")
    for stage in own["_predictors"]:
        for predictor in stage:
            _check_predictor(predictor, known != 0)
            yield predictor


def _check_predictor(predictor: Any, categorical: npt.NDArray[Any]) -> None:
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    if full_name(type(predictor)) != PREDICTOR:
        raise Wrong(PREDICTOR, "be a tree", type(predictor).__name__)
    nodes = _array(vars(predictor).get("nodes"), "nodes", "V", 1)
    sets = _array(vars(predictor).get("raw_left_cat_bitsets"), "raw_left_cat_bitsets", "u", 2)
    if not len(nodes) or nodes.dtype != PREDICTOR_RECORD_DTYPE:
        raise Wrong(PREDICTOR, "have nodes", nodes.dtype)
    leaf = nodes["is_leaf"] != 0
    check_walk(PREDICTOR, nodes["left"], nodes["right"], leaf)
    split = nodes["feature_idx"][~leaf]
    if split.size and not 0 <= split.min() <= split.max() < len(categorical):
        raise Wrong(PREDICTOR, f"split by features from 0 to {len(categorical) - 1}", (split.min(), split.max()))
    if sets.dtype != np.uint32 or sets.shape[1] != 8:
        raise Wrong(PREDICTOR, "have sets of 256 categories", sets.shape)
    by_category = ~leaf & (nodes["is_categorical"] != 0)
    chosen, features = nodes["bitset_idx"][by_category], nodes["feature_idx"][by_category]
    if not categorical[features].all() or (chosen.size and not 0 <= chosen.min() <= chosen.max() < len(sets)):
        raise Wrong(PREDICTOR, "split categories by sets that it has", chosen)


def _check_encoder(model: Any) -> Vouched:
    """Check that categories fit the columns they become: the sparse matrix made of them is not checked."""
    own = vars(model)
    if "categories_" not in own:  # not fitted
        return
    categories, dropped, sizes = own["categories_"], own.get("_drop_idx_after_grouping"), list[int]()
    if type(categories) is not list:
        raise Wrong(ENCODER, "have a list of categories", type(categories).__name__)
    drops = [None] * len(categories) if dropped is None else list(dropped)
    for known, drop in zip(categories, drops, strict=True):
        _require_ascending(known)
        if drop is not None and not (isinstance(drop, int | np.integer) and 0 <= drop < len(known)):
            raise Wrong(ENCODER, "drop categories that it has", drop)
        sizes.append(len(known) - (drop is not None))
    if own.get("_infrequent_enabled"):
        yield Unvouched(ENCODER)
        return
    if own.get("_n_features_outs") != sizes or own.get("n_features_in_") != len(sizes):
        raise Wrong(ENCODER, f"make {sizes} columns", own.get("_n_features_outs"))


def _require_ascending(categories: Any) -> None:
    """Refuse categories out of order: a value would be found beyond the last of them."""
    known = _array(categories, "categories_", "biufUO", 1).tolist()
    if not known or not all(value is None or type(value) in (bool, int, float, str) for value in known):
        raise Wrong(ENCODER, "have categories", known)
    values = [value for value in known if value is not None and value == value]
    if any(value is not None and value == value for value in known[len(values) :]):
        raise Wrong(ENCODER, "have missing values last", known)
    if not all(first < second for first, second in pairwise(values)):
        raise Wrong(ENCODER, "have categories that ascend", known)


def _check_polynomial(model: Any) -> Vouched:
    """Check that a polynomial makes room for as many columns as it fills, and that they are not too many."""
    own = vars(model)
    if "_n_out_full" not in own and "_max_degree" not in own:  # not fitted
        return
    features = _whole(own.get("n_features_in_"), "n_features_in_")
    low, high = (_whole(own.get(name), name, 0) for name in ("_min_degree", "_max_degree"))
    kind = own.get("interaction_only"), own.get("include_bias")
    if not low <= high <= _HIGHEST_DEGREE or any(type(each) is not bool for each in kind):
        raise Wrong(POLYNOMIAL, f"be of degree {_HIGHEST_DEGREE} or lower", (low, high, *kind))
    columns = [model._num_combinations(features, least, high, *kind) for least in (0, low)]
    if [own.get("_n_out_full"), own.get("n_output_features_")] != columns:
        raise Wrong(POLYNOMIAL, f"make {columns[0]} columns", own.get("_n_out_full"))
    if columns[0] > _MOST_COLUMNS:
        yield Unvouched(POLYNOMIAL)


def _check_function(model: Any) -> Vouched:
    """Check that a function of numbers is called with numbers alone: told where to write, it would."""
    if vars(model).get("kw_args") or vars(model).get("inv_kw_args"):
        yield Unvouched(FUNCTION)


def _check_column_transformer(model: Any) -> Vouched:
    """Check that names of columns are not made by a pattern, which may be of any width."""
    if type(vars(model).get("verbose_feature_names_out", True)) is not bool:
        yield Unvouched(COLUMNS)


def _check_stacking(model: Any) -> Vouched:
    """Check that stacking asks for predictions: it calls the methods it names."""
    methods = vars(model).get("stack_method_", [])
    if type(methods) is not list or any(method != "predict" for method in methods):
        yield Unvouched(STACKING)


def _check_chain(model: Any) -> Vouched:
    """Check that a chain asks for predictions: it calls the method it names."""
    if vars(model).get("chain_method_", "predict") != "predict":
        yield Unvouched(CHAIN)


def _check_scorer(scorer: Any) -> Vouched:
    """Check that a score is of predictions: a scorer calls the method it names."""
    if vars(scorer).get("_response_method") != "predict":
        yield Unvouched(SCORER)


def _check_random_state(state: Any) -> Vouched:
    """Check the position of a random state, at which it reads its words."""
    if not 0 <= state.get_state(legacy=False)["state"]["pos"] <= _MERSENNE_WORDS:
        raise Wrong("a random state", "be at one of its words", "another position")
    return iter(())


CHECKS: dict[str, Callable[[Any], Vouched]] = {
    "sklearn.tree._classes.BaseDecisionTree": _check_decision_tree,
    "sklearn.ensemble._forest.BaseForest": _check_forest,
    DUMMY: _check_dummy,
    BOOSTING: _check_boosting,
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.BaseHistGradientBoosting": _check_histogram_boosting,
    ENCODER: _check_encoder,
    POLYNOMIAL: _check_polynomial,
    FUNCTION: _check_function,
    COLUMNS: _check_column_transformer,
    STACKING: _check_stacking,
    CHAIN: _check_chain,
    SCORER: _check_scorer,
    "numpy.random.mtrand.RandomState": _check_random_state,
}
"""By the name of a type, or of one that it is derived from."""
