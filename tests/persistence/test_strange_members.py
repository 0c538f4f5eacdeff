"""Blobs of strangers that once ran code, crashed, or took all memory: refused, or asked for by the name they have."""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler

from optensemble.exceptions import FileError
from optensemble.persistence import estimator_types
from optensemble.persistence.archive import LIMIT
from optensemble.persistence.estimator_blobs import dump_estimator, load_estimator
from optensemble.persistence.parts import Wrong
from tests.persistence.estimators import X, Y, as_npy, fitted, node_of, packed, read_npy, unpacked

pytest.importorskip("skops")

Node = dict[str, Any]
Change = Callable[[Any, dict[str, bytes]], None]

BASE, TESTS = "sklearn.linear_model._base", "sklearn.linear_model.tests.test_sgd"
FOREST = ("sklearn.ensemble._forest", "RandomForestRegressor")


def node(loader: str, module: str, own: str, **more: Any) -> Node:
    return {"__class__": own, "__module__": module, "__loader__": loader, **more}


def plain(value: Any) -> Node:
    return node("JsonNode", "builtins", "str", content=json.dumps(value))


def entries(*values: Node, kind: str = "list") -> Node:
    return node(f"{kind.title()}Node", "builtins", kind, content=list(values))


def table(module: str = "builtins", own: str = "dict", /, **values: Node) -> Node:
    keys = entries(*[node("TypeNode", "builtins", "str")] * len(values))
    return node("DictNode", module, own, content=values, key_types=keys)


def bunch(**values: Node) -> Node:
    return table("sklearn.utils._bunch", "Bunch", **values)


def made(module: str, own: str, /, **attributes: Node) -> Node:
    return node("ObjectNode", module, own, content=table(**attributes))


def array(file: str, own: str = "ndarray") -> Node:
    return node("NdArrayNode", "numpy", own, type="numpy", file=file)


def objects(shape: list[int], *values: Node) -> Node:
    size = entries(*map(plain, shape), kind="tuple")
    return node("NdArrayNode", "numpy", "ndarray", type="json", content=list(values), shape=size)


def masked(data: Node, mask: Node) -> Node:
    return node("MaskedArrayNode", "numpy.ma", "MaskedArray", content={"data": data, "mask": mask})


def give(own: str, name: str, value: Node, **files: bytes) -> Change:
    """Give an object of a class another attribute, and the blob other files, whose dots are underscores here."""

    def change(schema: Any, parts: dict[str, bytes]) -> None:
        content = node_of(schema, own)["content"]
        if name not in content["content"]:
            content["key_types"]["content"].append(node("TypeNode", "builtins", "str"))
        content["content"][name] = copy.deepcopy(value)
        parts.update({key[1:].replace("_", "."): part for key, part in files.items()})

    return change


def state(own: str, content: Node) -> Change:
    return lambda schema, _: node_of(schema, own).update(content=content)


INTERFACE = {"shape": [4], "typestr": "<f8", "data": [0xDEADBEEF000, False], "version": 3}
POINTER = table(**{name: plain(value) for name, value in INTERFACE.items()})


def swapped(schema: Any, files: dict[str, bytes]) -> None:
    """Call the field of left children n_node_samples, and the other way round."""
    file = node_of(schema, "Tree")["content"]["content"]["nodes"]["file"]
    old = read_npy(files[file])
    other = {"left_child": "n_node_samples", "n_node_samples": "left_child"}
    kind = {name: old.dtype.fields[name] for name in old.dtype.names}
    names = [other.get(name, name) for name in kind]
    fields: Any = {"names": names, "formats": [each for each, _ in kind.values()], "itemsize": old.dtype.itemsize}
    fields["offsets"] = [at for _, at in kind.values()]
    new: Any = np.zeros(len(old), np.dtype(fields))
    for name in names:
        new[name] = old[name]
    new["n_node_samples"] = 10**9
    files[file] = as_npy(new)


def hidden(schema: Any, files: dict[str, bytes]) -> None:
    """Have children that do not exist where a mask hides them."""
    content = node_of(schema, "TreePredictor")["content"]["content"]
    new = read_npy(files[content["nodes"]["file"]])
    new["left"][0] = new["right"][0] = 4_000_000_000
    files |= {"90.npy": as_npy(new), "91.npy": as_npy(np.arange(len(new)) == 0)}
    content["nodes"] = masked(array("90.npy"), array("91.npy"))


