"""Paths with closed edges, and with ends that each row gives."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble.exceptions import EmptySetError, FallbackWarning, InfeasibleActionError, InputError, SolverError
from optensemble.feasible import FeasibleSet, ShortestPath, shortest_path
from optensemble.feasible.registry import from_spec, to_spec
from tests.feasible.test_shortest_path import both_ways, every_path, grid, network, random_pairs, scaled
from tests.sample_sets import Floats, hard_rows

Pairs = list[tuple[Any, Any]]


def as_table(closed: Floats, ends: Any = None) -> pd.DataFrame:
    X = pd.DataFrame(closed, columns=[f"closed_{j}" for j in range(closed.shape[1])])
    if ends is None:
        return X
    return X.assign(**{"from": [tail for tail, _ in ends], "to": [head for _, head in ends]})


def by_row(pairs: Pairs, X: pd.DataFrame, directed: bool = True, **given: Any) -> FeasibleSet:
    arguments = {"source": oe.Columns("from"), "target": oe.Columns("to"), "closed": oe.Columns("closed_*")} | given
    return ShortestPath(pairs, directed=directed, **arguments).for_rows(X)


def best_of(paths: Floats, closed: Floats, c: Floats) -> Floats | None:
    """The first of the best open paths, of all in lexicographic order; None if there is none."""
    left = paths[~(paths * closed).any(axis=1)]
    if not len(left):
        return None
    values = left @ scaled(np.where(closed > 0, 0.0, c)[None])[0]
    first: Floats = left[np.argmax(values >= values.max() - 1e-11)]
    return first


@pytest.mark.no_cover
@pytest.mark.parametrize(("directed", "forward"), [(True, True), (True, False), (False, False)])
def test_it_is_the_first_of_the_best_open_paths_by_brute_force(directed: bool, forward: bool) -> None:
    solved, empty = 0, 0
    for seed in range(10):
        pairs = random_pairs(nodes=6, count=10, seed=seed, forward=forward)
        rng, C = np.random.default_rng(seed), np.concatenate([hard_rows(12, seed=seed), -np.abs(hard_rows(12))])
        nodes = sorted({node for pair in pairs for node in pair})
        ends = [tuple(rng.permutation(nodes)[:2].tolist()) for _ in C]
        closed = (rng.random(C.shape) < rng.choice([0.0, 0.1, 0.4], (len(C), 1))).astype(float)
        every = {pair: every_path(pairs, pair[0], pair[1], directed) for pair in set(ends)}
        best = [best_of(every[pair], out, c) for pair, out, c in zip(ends, closed, C, strict=True)]
        fallback = np.full(12, 7.0)
        omega = by_row(pairs, as_table(closed, ends), directed, on_failure="fallback", fallback=fallback)
        with pytest.warns(FallbackWarning, match=f"{sum(a is None for a in best)} of {len(C)} rows"):
            actions = omega.argmax(C)
        np.testing.assert_array_equal(actions, [fallback if action is None else action for action in best])
        found = (actions != 7.0).all(axis=1)
        assert not omega.violation(actions)[found].any()
        solved, empty = solved + found.sum(), empty + (~found).sum()
    assert solved >= 1000
    assert empty >= 200


@pytest.mark.no_cover
@pytest.mark.parametrize("directed", [True, False])
def test_lengths_that_are_not_negative_against_networkx(directed: bool) -> None:
    pairs = both_ways(grid(5)) if directed else grid(5)
    rng, n, d = np.random.default_rng(8), 1000, len(pairs)
    nodes = sorted({node for pair in pairs for node in pair})
    ends = [tuple(nodes[k] for k in rng.permutation(25)[:2]) for _ in range(n)]
    lengths, closed = rng.exponential(size=(n, d)), (rng.random((n, d)) < 0.1).astype(float)
    expected = np.full(n, np.inf)
    for i, (source, target) in enumerate(ends):
        graph = network(pairs, directed)
        nx.set_edge_attributes(graph, {edge: lengths[i, edge[2]] for edge in graph.edges}, "length")
        graph.remove_edges_from([edge for edge in list(graph.edges) if closed[i, edge[2]]])
        if nx.has_path(graph, source, target):
            expected[i] = nx.dijkstra_path_length(graph, source, target, "length")
    there = np.isfinite(expected)
    omega = by_row(pairs, as_table(closed, ends), directed).take(there)
    actions = omega.argmax(-lengths[there])
    np.testing.assert_allclose((actions * lengths[there]).sum(axis=1), expected[there], rtol=1e-9)
    np.testing.assert_array_equal(omega.violation(actions), 0.0)
    assert there.sum() > 900


@pytest.mark.parametrize("directed", [True, False])
def test_ties_go_the_same_way_by_row_as_fixed(directed: bool) -> None:
    for pairs in (grid(4), both_ways(grid(4))) if directed else (grid(4),):
        rng, n, d = np.random.default_rng(9), 200, len(pairs)
        ends = [[((0, 0), (3, 3)), ((0, 1), (2, 3)), ((1, 0), (3, 2))][k] for k in rng.integers(0, 3, n)]
        C = -rng.integers(1, 4, size=(n, d)).astype(float)
        fixed = {pair: ShortestPath(pairs, pair[0], pair[1], directed) for pair in set(ends)}
        kept = np.concatenate([fixed[pair].argmax(rng.uniform(-2, -1, size=(1, d))) for pair in ends])
        closed = (rng.random((n, d)) < 0.3) * (1.0 - kept)
        omega = by_row(pairs, as_table(closed, ends), directed)
        actions = omega.argmax(C)
        for noisy in (C / 3, C * 0.1, C + 1e-15 * rng.normal(size=C.shape)):
            np.testing.assert_array_equal(omega.argmax(noisy), actions)
        for action, c, out, (source, target) in zip(actions, C, closed, ends, strict=True):
            one = ShortestPath(pairs, source, target, directed, closed=out)
            np.testing.assert_array_equal(one.argmax(c[None])[0], action)
        nothing = by_row(pairs, as_table(np.zeros((n, d)), ends), directed).argmax(C)
        expected = [fixed[pair].argmax(c[None])[0] for pair, c in zip(ends, C, strict=True)]
        np.testing.assert_array_equal(nothing, expected)


def test_nothing_closed_is_as_if_nothing_had_been_said() -> None:
    for directed, pairs in ((True, grid(4)), (True, both_ways(grid(4))), (False, grid(4))):
        C = np.concatenate([hard_rows(len(pairs), n=30), -np.abs(hard_rows(len(pairs), n=30))])
        plain = ShortestPath(pairs, (0, 0), (3, 3), directed)
        none = ShortestPath(pairs, (0, 0), (3, 3), directed, closed=np.zeros(len(pairs), dtype=bool))
        np.testing.assert_array_equal(none.argmax(C), plain.argmax(C))
        np.testing.assert_array_equal(none.upper, plain.upper)
        omega = by_row(pairs, as_table(np.zeros(C.shape)), directed, source=(0, 0), target=(3, 3))
        np.testing.assert_array_equal(omega.argmax(C), plain.argmax(C))


def test_what_is_closed_or_cut_off_does_not_matter() -> None:
    # The way by "a" and "b" is cut off, and has a cycle that gains; "c" is all that is left.
    pairs = [("s", "a"), ("a", "b"), ("b", "a"), ("b", "t"), ("s", "c"), ("c", "t"), ("c", "a"), ("t", "s"), ("s", "c")]
    closed = [1, 0, 0, 0, 0, 0, 1, 0, 0]
    omega = ShortestPath(pairs, "s", "t", closed=closed)
    np.testing.assert_array_equal(omega.upper, [0, 0, 0, 0, 1, 1, 0, 0, 1])
    row = np.array([[1e300, 5.0, 5.0, 5.0, 1.0, -2.0, 1e300, 1e300, 2.0]])
    np.testing.assert_array_equal(omega.argmax(row), [[0, 0, 0, 0, 0, 1, 0, 0, 1]])
    assert omega.binding(omega.argmax(row)[0]) == ["'s' to 'a' is closed", "'c' to 'a' is closed"]
    assert omega.binding(np.zeros(9)) == []
    assert ShortestPath(pairs, "s", "t").binding(omega.argmax(row)[0]) == []


def test_columns_callables_and_mixed_lists_say_the_same() -> None:
    pairs: Pairs = [("a", "b"), ("b", "c"), ("a", "c"), ("b", "d"), ("c", "d")]
    rng = np.random.default_rng(2)
    closed = (rng.random((40, 5)) < 0.5) * np.array([0.0, 1, 1, 0, 1])
    X = as_table(closed, [("ab"[k], "d") for k in rng.integers(0, 2, 40)])
    C = -rng.exponential(size=(40, 5))
    expected = by_row(pairs, X).argmax(C)
    others: list[dict[str, Any]] = [
        {"target": "d"},
        {"source": lambda X: X["from"], "closed": lambda X: X.filter(like="closed").to_numpy() > 0},
        {"closed": [0, oe.Columns(["closed_1", "closed_2"]), False, oe.Columns("closed_4")]},
    ]
    for given in others:
        np.testing.assert_array_equal(by_row(pairs, X, **given).argmax(C), expected)
    polars = pytest.importorskip("polars").from_pandas(X)
    np.testing.assert_array_equal(by_row(pairs, polars).argmax(C), expected)


def test_the_path_of_one_row() -> None:
    pairs: Pairs = [("home", "hill"), ("home", "lake"), ("hill", "work"), ("lake", "work")]
    X = as_table(np.array([[0.0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]), [("home", "work")] * 2 + [("lake", "work")])
    omega = by_row(pairs, X)
    actions = omega.argmax(-np.ones((3, 4)))
    rows = [omega.take([i]) for i in range(3)]
    assert all(isinstance(row, ShortestPath) for row in rows)
    nodes = [row.path(action) for row, action in zip(rows, actions, strict=True) if isinstance(row, ShortestPath)]
    assert nodes == [["home", "hill", "work"], ["home", "lake", "work"], ["lake", "work"]]
    assert rows[1].binding(actions[1]) == ["'home' to 'hill' is closed"]
    np.testing.assert_array_equal(omega.violation(actions[[0, 0, 0]]), [0, 1, 1])
    assert isinstance(omega, ShortestPath)
    with pytest.raises(InputError, match="one row for each of the 3 rows of X"):
        omega.path(actions[0])
    with pytest.raises(InfeasibleActionError, match="the edges of one path"):
        omega.take([1]).path(actions[0])
    with pytest.raises(InputError, match=r"Call omega.for_rows\(X\)"):
        ShortestPath(pairs, oe.Columns("from"), "work").path(actions[0])


def test_bounds_and_specs() -> None:
    pairs: Pairs = [((0, 0), "b"), ("b", 3), (3, (0, 0)), ("b", 4.5)]
    omega = ShortestPath(pairs, oe.Columns("from"), (0, 0), closed=[0, 0, 0, 1])
    np.testing.assert_array_equal(omega.upper, 1.0)
    spec = to_spec(omega)
    assert spec is not None
    assert spec["nodes"] == [(0, 0), "b", 3, 4.5]
    X = pd.DataFrame({"from": ["b", 3]})
    expected = [[0, 1, 1, 0], [0, 0, 1, 0]]
    listed = {**spec, "nodes": [[0, 0], "b", 3, 4.5], "target": [0, 0]}  # as files have tuples
    for twin in (omega, from_spec("ShortestPath", spec), from_spec("ShortestPath", listed)):
        np.testing.assert_array_equal(twin.for_rows(X).argmax(np.zeros((2, 4))), expected)
    fixed = ShortestPath([("a", "b"), ("b", "c"), ("a", "c")], "a", "c", closed=[0, 1, 0])
    assert sorted(fixed.spec()) == ["closed", "directed", "edges", "fallback", "on_failure", "source", "target"]
    assert to_spec(ShortestPath([(frozenset({1}), 2)], oe.Columns("from"), 2)) is None
    for nodes, words in (([1, 2], "pairs of numbers of the 2 nodes"), ([1, 1, 2], "distinct"), (3, "of the 0 nodes")):
        with pytest.raises(InputError, match=words):
            ShortestPath(np.array([[0, 1], [1, 2]]), 1, 2, nodes=nodes)  # type: ignore[arg-type]


def test_errors_say_what_to_do() -> None:
    pairs: Pairs = [("a", "b"), ("b", "c"), ("a", "c")]
    with pytest.raises(
        EmptySetError, match=r"from the source 'a' to the target 'c' with the edges that are open\. Open"
    ):
        ShortestPath(pairs, "a", "c", closed=[1, 0, 1])
    with pytest.raises(InputError, match="closed must have a 0 or a 1 for each of the 3 edges; got 2 numbers"):
        ShortestPath(pairs, "a", "c", closed=[True, False])
    with pytest.raises(InputError, match="closed needs 3 numbers in each row"):
        ShortestPath(pairs, "a", "c", closed=oe.Columns(["x", "y"]))
    with pytest.raises(InputError, match="source needs 1 number in each row"):
        ShortestPath(pairs, oe.Columns(["x", "y"]), "c")
    with pytest.raises(InputError, match="the target 'z' is no end of an edge"):
        ShortestPath(pairs, oe.Columns("x"), "z")


def test_bad_rows_are_named() -> None:
    pairs: Pairs = [("a", "b"), ("b", "c"), ("a", "c"), ("d", "a")]
    X = as_table(np.zeros((3, 4)), [("a", "c"), ("a", "b"), ("b", "c")])
    with pytest.raises(InputError, match=r"source comes from the row, but X has no column 'gone'"):
        by_row(pairs, X, source=oe.Columns("gone"))
    words = r"source must be a node, an end of an edge; in row 1 of 3 it is 'zoo' \(column 'from'\)\."
    with pytest.raises(InputError, match=words):
        by_row(pairs, X.assign(**{"from": ["a", "zoo", "b"]}))
    with pytest.raises(InputError, match=r"target must be a node, .* in row 2 of 3 it is (nan|None) \(column 'to'\)"):
        by_row(pairs, X.assign(to=np.array(["c", "b", None], dtype=object)))
    with pytest.raises(
        InputError, match=r"target must differ from the source; in row 2 of 3 it is 'b' \(column 'to'\)"
    ):
        by_row(pairs, X.assign(to=["c", "b", "b"]))
    with pytest.raises(
        InputError, match=r"source must differ from the target; in rows 0, 1 of 3 it is 'a' \(column 'from'\)\. C"
    ):
        by_row(pairs, X, target="a")
    with pytest.raises(
        InputError, match=r"closed must be a finite number; in row 1 of 3 it is nan \(column 'closed_2'\)"
    ):
        by_row(pairs, X.assign(closed_2=[0, np.nan, 0]))
    words = r"closed must be 1 \(may not be used\) or 0 \(open\); in row 0 of 3 it is 2 \(column 'closed_3'\)"
    with pytest.raises(InputError, match=words):
        by_row(pairs, X.assign(closed_3=[2, 0, 1]))


def test_rows_without_a_path_are_named() -> None:
    pairs: Pairs = [("a", "b"), ("b", "c"), ("a", "c"), ("d", "a")]
    X = as_table(np.zeros((3, 4)), [("a", "c"), ("a", "b"), ("b", "c")]).assign(closed_1=[0, 0, 1])
    words = (
        r"row 2 could not be solved: no path leads from the source 'b' to the target 'c' with the edges that are open.*"
        r"This row goes from 'b' to 'c', and 1 of 4 edges are closed\."
    )
    with pytest.raises(SolverError, match=words):
        by_row(pairs, X).argmax(np.zeros((3, 4)))
    with pytest.raises(SolverError, match=r"no path leads from the source 'c' to the target 'a'. Check the edges"):
        by_row(pairs, X.assign(**{"from": "c", "to": "a"}), closed=None).argmax(np.zeros((3, 4)))
    bad = X.assign(**{"from": ["a", "zoo", "b"]})
    with pytest.warns(FallbackWarning, match=r"1 of 3 rows have no set and take the fallback action: .* it is 'zoo'"):
        lenient = by_row(pairs, bad, on_failure="fallback", fallback=np.zeros(4))
    with pytest.warns(FallbackWarning, match=r"1 of 3 rows could not be solved and took .* no path leads from .* 'b'"):
        np.testing.assert_array_equal(lenient.argmax(np.zeros((3, 4))), [[1, 1, 0, 0], [0] * 4, [0] * 4])


def test_a_row_that_is_too_hard_is_named_with_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortest_path, "_PATIENT", 300_000)
    pairs = grid(9)
    rows = np.random.default_rng(6).uniform(0.1, 1.0, size=(2, len(pairs)))
    X = pd.DataFrame({"from": [(0, 0), (0, 1)], "to": [(8, 8), (8, 8)]})
    omega = by_row(pairs, X, directed=False, closed=None)
    with pytest.raises(
        SolverError, match=r"row 1 could not .* a cycle that gains.*This row goes from \(0, 1\) to \(8, 8\)"
    ):
        omega.argmax(rows * np.array([[-1.0], [1.0]]))


def test_a_longer_search_decides_like_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, pairs = np.random.default_rng(7), grid(4)
    X = as_table((rng.random((30, 24)) < 0.1).astype(float)).assign(closed_0=0, closed_1=0, closed_2=0)
    X = X.assign(closed_15=0, closed_19=0, closed_23=0)
    C = rng.normal(size=(30, 24))
    given: dict[str, Any] = {"source": (0, 0), "target": (3, 3)}
    expected = by_row(pairs, X, directed=False, **given).argmax(C)
    monkeypatch.setattr(shortest_path, "_QUICK", 0)
    np.testing.assert_array_equal(by_row(pairs, X, directed=False, **given).argmax(C), expected)
