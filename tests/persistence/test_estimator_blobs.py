"""Estimators as bytes: the same predictions to the bit, types that are asked for, and blobs of strangers."""

from __future__ import annotations

import copy
import io
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.multioutput import MultiOutputRegressor

from optensemble.exceptions import FileError
from optensemble.persistence.archive import LIMIT
from optensemble.persistence.estimator_blobs import dump_estimator, load_estimator
from optensemble.persistence.parts import Wrong
from tests import fuzz_members
from tests.persistence.estimators import (
    ASKED,
    PLAIN,
    PREDICTOR,
    X,
    Y,
    as_npy,
    fitted,
    node_of,
    nodes,
    packed,
    poisson,
    read_npy,
    unpacked,
)

pytest.importorskip("skops")

Change = Callable[[Any, dict[str, bytes]], None]


def load(blob: bytes, *trusted: str) -> Any:
    estimator, asked = load_estimator(blob, frozenset(trusted), LIMIT)
    assert not asked
    return estimator


@pytest.mark.parametrize("kind", PLAIN)
def test_estimators_of_scikit_learn_come_back_to_the_bit(kind: str) -> None:
    estimator = fitted(kind)
    blob, trust = dump_estimator(estimator)
    assert not trust
    loaded = load(blob)
    np.testing.assert_array_equal(loaded.predict(X), estimator.predict(X))
    assert dump_estimator(estimator)[0] == blob == dump_estimator(loaded)[0]


@pytest.mark.parametrize("kind", ASKED)
def test_what_no_check_covers_is_asked_for(kind: str) -> None:
    estimator, expected = fitted(kind), ASKED[kind][1]
    blob, trust = dump_estimator(estimator)
    assert trust == sorted(expected)
    assert load_estimator(blob, frozenset(), LIMIT)[1] <= set(expected)
    np.testing.assert_array_equal(load(blob, *trust).predict(X), estimator.predict(X))


@pytest.mark.parametrize(
    ("library", "own", "trust"),
    [
        ("lightgbm", "LGBMRegressor", ["lightgbm.basic.Booster", "lightgbm.sklearn.LGBMRegressor"]),
        ("xgboost", "XGBRegressor", ["xgboost.core.Booster", "xgboost.sklearn.XGBRegressor"]),
    ],
)
def test_boosters_are_asked_for(library: str, own: str, trust: list[str]) -> None:
    options = {"verbose": -1, "min_child_samples": 5} if library == "lightgbm" else {}
    model = getattr(pytest.importorskip(library), own)(n_estimators=3, n_jobs=1, **options)
    estimator = MultiOutputRegressor(model).fit(X, Y)
    blob, asked = dump_estimator(estimator)
    assert asked == trust
    assert load_estimator(blob, frozenset(), LIMIT) == (None, set(trust))
    np.testing.assert_array_equal(load(blob, *trust).predict(X), estimator.predict(X))


# Blobs of strangers


def tree_entry(field: str, value: float, at: int = 0) -> Change:
    """Change an entry of the nodes of a tree."""

    def change(schema: Any, files: dict[str, bytes]) -> None:
        node = node_of(schema, "Tree")["content"]["content"]["nodes"]
        array = read_npy(files[node["file"]])
        array[field][at] = value
        files[node["file"]] = as_npy(array)

    return change


def predictor_entry(field: str, value: float, at: int = 0) -> Change:
    def change(schema: Any, files: dict[str, bytes]) -> None:
        node = node_of(schema, "TreePredictor")["content"]["content"]["nodes"]
        array = read_npy(files[node["file"]])
        array[field][at] = value
        files[node["file"]] = as_npy(array)

    return change


def attribute(own: str, name: str, value: str) -> Change:
    """Change an attribute of the first object of a class: its value is JSON."""

    def change(schema: Any, _: dict[str, bytes]) -> None:
        content = node_of(schema, own)["content"]
        if name not in content["content"]:
            content["key_types"]["content"].append(
                {"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode"}
            )
        content["content"][name] = json_node(value)

    return change