def renamed(own: str, module: str, other: str) -> Change:
    return lambda schema, _: node_of(schema, own).update(__module__=module, __class__=other)


def many(shape: int) -> bytes:
    """Return the header of an array that is not there."""
    return as_npy(np.zeros(4)).replace(b"(4,), }          ", b"(%d,), }" % shape + b" " * (10 - len(str(shape))))


def estimator(kind: str) -> Any:
    made_here = {
        "dummy": DummyRegressor,
        "scaled": lambda: make_pipeline(StandardScaler(), Ridge()),
        "polynomial": lambda: make_pipeline(PolynomialFeatures(2), Ridge()),
    }
    return made_here[kind]().fit(X, Y) if kind in made_here else fitted(kind)


SCORER = made(
    *("sklearn.metrics._scorer", "_Scorer"),
    _score_func=node("FunctionNode", "sklearn.metrics._regression", "mean_squared_error"),
    _sign=plain(1),
    _kwargs=table(),
    _response_method=plain("predict"),
)
ARCTAN = node("FunctionNode", "numpy", "arctan")
BAD_BOOLS = as_npy(np.zeros(4, bool))[:-4] + b"\x40\x80\xff\x02"
MANY = "RandomForestRegressor"

REFUSED: list[tuple[str, Change, str]] = [
    # names that Python and numpy honour, in every way that attributes can be given
    ("scaled", give("StandardScaler", "mean_", bunch(__array_interface__=POINTER)), "two underscores"),
    ("scaled", give("StandardScaler", "__array_interface__", POINTER), "two underscores"),
    ("scaled", give("StandardScaler", "n_", objects([1, 4], bunch(__array_interface__=POINTER))), "single values"),
    ("scaled", state("StandardScaler", plain({"__array_interface__": INTERFACE})), "have attributes by name"),
    ("scaled", give("StandardScaler", "n_", table(x=plain(1)) | {"key_types": entries(ARCTAN)}), "text or a number"),
    # arrays that are no plain arrays, and records whose fields have other names
    ("histogram", hidden, "nodes must be a plain array"),
    ("linear", give("LinearRegression", "coef_", masked(array("0.npy"), array("0.npy"))), "be no MaskedArray"),
    (
        "encoded",
        give("OneHotEncoder", "categories_", entries(masked(array("0.npy"), array("0.npy")))),
        "be a plain array",
    ),
    ("linear", give("LinearRegression", "coef_", masked(bunch(), bunch())), "be made of arrays"),
    (
        "linear",
        give("LinearRegression", "n_", {**objects([1], plain(1)), "__class__": "float64"}),
        "objects must be an",
    ),
    (
        "linear",
        give("LinearRegression", "n_", node("DTypeNode", "numpy", "dtype", content=table())),
        "that of an array",
    ),
    ("forest", swapped, "fields of scikit-learn's nodes, in their order"),
    # what is missing, and would be read all the same
    ("gradient", give("DecisionTreeRegressor", "tree_", plain(None)), "have trees of 4 features"),
    ("bagging", give("DecisionTreeRegressor", "tree_", plain(None)), "have a tree of its features"),
    ("gradient", give("GradientBoostingRegressor", "estimators_", plain(None)), "be a plain array, in 2 dimensions"),
    ("histogram", give("HistGradientBoostingRegressor", "_bin_mapper", plain(None)), "know its bins"),
    ("histogram", give("_BinMapper", "is_categorical_", plain(None)), "is_categorical_ must be a plain array"),
    ("encoded", give("OneHotEncoder", "categories_", plain(None)), "list of categories"),
    # functions, scorers and dicts with methods, where they would be called
    ("scaled", give("Ridge", "transform", ARCTAN), "the attribute 'transform' must be no function"),
    ("scaled", give("Ridge", "n_", entries(node("TypeNode", "builtins", "str"))), "must be no function"),
    ("scaled", give("Pipeline", "n_", bunch(transform=ARCTAN)), "be no Bunch"),
    ("scaled", give("Pipeline", "n_", SCORER), "be no _Scorer"),
    ("voting", give("VotingRegressor", "named_estimators_", bunch(transform=ARCTAN)), "must be no function"),
    ("scaled", give("Pipeline", "memory", plain("cache")), "have no memory"),
    ("linear", lambda schema, _: schema.update(**plain(5)), "have predict or decide"),
    # sizes that a few bytes would ask for
    ("linear", give("LinearRegression", "n_", objects([1, 4], made(*FOREST, estimators_=plain([])))), "single values"),
    ("linear", give("LinearRegression", "n_", array("90.npy", "float64"), _90_npy=as_npy(np.zeros(3))), "single value"),
    ("dummy", give("DummyRegressor", "n_outputs_", plain(3_000_000)), "have 3 outputs"),
    ("dummy", give("DummyRegressor", "constant_", plain(1)), "be a plain array, in 2 dimensions"),
    ("forest", give(MANY, "n_outputs_", plain(3_000_000)), "trees of 3000000 outputs"),
    ("forest", give(MANY, "estimators_", entries()), "have trees"),
    ("histogram", give("HistGradientBoostingRegressor", "n_trees_per_iteration_", plain(10**7)), "be of one output"),
    ("polynomial", give("PolynomialFeatures", "_n_out_full", plain(10**7)), "make 15 columns"),
    ("polynomial", give("PolynomialFeatures", "_max_degree", plain(10**7)), "be of degree 20 or lower"),
    ("linear", give("LinearRegression", "n_", array("90.npy"), _90_npy=as_npy(np.zeros(0, "U2000"))), "at most 4,096"),
    # files that are read as what they were not checked as
    ("linear", give("LinearRegression", "coef_", array("90.bin"), _90_bin=many(4_000_000_000)), "a file of its kind"),
    ("linear", give("LinearRegression", "coef_", array("90.bin"), _90_bin=BAD_BOOLS), "a file of its kind"),
    # names that are shown
    ("linear", renamed("LinearRegression", "a.b", "C;touch x\x1b[2K\n"), "have words with dots between"),
    ("linear", renamed("LinearRegression", "a.b", "C" * 5_000_000), "at most 200 letters"),
    ("linear", renamed("LinearRegression", "a.b", "C\ud800"), "have words with dots between"),
    ("linear", renamed("LinearRegression", TESTS, "Mock"), "the tests of a library"),
]


