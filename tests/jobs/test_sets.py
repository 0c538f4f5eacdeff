"""The [feasible] section: every kind by name, matrices inline or from files, and errors that name the place."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble import feasible
from optensemble.exceptions import EmptySetError, FileError, InputError
from optensemble.jobs.sets import SET_KINDS, make_set, snake

Floats = npt.NDArray[np.float64]

WHERE = "job.toml: [feasible]"
COVARIANCE = [[2.0, 0.5, 0.0], [0.5, 1.0, 0.1], [0.0, 0.1, 1.5]]
EDGES = [["home", "lake"], ["lake", "work"], ["home", "work"]]
CORNERS = [[0.0, 0.0, 1.0], [1.0, 0.5, 0.0]]
WEEK: dict[str, Any] = {"kind": "polytope", "A_ub": [[1, 1, 0], [0, 1, 1]], "b_ub": [0.5, 0.6]}

OF_ROWS = ("by_key", "with_cost")
"""Kinds that test_set_columns.py tests."""

SECTIONS: dict[str, tuple[dict[str, Any], feasible.FeasibleSet]] = {
    "assignment": ({"rows": 1, "columns": 3}, feasible.Assignment(1, 3)),
    "box": ({"lower": [0, -1, 0], "upper": 2}, feasible.Box([0, -1, 0], 2)),
    "knapsack": (
        {"weights": [1, 2, 3], "capacity": 3, "integer": True},
        feasible.Knapsack([1.0, 2.0, 3.0], 3.0, integer=True),
    ),
    "mixed_integer": (
        {"A_ub": [[1, 1, 1]], "b_ub": [1.5], "integer": [True, False, True]},
        feasible.MixedInteger(A_ub=[[1, 1, 1]], b_ub=[1.5], integer=[True, False, True]),
    ),
    "polytope": (
        {"A_ub": WEEK["A_ub"], "b_ub": WEEK["b_ub"], "A_eq": [[1, 0, 1]], "b_eq": [0.7], "upper": [1, 1, 0.5]},
        feasible.Polytope(WEEK["A_ub"], WEEK["b_ub"], [[1, 0, 1]], [0.7], upper=[1, 1, 0.5]),
    ),
    "product": (
        {"blocks": [{"kind": "simplex", "dimension": 2}, {"kind": "box", "upper": [3.0]}]},
        feasible.Product([feasible.Simplex(2), feasible.Box(0.0, [3.0])]),
    ),
    "risk_budget": ({"covariance": COVARIANCE, "limit": 1.2}, feasible.RiskBudget(COVARIANCE, 1.2)),
    "shortest_path": (
        {"edges": EDGES, "source": "home", "target": "work"},
        feasible.ShortestPath([tuple(edge) for edge in EDGES], "home", "work"),
    ),
    "simplex": ({}, feasible.Simplex(3)),
    "top_k": ({"k": 2, "at_most": True}, feasible.TopK(3, 2, at_most=True)),
    "vertices": ({"array": CORNERS}, feasible.Vertices(CORNERS)),
}


def made(section: dict[str, Any], folder: Path = Path(), dimension: int = 3) -> feasible.FeasibleSet:
    return make_set(section, dimension, folder, WHERE)


def same(one: feasible.FeasibleSet, other: feasible.FeasibleSet, seed: int = 0) -> bool:
    """Whether two sets are of one kind and answer the same to the last bit."""
    C = np.random.default_rng(seed).normal(size=(50, one.dimension))
    bounds = np.array_equal([one.lower, one.upper], [other.lower, other.upper])
    return type(one) is type(other) and bounds and np.array_equal(one.argmax(C), other.argmax(C))


def refused(section: Any, error: type[Exception] = InputError, folder: Path = Path(), dimension: int = 3) -> str:
    """Return the line that a section is refused with; it names the section."""
    with pytest.raises(error) as caught:
        made(section, folder, dimension)
    assert str(caught.value).startswith(WHERE)
    return str(caught.value)


def write(path: Path, values: Any, delimiter: str = ",") -> str:
    lines = [delimiter.join(map(str, np.atleast_1d(row))) for row in values]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path.name


# Every kind


def test_every_kind_that_can_be_saved_is_known_by_name() -> None:
    assert {name for name in SET_KINDS if name not in OF_ROWS} == set(SECTIONS)
    assert all(snake(getattr(feasible, kind).__name__) == name for name, kind in SET_KINDS.items())


@pytest.mark.parametrize("kind", SECTIONS)
def test_a_section_is_the_set_that_the_class_makes(kind: str) -> None:
    arguments, expected = SECTIONS[kind]
    assert same(made({"kind": kind, **arguments}), expected)


@pytest.mark.parametrize("kind", SECTIONS)
def test_a_kind_may_be_called_as_the_class(kind: str) -> None:
    arguments, expected = SECTIONS[kind]
    assert same(made({"kind": type(expected).__name__, **arguments}), expected)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({"kind": "simplex"}, feasible.Simplex(5)),
        ({"kind": "top_k", "k": 2}, feasible.TopK(5, 2)),
        ({"kind": "box", "lower": -1}, feasible.Box(-1.0, 1.0, 5)),
        ({"kind": "polytope", "upper": 3}, feasible.Polytope(upper=3.0, dimension=5)),
        ({"kind": "mixed_integer"}, feasible.MixedInteger(dimension=5)),
        ({"kind": "simplex", "dimension": 5}, feasible.Simplex(5)),
        (
            {"kind": "mixed_integer", "integer": [True, False, True, False, True], "upper": 2.5},
            feasible.MixedInteger(integer=[True, False, True, False, True], upper=2.5, dimension=5),
        ),
    ],
    ids=str,
)
def test_the_dimension_is_that_of_the_labels(section: dict[str, Any], expected: feasible.FeasibleSet) -> None:
    assert same(made(section, dimension=5), expected)


def test_blocks_may_be_of_any_kind_and_side_by_side_in_blocks() -> None:
    inner = [
        {"kind": kind, **arguments} for kind, (arguments, _) in SECTIONS.items() if kind not in ("simplex", "top_k")
    ]
    inner += [{"kind": "simplex", "dimension": 3}, {"kind": "top_k", "dimension": 3, "k": 1}]
    nested = {"kind": "product", "blocks": [{"kind": "product", "blocks": inner[:2]}, *inner[2:]]}
    found = made(nested, dimension=3 * len(inner))
    assert isinstance(found, feasible.Product)
    assert [type(block).__name__ for block in found.blocks[1:3]] == ["Knapsack", "MixedInteger"]
    assert found.dimension == 3 * len(inner)


# Matrices in files


@pytest.mark.parametrize("delimiter", [",", ";", "\t"], ids=repr)
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("polytope", ["A_ub", "b_ub", "A_eq", "b_eq", "upper"]),
        ("mixed_integer", ["A_ub", "b_ub"]),
        ("box", ["lower"]),
        ("knapsack", ["weights"]),
        ("risk_budget", ["covariance"]),
        ("shortest_path", ["edges"]),
        ("vertices", ["array"]),
    ],
)
def test_a_matrix_from_a_file_is_the_matrix_inline(kind: str, names: list[str], delimiter: str, tmp_path: Path) -> None:
    arguments, expected = SECTIONS[kind]
    files = {name: write(tmp_path / f"{name}.csv", arguments[name], delimiter) for name in names}
    assert same(made({"kind": kind, **arguments, **files}, tmp_path), expected)


def test_which_coordinates_are_whole_may_come_from_a_file(tmp_path: Path) -> None:
    arguments, expected = SECTIONS["mixed_integer"]
    numbers = write(tmp_path / "numbers.csv", [[0, 2]])
    assert same(made({"kind": "mixed_integer", **arguments, "integer": numbers}, tmp_path), expected)


def test_a_mask_in_a_file_is_not_taken_for_numbers_of_coordinates(tmp_path: Path) -> None:
    arguments, expected = SECTIONS["mixed_integer"]
    mask = {"kind": "mixed_integer", **arguments, "integer": write(tmp_path / "mask.csv", [[1, 0, 1]])}
    found = None  # to be refused is fine, to be misread is not
    with contextlib.suppress(InputError):
        found = made(mask, tmp_path)
    assert found is None or same(found, expected)


@pytest.mark.parametrize("as_row", [True, False])
def test_a_vector_may_be_a_row_or_a_column(as_row: bool, tmp_path: Path) -> None:
    b_ub = write(tmp_path / "b.csv", [WEEK["b_ub"]] if as_row else WEEK["b_ub"])
    assert same(made({**WEEK, "b_ub": b_ub}, tmp_path), made(WEEK))


def test_one_row_of_constraints_is_a_matrix(tmp_path: Path) -> None:
    inline = {"kind": "polytope", "A_ub": [[1, 1, 1]], "b_ub": [1.0]}
    files = {"A_ub": write(tmp_path / "A.csv", [[1, 1, 1]]), "b_ub": write(tmp_path / "b.csv", [1.0])}
    assert same(made({**inline, **files}, tmp_path), made(inline))


def test_a_single_capacity_may_come_from_a_file(tmp_path: Path) -> None:
    inline = {"kind": "knapsack", "weights": [1, 2, 3], "capacity": 3}
    assert same(made({**inline, "capacity": write(tmp_path / "c.csv", [3])}, tmp_path), made(inline))


def test_several_resources_may_come_from_files(tmp_path: Path) -> None:
    inline = {"kind": "knapsack", "weights": [[1, 2, 3], [2, 1, 1]], "capacity": [3, 2]}
    files = {"weights": write(tmp_path / "w.csv", inline["weights"]), "capacity": write(tmp_path / "c.csv", [3, 2])}
    assert same(made({**inline, **files}, tmp_path), made(inline))


def test_a_block_reads_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub" / "A.csv", WEEK["A_ub"])
    block = {**WEEK, "A_ub": "sub/A.csv"}
    found = made({"kind": "product", "blocks": [block, {"kind": "simplex", "dimension": 2}]}, tmp_path, 5)
    assert same(found, feasible.Product([feasible.Polytope(WEEK["A_ub"], WEEK["b_ub"]), feasible.Simplex(2)]))


@given(matrix=st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=5))
def test_numbers_in_a_file_are_read_to_the_last_bit(
    matrix: list[list[float]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("matrix")
    inline = {"kind": "vertices", "array": matrix}
    found = made({**inline, "array": write(folder / "v.csv", matrix)}, folder)
    assert np.array_equal(found.argmax(np.eye(3)), made(inline).argmax(np.eye(3)))


def test_a_byte_order_mark_blanks_and_empty_lines_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "A.csv").write_text(" 1 , 1,0\n\n0 ,1 , 1\n\n", encoding="utf-8-sig")
    assert same(made({**WEEK, "A_ub": "A.csv"}, tmp_path), made(WEEK))


# Edges


@pytest.mark.parametrize(
    ("edges", "source", "target"),
    [
        (EDGES, "home", "work"),
        ([[0, 1], [1, 2], [0, 2]], 0, 2),
        ([["a", 1], [1, "b"], ["a", "b"]], "a", "b"),
    ],
)
def test_edges_in_a_file_are_numbers_if_all_nodes_are_and_text_otherwise(
    edges: list[list[Any]], source: Any, target: Any, tmp_path: Path
) -> None:
    section = {"kind": "shortest_path", "source": source, "target": target}
    inline = made({**section, "edges": edges})
    found = made({**section, "edges": write(tmp_path / "edges.csv", edges)}, tmp_path)
    assert same(found, inline)


def test_a_node_that_no_edge_has_is_refused() -> None:
    message = refused({"kind": "shortest_path", "edges": EDGES, "source": "home", "target": "wrok"})
    assert "'wrok'" in message


# Errors


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"lower": 0}, 'lacks a kind. Set, for example, kind = "polytope"'),
        ({"kind": "poltope"}, "kind 'poltope' is not known. Did you mean 'polytope'?"),
        ({"kind": "zebra"}, "kind 'zebra' is not known. Known are assignment, box, "),
        ({"kind": 3}, "kind 3 is not known."),
        ({"kind": ["box"]}, "is not known."),
        ({"kind": "oracle"}, "kind 'oracle' is code, which a job file cannot hold. Use it from Python."),
        ({"kind": "CvxpySet"}, "kind 'cvxpy_set' is code"),
        ({"kind": "PyEPOSet"}, "is code"),
        ({**WEEK, "A_up": [[1, 1, 1]]}, "polytope has no argument 'A_up'. Did you mean 'A_ub'?"),
        ({"kind": "simplex", "zebra": 1}, "simplex has no argument 'zebra'. It takes dimension"),
        ({"kind": "top_k"}, "top_k needs 'k'. It takes dimension, k, at_most"),
        ({"kind": "top_k", "k": 4}, "k must be at most the number of coordinates, 3; got 4."),
        ({"kind": "polytope", "A_ub": [[1, 1, 1]]}, "b_ub"),
        ({"kind": "polytope", "A_ub": "nonsense", "b_ub": [1]}, "A_ub"),
        ({"kind": "polytope", "A_ub": [[1, "x", 1]], "b_ub": [1]}, "A_ub"),
        ({"kind": "product", "blocks": 3}, "blocks must be sections [[feasible.blocks]]"),
        ({"kind": "product", "blocks": ["box"]}, "blocks must be sections [[feasible.blocks]]"),
        ({"kind": "product", "blocks": [{"kind": "bx"}]}, "block 0: kind 'bx' is not known. Did you mean 'box'?"),
        ({"kind": "product", "blocks": [{"kind": "simplex"}]}, "block 0: simplex cannot be made from these arguments"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_told_with_the_section(section: dict[str, Any], message: str) -> None:
    assert message in refused(section)


@pytest.mark.parametrize(
    "section",
    [
        {"kind": "simplex", "dimension": 4},
        {"kind": "assignment", "rows": 2, "columns": 2},
        {"kind": "box", "upper": [1] * 4},
    ],
    ids=str,
)
def test_a_set_of_other_dimension_than_the_labels_is_refused(section: dict[str, Any]) -> None:
    assert "describes decisions of 4 coordinates, but there are 3 labels" in refused(section)


@pytest.mark.parametrize(
    "section",
    [
        {"kind": "polytope", "A_ub": [[1, 1, 1]], "b_ub": [-1]},
        {"kind": "risk_budget", "covariance": COVARIANCE, "limit": 1e-6},
        {"kind": "vertices", "array": []},
        {"kind": "product", "blocks": []},
    ],
    ids=str,
)
def test_a_set_without_any_decision_is_refused(section: dict[str, Any]) -> None:
    refused(section, EmptySetError)


def test_a_matrix_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    for text, error, message in [
        (None, FileError, "which cannot be read: No such file or directory"),
        ("", InputError, "which is empty"),
        ("1,1,0\n0,1\n", InputError, "have [2, 3] cells. Give a full table."),
        ("a,b,c\n1,1,0\n", InputError, "has 'a' in row 1, which is not a number. Give numbers without a header."),
        ("1,1,0\n1,,0\n", InputError, "has '' in row 2, which is not a number"),
        ("1;1;0\n0,5;1;0\n", InputError, "has '0,5' in row 2"),
    ]:
        path = tmp_path / "A.csv"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text, encoding="utf-8")
        found = refused({**WEEK, "A_ub": "A.csv"}, error, tmp_path)
        assert str(path) in found
        assert message in found
    (tmp_path / "A.csv").write_bytes(b"\xff\xfe1,2,3")
    assert re.search(r"A\.csv, which cannot be read: .*utf-8", refused({**WEEK, "A_ub": "A.csv"}, FileError, tmp_path))
