from __future__ import annotations

import copy
import pickle
from collections.abc import Hashable
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from optensemble.exceptions import EmptySetError, FallbackWarning, InfeasibleActionError, InputError, SolverError
from optensemble.feasible import shortest_path
from optensemble.feasible.shortest_path import ShortestPath
from tests.sample_sets import Floats, grid_path, hard_rows

Pairs = list[tuple[Any, Any]]


def grid(n: int) -> Pairs:
    right = [((i, j), (i, j + 1)) for i in range(n) for j in range(n - 1)]
    return right + [((i, j), (i + 1, j)) for i in range(n - 1) for j in range(n)]


def both_ways(pairs: Pairs) -> Pairs:
    return pairs + [(head, tail) for tail, head in pairs]


def random_pairs(nodes: int, count: int, seed: int, forward: bool = False) -> Pairs:
    """Random edges, parallel ones and loops among them, and a way from the first node to the last."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, nodes, size=(count, 2))
    if forward:
        pairs = np.sort(pairs, axis=1)
    pairs = np.concatenate([pairs, [[0, 1], [1, nodes - 1]]])[rng.permutation(count + 2)]
    return [(int(tail), int(head)) for tail, head in pairs]


def network(pairs: Pairs, directed: bool) -> Any:
    graph = nx.MultiDiGraph() if directed else nx.MultiGraph()
    graph.add_edges_from((tail, head, j) for j, (tail, head) in enumerate(pairs))
    return graph


def every_path(pairs: Pairs, source: Hashable, target: Hashable, directed: bool) -> Floats:
    """The actions of all simple paths, in lexicographic order of their edges from the source on."""
    paths = nx.all_simple_edge_paths(network(pairs, directed), source, target)
    edges = sorted([edge[2] for edge in path] for path in paths)
    actions = np.zeros((len(edges), len(pairs)))
    for row, path in zip(actions, edges, strict=True):
        row[path] = 1.0
    return actions


def scaled(C: Floats) -> Floats:
    size = np.abs(C).max(axis=1, keepdims=True)
    rows: Floats = C / np.where(size > 0, size, 1.0)
    return rows


def check_against_all(omega: ShortestPath, paths: Floats, C: Floats) -> None:
    """Every action is the first of the best, by brute force."""
    values = scaled(C) @ paths.T
    first = (values >= values.max(axis=1, keepdims=True) - 1e-11).argmax(axis=1)
    np.testing.assert_array_equal(omega.argmax(C), paths[first])


@pytest.mark.parametrize("seed", range(12))
def test_without_cycles_it_is_the_first_of_the_best_paths(seed: int) -> None:
    pairs = random_pairs(nodes=9, count=8 + 2 * seed, seed=seed, forward=True)
    omega = ShortestPath(pairs, 0, 8)
    check_against_all(omega, every_path(pairs, 0, 8, directed=True), hard_rows(omega.dimension, seed=seed))


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_with_cycles_it_is_the_first_of_the_best_simple_paths(seed: int, directed: bool) -> None:
    pairs = random_pairs(nodes=7, count=6 + 2 * (seed if directed else seed // 2), seed=seed)
    omega = ShortestPath(pairs, 0, 6, directed)
    paths = every_path(pairs, 0, 6, directed)
    C = hard_rows(omega.dimension, seed=seed)
    check_against_all(omega, paths, C)
    check_against_all(omega, paths, -np.abs(C))
    check_against_all(omega, paths, -np.abs(C) + 0.3 * np.abs(C).max(axis=1, keepdims=True))


@pytest.mark.no_cover
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_small_graph_with_integer_lengths(data: st.DataObject) -> None:
    node = st.integers(0, 4)
    pairs = [(0, 1), (1, 4), *data.draw(st.lists(st.tuples(node, node), max_size=8))]
    directed = data.draw(st.booleans())
    C = np.array(data.draw(st.lists(st.integers(-3, 2), min_size=len(pairs), max_size=len(pairs))), dtype=float)[None]
    paths = every_path(pairs, 0, 4, directed)
    for factor in (1.0, 1 / 3, 0.1, 1e-300):
        check_against_all(ShortestPath(pairs, 0, 4, directed), paths, C * factor)


@pytest.mark.parametrize("directed", [True, False])
def test_lengths_of_both_signs_on_a_grid(directed: bool) -> None:
    pairs = both_ways(grid(4)) if directed else grid(4)
    omega = ShortestPath(pairs, (0, 0), (3, 3), directed)
    check_against_all(omega, every_path(pairs, (0, 0), (3, 3), directed), hard_rows(omega.dimension, n=100))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("directed", [True, False])
def test_lengths_that_are_not_negative_against_dijkstra(seed: int, directed: bool) -> None:
    pairs = random_pairs(nodes=60, count=300, seed=seed)
    omega = ShortestPath(pairs, 0, 59, directed)
    lengths = np.random.default_rng(seed).exponential(size=(20, len(pairs)))
    actions = omega.argmax(-lengths)
    np.testing.assert_array_equal(omega.violation(actions), 0.0)
    graph = network(pairs, directed)
    for row, action in zip(lengths, actions, strict=True):
        nx.set_edge_attributes(graph, {edge: row[edge[2]] for edge in graph.edges}, "length")
        np.testing.assert_allclose(action @ row, nx.dijkstra_path_length(graph, 0, 59, "length"), rtol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_negative_lengths_without_negative_cycles_against_bellman_and_ford(seed: int) -> None:
    pairs = random_pairs(nodes=40, count=200, seed=seed)
    omega = ShortestPath(pairs, 0, 39)
    rng = np.random.default_rng(seed)
    height = 5 * rng.normal(size=(20, 40))
    tail, head = np.array(pairs).T
    lengths = rng.exponential(size=(20, len(pairs))) + height[:, head] - height[:, tail]
    actions = omega.argmax(-lengths)
    graph = network(pairs, directed=True)
    for row, action in zip(lengths, actions, strict=True):
        nx.set_edge_attributes(graph, {edge: row[edge[2]] for edge in graph.edges}, "length")
        np.testing.assert_allclose(action @ row, nx.bellman_ford_path_length(graph, 0, 39, "length"), atol=1e-9)


def test_the_grid_against_linear_programming() -> None:
    A, b = grid_path()
    omega = ShortestPath(grid(5), (0, 0), (4, 4))
    C = scaled(hard_rows(40))
    actions = omega.argmax(C)
    np.testing.assert_allclose(actions @ A.T, np.broadcast_to(b, (len(C), 25)), atol=0)
    for c, action in zip(C, actions, strict=True):
        best = np.round(linprog(-c, A_eq=A, b_eq=b, bounds=(0, 1))["x"])
        np.testing.assert_allclose(c @ action, c @ best, atol=1e-9)


@pytest.mark.parametrize(
    "omega",
    [
        ShortestPath(grid(4), (0, 0), (3, 3)),
        ShortestPath(both_ways(grid(4)), (0, 0), (3, 3)),
        ShortestPath(grid(4), (0, 0), (3, 3), directed=False),
    ],
    ids=["forward", "both ways", "undirected"],
)
class TestContract:
    def test_rows_do_not_depend_on_batch_order_or_hint(self, omega: ShortestPath) -> None:
        C = hard_rows(omega.dimension, n=30)
        actions = omega.argmax(C)
        assert set(np.unique(actions)) == {0.0, 1.0}
        assert not np.signbit(actions).any()
        np.testing.assert_array_equal(omega.argmax(C[::-1])[::-1], actions)
        np.testing.assert_array_equal(np.concatenate([omega.argmax(row[None]) for row in C]), actions)
        for hint in (actions, actions[::-1], C):
            np.testing.assert_array_equal(omega.argmax(C, hint=hint), actions)

    def test_ties_do_not_depend_on_noise(self, omega: ShortestPath) -> None:
        rng = np.random.default_rng(1)
        C = rng.integers(-3, 2, size=(400, omega.dimension)).astype(float)
        expected = omega.argmax(C)
        np.testing.assert_array_equal(omega.argmax(C / 3), expected)
        np.testing.assert_array_equal(omega.argmax(C * 0.1), expected)
        np.testing.assert_array_equal(omega.argmax(C * (1 + 1e-16 * rng.normal(size=C.shape))), expected)
        np.testing.assert_array_equal(omega.argmax(C + 1e-15 * rng.normal(size=C.shape)), expected)

    def test_scale_does_not_matter(self, omega: ShortestPath) -> None:
        C = np.random.default_rng(2).uniform(-1, 1, size=(50, omega.dimension))
        for power in (-1040, -900, -300, 300, 900, 1023):
            np.testing.assert_array_equal(omega.argmax(np.ldexp(C, power)), omega.argmax(C))

    def test_it_survives_a_spec_a_copy_and_a_pickle(self, omega: ShortestPath) -> None:
        C = hard_rows(omega.dimension, n=10)
        twins = ShortestPath(**omega.spec()), copy.deepcopy(omega), pickle.loads(pickle.dumps(omega))
        for twin in twins:
            np.testing.assert_array_equal(twin.argmax(C), omega.argmax(C))
        again = ShortestPath(**twins[0].spec())
        np.testing.assert_array_equal(again.edges, omega.edges)
        assert (again.source, again.target, again.directed) == (0, 15, omega.directed)

    def test_bounds_leave_out_edges_that_are_never_used(self, omega: ShortestPath) -> None:
        np.testing.assert_array_equal(omega.lower, 0.0)
        forward = grid(4) + [(head, tail) for tail, head in grid(4) if tail != (0, 0) and head != (3, 3)]
        pairs = [(omega.nodes[tail], omega.nodes[head]) for tail, head in omega.edges]
        np.testing.assert_array_equal(omega.upper, [pair in forward for pair in pairs])


@pytest.mark.parametrize("n", [3, 12])
def test_cycles_of_length_zero_are_never_entered(n: int) -> None:
    pairs = both_ways(grid(n))
    rng = np.random.default_rng(4)
    height = {node: rng.integers(-9, 10, size=100) for node in {tail for tail, _ in pairs}}
    lengths = np.stack([height[head] - height[tail] for tail, head in pairs], axis=1).astype(float)
    omega = ShortestPath(pairs, (0, 0), (n - 1, n - 1))
    for C in (-lengths, -lengths / 3, -lengths * 0.1, -lengths + 1e-15 * rng.normal(size=lengths.shape)):
        actions = omega.argmax(C)
        assert (actions == actions[0]).all()
    if n == 3:
        np.testing.assert_array_equal(actions[0], every_path(pairs, (0, 0), (2, 2), directed=True)[0])


def test_dead_ends_behind_cycles_of_length_zero_are_left_again() -> None:
    pairs = [("s", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("a", "t")]
    omega = ShortestPath(pairs, "s", "t")
    np.testing.assert_array_equal(omega.argmax([[0.0] * 5, [-1.0] * 5]), [[1, 0, 0, 0, 1]] * 2)


def test_useless_edges_are_ignored() -> None:
    useless = [("t", "a"), ("a", "s"), ("a", "a"), ("a", "end"), ("other", "a"), ("x", "y"), ("y", "x")]
    pairs = [("s", "a"), ("a", "t"), ("s", "t"), *useless]
    omega = ShortestPath(pairs, "s", "t")
    C = np.zeros((2, len(pairs)))
    C[:, :3] = [[1e-9, 1e-9, 1e-9], [1e-9, 1e-9, 3e-9]]
    C[:, 3:] = 1e300
    np.testing.assert_array_equal(omega.argmax(C)[:, :3], [[1, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(omega.argmax(C)[:, 3:], 0.0)


@pytest.mark.parametrize("least", [0.0, -0.5])
@pytest.mark.parametrize("directed", [True, False])
def test_prohibitive_lengths_do_not_blur_the_others(directed: bool, least: float) -> None:
    rng = np.random.default_rng(8)
    for pairs in (grid(4), both_ways(grid(4))) if directed else (grid(4),):
        paths = every_path(pairs, (0, 0), (3, 3), directed)
        lengths = rng.uniform(least, 1.0, size=(200, len(pairs)))
        closed = rng.random(lengths.shape) < 0.3
        closed &= paths[rng.integers(0, len(paths), size=200)] == 0
        values = np.where(closed.astype(float) @ paths.T > 0, np.inf, lengths @ paths.T)
        actions = ShortestPath(pairs, (0, 0), (3, 3), directed).argmax(-np.where(closed, 1e15, lengths))
        np.testing.assert_array_equal(actions, paths[values.argmin(axis=1)])


def test_one_edge_is_enough() -> None:
    for directed in (True, False):
        np.testing.assert_array_equal(ShortestPath([(0, 1)], 0, 1, directed).argmax([[-1.0], [0.0], [2.0]]), 1.0)
    np.testing.assert_array_equal(ShortestPath([(1, 0)], 0, 1, directed=False).argmax([[-1.0]]), 1.0)


def test_parallel_edges_have_coordinates_of_their_own() -> None:
    omega = ShortestPath([(0, 1), (0, 1), (0, 1)], 0, 1)
    np.testing.assert_array_equal(omega.argmax([[1.0, 2.0, 2.0]]), [[0, 1, 0]])


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.Graph, nx.MultiDiGraph, nx.MultiGraph])
def test_graphs_of_networkx_are_taken_as_they_are(kind: Any) -> None:
    graph = kind([("a", "b"), ("b", "t"), ("s", "b"), ("s", "a"), ("a", "t"), ("s", "a")])
    omega = ShortestPath(graph, "s", "t")
    edges = [edge[:2] for edge in graph.edges]
    assert [(omega.nodes[tail], omega.nodes[head]) for tail, head in omega.edges] == edges
    assert omega.directed == graph.is_directed()
    assert not ShortestPath(graph, "s", "t", directed=False).directed
    C = hard_rows(omega.dimension)
    np.testing.assert_array_equal(omega.argmax(C), ShortestPath(edges, "s", "t", graph.is_directed()).argmax(C))


def test_nodes_may_have_any_names() -> None:
    C = hard_rows(12)
    names: list[dict[Any, Any]] = [{}, {}, {}]
    for i, node in enumerate(dict.fromkeys(node for pair in grid(3) for node in pair)):
        for name, value in zip(names, (i, str(node), (node, "x")), strict=True):
            name[node] = value
    expected = ShortestPath(grid(3), (0, 0), (2, 2)).argmax(C)
    for name in names:
        pairs = [(name[tail], name[head]) for tail, head in grid(3)]
        omega = ShortestPath(pairs, name[(0, 0)], name[(2, 2)])
        np.testing.assert_array_equal(omega.argmax(C), expected)
        assert omega.path(expected[0])[0] == name[(0, 0)]
    for array in (np.array([[0, 1], [1, 2]]), np.array([["0", "1"], ["1", "2"]])):
        assert ShortestPath(array, array[0, 0], array[1, 1]).path([1, 1]) == [*array[0].tolist(), array[1, 1]]


def test_the_path_of_an_action() -> None:
    omega = ShortestPath(grid(3), (0, 0), (2, 2), directed=False)
    C = np.random.default_rng(5).normal(size=(200, 12))
    for action in omega.argmax(C):
        nodes = omega.path(action)
        assert (nodes[0], nodes[-1], len(set(nodes))) == ((0, 0), (2, 2), len(nodes))
        steps = {frozenset(step) for step in pairwise(nodes)}
        np.testing.assert_array_equal(action, [frozenset(edge) in steps for edge in grid(3)])
    with pytest.raises(InfeasibleActionError, match="the edges of one path"):
        omega.path(np.zeros(12))
    with pytest.raises(InfeasibleActionError, match="the edges of one path"):
        omega.path(omega.argmax(C[:2]))
    with pytest.raises(InputError, match="must have 12 columns"):
        omega.path([1.0])


def test_violation_is_the_distance_to_the_path() -> None:
    omega = ShortestPath([("s", "a"), ("a", "t"), ("s", "t"), ("b", "c"), ("c", "b")], "s", "t")
    actions = [[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0.9, 1.2, 0, 0, 0], [1, 1, 0, 0.3, 0], [0, 0, 1, -0.1, 0]]
    np.testing.assert_allclose(omega.violation(np.array(actions)), [0, 0, 0.2, 0.3, 0.1])
    outside = [[0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 0, 1, 1], [0, 0, 1, 1, 1], [1, 0, 1, 0, 0]]
    np.testing.assert_allclose(omega.violation(np.array(outside, dtype=float)), 1.0)
    assert omega.violation(np.array([[0.5, 0.5, 0.5, 0, 0]]))[0] >= 0.5


@pytest.mark.parametrize("directed", [True, False])
def test_violation_knows_paths_from_everything_else(directed: bool) -> None:
    pairs = random_pairs(nodes=5, count=8, seed=3)
    omega = ShortestPath(pairs, 0, 4, directed)
    everything = np.array(np.meshgrid(*[[0.0, 1.0]] * 10)).reshape(10, -1).T
    paths = {tuple(path) for path in every_path(pairs, 0, 4, directed)}
    np.testing.assert_array_equal(omega.violation(everything), [0.0 if tuple(a) in paths else 1.0 for a in everything])
    np.testing.assert_array_equal(omega.violation(np.asfortranarray(everything)), omega.violation(everything))


def hard_row() -> tuple[ShortestPath, Floats]:
    omega = ShortestPath(grid(9), (0, 0), (8, 8), directed=False)
    return omega, np.random.default_rng(6).uniform(0.1, 1.0, size=(1, omega.dimension))


def test_a_row_that_is_too_hard_is_refused_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortest_path, "_PATIENT", 300_000)
    omega, row = hard_row()
    with pytest.raises(
        SolverError, match=r"row 1 could not be solved: .* a cycle that gains.*clip them at zero.*Vertices"
    ):
        omega.argmax(np.concatenate([-row, row, row]))


def test_a_row_that_is_too_hard_may_take_a_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortest_path, "_PATIENT", 300_000)
    omega, row = hard_row()
    fallback = omega.argmax(-np.ones_like(row))[0]
    lenient = ShortestPath(**{**omega.spec(), "on_failure": "fallback", "fallback": fallback})
    with pytest.warns(FallbackWarning, match="1 of 2 rows could not be solved"):
        actions = lenient.argmax(np.concatenate([row, -row]))
    np.testing.assert_array_equal(actions, [fallback, omega.argmax(-row)[0]])
    np.testing.assert_array_equal(ShortestPath(**lenient.spec()).fallback, fallback)
    with pytest.raises(InfeasibleActionError, match="inside the set"):
        ShortestPath(grid(3), (0, 0), (2, 2), on_failure="fallback", fallback=np.zeros(12))


def test_a_longer_search_decides_like_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    C = np.random.default_rng(7).normal(size=(30, 24))
    expected = ShortestPath(grid(4), (0, 0), (3, 3), directed=False).argmax(C)
    monkeypatch.setattr(shortest_path, "_QUICK", 0)
    np.testing.assert_array_equal(ShortestPath(grid(4), (0, 0), (3, 3), directed=False).argmax(C), expected)


@pytest.mark.parametrize("edges", [[], np.empty((0, 2)), nx.DiGraph()])
def test_no_edges_are_refused(edges: Any) -> None:
    with pytest.raises(EmptySetError, match="at least one edge"):
        ShortestPath(edges, 0, 1)


def test_errors_say_what_to_do() -> None:
    with pytest.raises(InputError, match="edges must be a list of pairs"):
        ShortestPath(3, 0, 1)
    with pytest.raises(InputError, match="edges must be a list of pairs"):
        ShortestPath("ab", "a", "b")
    bad: list[Any] = [[(0, 1), (0, 1, 2)], [(0, 1), 5], [(0, 1), "ab"], np.array([[0, 1, 2], [1, 2, 3]])]
    for edges in bad:
        with pytest.raises(InputError, match=r"every edge must be a pair \(tail, head\); edge"):
            ShortestPath(edges, 0, 1)
    unusable: list[Any] = [[[0], 1], [(0, [0]), 1], [np.nan, 1], [{}, 1]]
    for edge in unusable:
        with pytest.raises(InputError, match="a node of edge 0 must be a number, a string or a tuple"):
            ShortestPath([edge], 0, 1)
    with pytest.raises(InputError, match="the source must be a number"):
        ShortestPath([(0, 1)], [0], 1)
    with pytest.raises(InputError, match=r"the source 7 is no end of an edge\. The 2 nodes begin with 0, 1\."):
        ShortestPath([(0, 1)], 7, 1)
    with pytest.raises(InputError, match="the target 'b' is no end of an edge"):
        ShortestPath([(0, 1)], 0, "b")
    with pytest.raises(InputError, match="must differ; both are 0"):
        ShortestPath([(0, 1)], 0, 0)
    with pytest.raises(InputError, match="directed must be True or False; got 'no'"):
        ShortestPath([(0, 1)], 0, 1, directed="no")  # type: ignore[arg-type]
    with pytest.raises(EmptySetError, match=r"no path leads from the source 1 to the target 0.*directed=False"):
        ShortestPath([(0, 1)], 1, 0)
    with pytest.raises(EmptySetError, match=r"no path leads from the source 0 to the target 3\. Check the edges\.$"):
        ShortestPath([(0, 1), (2, 3)], 0, 3, directed=False)
    with pytest.raises(InputError, match="on_failure must be"):
        ShortestPath([(0, 1)], 0, 1, on_failure="ignore")
    coefficients: npt.ArrayLike = [[np.nan]]
    with pytest.raises(InputError, match="must be finite"):
        ShortestPath([(0, 1)], 0, 1).argmax(coefficients)