def json_node(value: str) -> dict[str, Any]:
    return {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": value}


def tree_part(*way: Any, value: Any) -> Change:
    def change(schema: Any, _: dict[str, bytes]) -> None:
        holder = node_of(schema, "Tree")
        for key in way[:-1]:
            holder = holder[key]
        holder[way[-1]] = value

    return change


def loader(own: str, other: str) -> Change:
    return lambda schema, _: node_of(schema, own).update(__loader__=other)


def array_of(own: str, name: str, make: Callable[[Any], Any]) -> Change:
    """Change an array that is an attribute."""

    def change(schema: Any, files: dict[str, bytes]) -> None:
        node = node_of(schema, own)["content"]["content"][name]
        node = node["content"][0] if "file" not in node else node
        files[node["file"]] = as_npy(make(read_npy(files[node["file"]])))

    return change


def put(place: str, moved: str) -> Change:
    """Put an object of one class where stacking and the like expect an estimator."""

    def change(schema: Any, _: dict[str, bytes]) -> None:
        schema["content"]["content"]["estimators_"]["content"][0] = copy.deepcopy(node_of(schema, moved))

    return change


COUNT = ("content", "content", "node_count", "content")
WRONG: list[tuple[str, Change, str]] = [
    # what compiled code takes for an index
    ("forest", tree_entry("left_child", 10**6), "children that exist"),
    ("forest", tree_entry("right_child", -5), "children that exist"),
    ("forest", tree_entry("left_child", 0), "come after their parent"),
    ("forest", tree_entry("feature", 4), "features from 0 to 3"),
    ("forest", tree_entry("feature", -2), "features from 0 to 3"),
    ("forest", tree_entry("left_child", -1), "leaves without children"),
    ("forest", tree_part(*COUNT, value="100000"), "as many nodes"),
    ("forest", tree_part(*COUNT, value="1e3"), "whole number"),
    ("forest", tree_part("__reduce__", "args", "content", 0, "content", value="100000"), "tree of its features"),
    ("forest", tree_part("__reduce__", "args", "content", 2, "content", value="50"), "as many nodes"),
    ("forest", attribute("DecisionTreeRegressor", "n_features_in_", "9"), "tree of its features"),
    ("forest", attribute("DecisionTreeRegressor", "n_features_in_", "true"), "whole number"),
    ("forest", attribute("DecisionTreeRegressor", "_validate_X_predict", "1"), "have the method _validate_X_predict"),
    ("bagging", put("estimators_", "Tree"), "belong to an estimator"),
    ("forest", put("estimators_", "Tree"), "have trees"),
    ("forest", loader("Tree", "ConstructorFromReduceNode"), "in a TreeNode"),
    ("histogram", predictor_entry("left", 10**6), "children that exist"),
    ("histogram", predictor_entry("right", 0), "come after their parent"),
    ("histogram", predictor_entry("feature_idx", 4), "features from 0 to 3"),
    ("histogram", predictor_entry("is_categorical", 1), "sets that it has"),
    ("histogram", attribute("HistGradientBoostingRegressor", "n_features_in_", "7"), "have 4 features"),
    ("histogram", attribute("HistGradientBoostingRegressor", "_in_fit", "true"), "be fitted"),
    (
        "histogram",
        array_of("TreePredictor", "raw_left_cat_bitsets", lambda each: np.zeros((1, 2), np.uint32)),
        "sets of",
    ),
    ("gradient", tree_entry("feature", 9), "features from 0 to 3"),
    ("gradient", attribute("GradientBoostingRegressor", "n_features_in_", "3"), "trees of 3 features"),
    ("encoded", attribute("OneHotEncoder", "_n_features_outs", "[1]"), "make .3. columns"),
    ("encoded", array_of("OneHotEncoder", "categories_", lambda each: each[::-1].copy()), "that ascend"),
    ("dropped", attribute("OneHotEncoder", "_drop_idx_after_grouping", "[-5]"), "drop categories that it has"),
    ("extra", lambda schema, _: _set_position(schema, "100000"), "one of its words"),
    # sizes that numpy would make
    ("histogram", lambda schema, _: _set_pool(schema, "1000000000"), "whole number from 1 to 63"),
    ("gradient", lambda schema, _: _put_array(schema), "hold single values"),
    # nodes that skops would take for others
    ("linear", lambda schema, _: schema.update(__id__=3), "without an id"),
    ("linear", lambda schema, _: schema.update(protocol=0), "protocol 2"),
    ("linear", lambda schema, _: schema.update(__class__=3), "have nodes with a type"),
    ("linear", array_of("LinearRegression", "coef_", lambda each: each.astype(complex)), "numbers or text"),
    ("linear", lambda schema, _: node_of(schema, "ndarray").update(file="../../etc/passwd"), "files that are there"),
]


def _set_position(schema: Any, value: str) -> None:
    state = next(node for node in nodes(schema) if node["__loader__"] == "RandomStateNode")["content"]
    state["content"]["state"]["content"]["pos"] = json_node(value)


def _set_pool(schema: Any, value: str) -> None:
    generator = next(node for node in nodes(schema) if node["__loader__"] == "RandomGeneratorNode")
    generator["content"]["seed_seq"]["content"]["pool_size"] = json_node(value)


def _put_array(schema: Any) -> None:
    array = next(node for node in nodes(schema) if "file" in node)
    next(node for node in nodes(schema) if node.get("type") == "json")["content"] = [copy.deepcopy(array)]


@pytest.mark.parametrize(("kind", "change", "match"), WRONG)
def test_blobs_that_were_altered_are_refused(kind: str, change: Change, match: str) -> None:
    schema, files = unpacked(dump_estimator(fitted(kind))[0])
    change(schema, files)
    with pytest.raises(Wrong, match=match):
        load_estimator(packed(schema, files), frozenset(), LIMIT)


NAMED: list[tuple[dict[str, Any], str]] = [
    ({"__class__": "system", "__module__": "os", "__loader__": "FunctionNode"}, "os.system"),
    ({"__class__": "Popen", "__module__": "subprocess", "__loader__": "TypeNode"}, "subprocess.Popen"),
    (
        {
            "__class__": "Popen",
            "__module__": "subprocess",
            "__loader__": "ConstructorFromReduceNode",
            "content": {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode", "content": []},
        },
        "subprocess.Popen",
    ),
    (
        {"__class__": "SVR", "__module__": "sklearn.svm._classes", "__loader__": "ObjectNode"},
        "sklearn.svm._classes.SVR",
    ),
    ({"__class__": "float64", "__module__": "numpy", "__loader__": "ObjectNode"}, "numpy.float64"),
]


@pytest.mark.parametrize(("node", "name"), NAMED)
def test_what_a_blob_names_is_not_called(node: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, files = unpacked(dump_estimator(fitted("linear"))[0])
    schema["content"]["content"]["fit_intercept"] = node
    assert load_estimator(packed(schema, files), frozenset(), LIMIT) == (None, {name})


def test_a_compiled_loss_is_made_of_numbers() -> None:
    schema, files = unpacked(dump_estimator(poisson())[0])
    loss = next(node for node in nodes(schema) if node["__loader__"] == "LossNode")
    loss["content"] = {**loss["__reduce__"]["args"], "content": [json_node("1")]}
    with pytest.raises(Wrong, match="be made of numbers"):
        load_estimator(packed(schema, files), frozenset(), LIMIT)


def test_sizes_are_known_before_anything_is_unpacked() -> None:
    schema, files = unpacked(dump_estimator(fitted("linear"))[0])
    name = node_of(schema, "ndarray")["file"]
    with pytest.raises(FileError, match=r"are allowed. If you trust it, give load a larger limit"):
        load_estimator(packed(schema, {**files, name: as_npy(np.zeros(10**6))}), frozenset(), 1 << 20)
    header = as_npy(np.zeros(4)).replace(b"(4,), }        ", b"(400000000,), }")
    with pytest.raises(Wrong, match=r"be of shape \(400000000,\), as it says"):
        load_estimator(packed(schema, {**files, name: header}), frozenset(), LIMIT)
    array = as_npy(np.zeros(60_000))  # fits once, not three times
    for node in nodes(schema):
        node.update({"file": name} if "file" in node else {})
    schema["content"]["content"]["other_"] = copy.deepcopy(node_of(schema, "ndarray"))
    with pytest.raises(FileError, match="has members that are"):
        load_estimator(packed(schema, {name: array}), frozenset(), 1 << 20)


def test_a_blob_is_a_plain_zip() -> None:
    schema, files = unpacked(dump_estimator(fitted("linear"))[0])
    for blob, match in (
        (b"not a zip", "does not end as an archive does"),
        (packed(schema, files, zipfile.ZIP_LZMA), "compressed in another way"),
        (packed(schema, {**files, "../x.npy": b""}), "have numbered parts"),
    ):
        with pytest.raises((Wrong, zipfile.BadZipFile), match=match):
            load_estimator(blob, frozenset(), LIMIT)
    twice = io.BytesIO(packed(schema, files))
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(twice, "a") as archive:
        archive.writestr("schema.json", "{}")
    with pytest.raises(zipfile.BadZipFile, match="two parts of the same name"):
        load_estimator(twice.getvalue(), frozenset(), LIMIT)


def test_a_predictor_is_not_asked_for_by_trusting_it() -> None:
    """What is trusted by name is checked all the same."""
    schema, files = unpacked(dump_estimator(fitted("histogram"))[0])
    predictor_entry("left", 10**6)(schema, files)
    with pytest.raises(Wrong, match="children that exist"):
        load_estimator(packed(schema, files), frozenset([PREDICTOR]), LIMIT)


@pytest.mark.slow
@pytest.mark.no_cover
def test_many_wrong_values() -> None:
    """A short budget here, a long one by tests/fuzz_members.py."""
    fates, wrong = fuzz_members.run(blobs=150, seed=1_000_000)
    assert not wrong
    assert {"refused", "answers"} <= set(fates)


def test_what_skops_cannot_write_raises() -> None:
    model = Ridge().fit(X, Y)
    model.note = lambda: 3
    with pytest.raises(Exception, match="lambda"):
        dump_estimator(model)