@pytest.mark.parametrize(("kind", "change", "match"), REFUSED)
def test_what_could_harm_is_refused(kind: str, change: Change, match: str) -> None:
    schema, files = unpacked(dump_estimator(estimator(kind))[0])
    change(schema, files)
    with pytest.raises(Wrong, match=match) as caught:
        load_estimator(packed(schema, files), frozenset(), LIMIT)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def wide(schema: Any, files: dict[str, bytes]) -> None:
    """Have a polynomial of many columns, as many as it says."""
    sizes = {"n_features_in_": 10, "_max_degree": 10, "_n_out_full": 184_756, "n_output_features_": 184_756}
    for name, size in sizes.items():
        give("PolynomialFeatures", name, plain(size))(schema, files)


ASKED: list[tuple[str, Change, str]] = [
    ("polynomial", wide, estimator_types.POLYNOMIAL),
    ("linear", give("LinearRegression", "n_", made(BASE, "Parallel")), f"{BASE}.Parallel"),
    ("linear", give("LinearRegression", "n_", made("sklearn.linear_model", "Ridge")), "sklearn.linear_model.Ridge"),
    ("linear", give("LinearRegression", "n_", node("FunctionNode", "numpy", "add")), "numpy.add"),
    ("search", give("_Scorer", "_response_method", plain("fit")), "sklearn.metrics._scorer._Scorer"),
    ("function", give("FunctionTransformer", "kw_args", table(where=plain(False))), estimator_types.FUNCTION),
    ("chain", give("RegressorChain", "chain_method_", plain("fit")), estimator_types.CHAIN),
    ("stacked", give("StackingRegressor", "stack_method_", plain(["fit"])), estimator_types.STACKING),
    (
        "encoded",
        give("ColumnTransformer", "verbose_feature_names_out", plain("{feature_name:9}")),
        estimator_types.COLUMNS,
    ),
]


@pytest.mark.parametrize(("kind", "change", "name"), ASKED)
def test_what_calls_something_else_is_asked_for(kind: str, change: Change, name: str) -> None:
    schema, files = unpacked(dump_estimator(estimator(kind))[0])
    change(schema, files)
    assert load_estimator(packed(schema, files), frozenset(), LIMIT) == (None, {name})


def test_what_is_loaded_must_be_of_a_type_that_was_trusted_by_its_own_name() -> None:
    """A module lends its name to what it imports: trusting the one is not trusting the other."""
    schema, files = unpacked(dump_estimator(fitted("linear"))[0])
    give("LinearRegression", "n_", made(BASE, "Parallel"))(schema, files)
    found = load_estimator(packed(schema, files), frozenset([f"{BASE}.Parallel"]), LIMIT)
    assert found[0] is None
    assert found[1] not in ({f"{BASE}.Parallel"}, set())


def test_reviewed_types_are_named_by_the_modules_that_define_them() -> None:
    for name in estimator_types._CLASSES | estimator_types._LOSSES:
        module, _, own = name.rpartition(".")
        assert estimator_types.full_name(getattr(importlib.import_module(module), own)) == name


def test_a_bytearray_counts_as_the_list_that_is_made_of_it() -> None:
    schema, files = unpacked(dump_estimator(fitted("linear"))[0])
    note = node("BytearrayNode", "builtins", "bytearray", file="90.bin")
    give("LinearRegression", "n_", note, _90_bin=bytes(100_000))(schema, files)
    with pytest.raises(FileError, match=r"has members that are 1,[0-9,]+ bytes long"):
        load_estimator(packed(schema, files), frozenset(), 1 << 20)


def test_folders_and_numbers_of_processes_are_not_kept() -> None:
    """Neither by a file of ours, nor by one of another's making."""
    models = [
        make_pipeline(StandardScaler(), Ridge(), memory="nowhere"),
        RandomForestRegressor(2, n_jobs=2),
        GridSearchCV(MultiOutputRegressor(Ridge(), n_jobs=2), {"n_jobs": [None, 1]}, n_jobs=1, pre_dispatch="1*n_jobs"),
    ]
    for model in models[1:]:
        blob = dump_estimator(model.fit(X, Y))[0]
        assert '"memory"' not in str(unpacked(blob))
        loaded = load_estimator(blob, frozenset(), LIMIT)[0]
        assert loaded.n_jobs is None
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    fresh = load_estimator(dump_estimator(models[0])[0], frozenset(), LIMIT)[0]
    assert fresh.memory is None
    schema, files = unpacked(dump_estimator(models[1])[0])
    give(MANY, "n_jobs", plain(12))(schema, files)
    assert load_estimator(packed(schema, files), frozenset(), LIMIT)[0].n_jobs is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}),
        lambda: GridSearchCV(make_pipeline(StandardScaler(), Ridge()), {"ridge": [Ridge(), Ridge(2.0)]}),
        lambda: make_pipeline(PolynomialFeatures(3, include_bias=False), Ridge()),
        lambda: make_pipeline(PolynomialFeatures((2, 3), interaction_only=True), Ridge()),
        lambda: make_pipeline(FunctionTransformer(np.log1p, inverse_func=np.expm1), StandardScaler(), DummyRegressor()),
        lambda: ColumnTransformer([("rest", "passthrough", [0, 1, 2]), ("none", "drop", [3])]),
        DummyRegressor,
    ],
)
def test_others_that_need_no_trust(make: Callable[[], Any]) -> None:
    model = make_pipeline(made, Ridge()) if isinstance(made := make(), ColumnTransformer) else made
    model.fit(np.abs(X), Y)
    blob, trust = dump_estimator(model)
    assert not trust
    loaded = load_estimator(blob, frozenset(), LIMIT)[0]
    np.testing.assert_array_equal(loaded.predict(np.abs(X)), model.predict(np.abs(X)))
    assert dump_estimator(loaded)[0] == blob


@pytest.mark.parametrize("kind", ["scaled", "dummy", "polynomial"])
def test_blobs_load_before_they_are_altered(kind: str) -> None:
    assert load_estimator(packed(*unpacked(dump_estimator(estimator(kind))[0])), frozenset(), LIMIT)[1] == set()
