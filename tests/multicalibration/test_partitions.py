"""The numbering of partitions and the names of their parts agree with the parts that rows are in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from optensemble import feasible
from optensemble._core.buckets import Buckets
from optensemble.members.outputs import MemberOutputs
from optensemble.multicalibration.cell_names import CellPart, Leader, LevelSet, Subgroup, subgroup_parts
from optensemble.multicalibration.events import Layout, Partitions, PartNames, black_box, white_box
from optensemble.multicalibration.moves import FoundRows, shift
from optensemble.multicalibration.state import Situation
from optensemble.stacking.cells import make_layout, part_names
from optensemble.stacking.patch import situate
from tests.problems import Floats, bucket

N = 25
LETTERS = "abcdef"
dimensions, counts, seeds = st.integers(1, 3), st.integers(1, 4), st.integers(0, 10**6)
group_sizes = st.lists(st.integers(2, 4), max_size=2).map(tuple)


class World(NamedTuple):
    """A feasible set with a fixed coordinate now and then, its buckets, and the parts of subgroups."""

    rng: np.random.Generator
    omega: feasible.FeasibleSet
    buckets: Buckets
    parts: npt.NDArray[np.int32]
    titles: tuple[tuple[str, ...], ...]

    def predictions(self, count: int) -> Floats:
        return self.rng.normal(size=(count, N, self.omega.dimension))


def make_world(seed: int, d: int, count: int, groups: tuple[int, ...]) -> World:
    rng = np.random.default_rng(seed)
    lower, width = rng.uniform(-2, 0, size=d), rng.uniform(0.5, 3, size=d) * (rng.random(d) < 0.8)
    corners = rng.uniform(lower, lower + width, size=(6, d))
    omega = feasible.Vertices(corners)
    parts = [rng.integers(size, size=N) for size in groups]
    titles = tuple(tuple(f"g{column}={part}" for part in range(size)) for column, size in enumerate(groups))
    bound = np.array(parts, dtype=np.int32).reshape(len(groups), N)
    return World(rng, omega, Buckets(omega.lower, omega.upper, count), bound, titles)


def inside(part: CellPart, values: Floats) -> bool:
    """Whether values lie in the interval that a level set is called after, up to the digits shown."""
    assert isinstance(part, LevelSet)
    low, high = float(part.interval.low), float(part.interval.high)
    slack = 1e-3 * max(abs(low), abs(high), 1.0)
    return bool(((values >= low - slack) & (values <= high + slack)).all())


def assert_level_sets(
    names: Sequence[CellPart], part: npt.NDArray[Any], actions: Floats, j: int, world: World, **expected: Any
) -> None:
    np.testing.assert_array_equal(part, bucket(actions, world.omega, world.buckets.count)[:, j])
    assert len(names) == world.buckets.sizes[j]
    for number, name in enumerate(names):
        assert isinstance(name, LevelSet)
        assert (name.coordinate, name.member, name.own) == (j, expected.get("member"), expected.get("own", False))
        assert inside(name, actions[part == number, j])


def assert_cells(layout: Layout, situation: Situation, member: int, names: PartNames) -> None:
    """A cell is called after its parts, the last first; its number is that of compiled code too."""
    parts, cells = situation.parts(member), situation.cells(member, layout)
    assert len(parts) == len(layout.sizes) == len(names)
    for event, family in enumerate(layout.events):
        column = cells.column(event)
        assert layout.offsets[event] <= column.min() <= column.max() < layout.offsets[event + 1]
        for row in range(N):
            found = [names[partition][parts[partition][row]] for partition in reversed(family.partitions)]
            assert layout.name(int(column[row]), names).parts == tuple(found)
    cell = int(cells.columns()[0, situation.solves % len(layout.events)])
    moved, patched, one = np.empty(N, dtype=np.int64), np.array([cell]), np.ones((1, parts_width(situation)))
    count = shift(situation.state, layout.plan, member, patched, one, (0, N), FoundRows.room(layout), moved)
    np.testing.assert_array_equal(moved[:count], np.flatnonzero((cells.columns() == cell).any(axis=1)))


def parts_width(situation: Situation) -> int:
    return int(situation.predictions.shape[2])


def assert_partitions(partitions: Partitions, d: int, groups: tuple[int, ...], policies: int) -> None:
    """Every partition has one number, and one meaning."""
    numbers = [*partitions.own, partitions.leader, *partitions.subgroups, *partitions.given]
    assert numbers == list(range(len(partitions.sizes)))
    assert [partitions.sizes[number] for number in partitions.subgroups] == list(groups)
    assert [partitions.turn(number) for number in partitions.own] == list(range(d))
    assert [partitions.turn(number) for number in partitions.given] == list(range(d)) * policies
    assert Partitions.of_sizes(partitions.sizes, len(groups), d) == partitions


@given(seed=seeds, d=dimensions, count=counts, groups=group_sizes, models=st.integers(1, 3))
def test_white_box(seed: int, d: int, count: int, groups: tuple[int, ...], models: int) -> None:
    world = make_world(seed, d, count, groups)
    predictions = world.predictions(models)
    situation = Situation(predictions.copy(), world.omega, world.buckets, groups=world.parts)
    layout = white_box(world.buckets, models, groups)
    partitions = layout.partitions
    assert_partitions(partitions, d, groups, policies=0)
    assert partitions.sizes[partitions.leader] == models
    leaders = [Leader(LETTERS[model]) for model in range(models)]
    names = partitions.names(world.buckets, leaders, subgroup_parts(world.titles))
    actions = np.stack([world.omega.argmax(h) for h in predictions])
    best = np.stack([(a * h).sum(axis=1) for a, h in zip(actions, predictions, strict=True)]).argmax(axis=0)
    for member in range(models):
        parts = situation.parts(member)
        for own in partitions.own:
            assert_level_sets(names[own], parts[own], actions[member], own, world)
        np.testing.assert_array_equal(parts[partitions.leader], best)
        assert_subgroups(names, parts, partitions, world)
        assert_cells(layout, situation, member, names)
    assert [part for part in names[partitions.leader] if isinstance(part, Leader)] == leaders


def assert_subgroups(
    names: PartNames, parts: list[npt.NDArray[Any]], partitions: Partitions, world: World, before: int = 0
) -> None:
    for column, number in enumerate(partitions.subgroups[before:]):
        np.testing.assert_array_equal(parts[number], world.parts[column])
        assert list(names[number]) == [Subgroup(title) for title in world.titles[column]]


@given(
    seed=seeds, d=dimensions, count=counts, groups=group_sizes, policies=st.integers(1, 3), conditional=st.booleans()
)
def test_black_box(seed: int, d: int, count: int, groups: tuple[int, ...], policies: int, conditional: bool) -> None:
    world = make_world(seed, d, count, groups)
    start = world.predictions(1)
    given = np.stack([world.omega.argmax(h) for h in world.predictions(policies)])
    situation = Situation(start.copy(), world.omega, world.buckets, given=given, groups=world.parts)
    layout = black_box(world.buckets, policies, groups, conditional=conditional)
    partitions = layout.partitions
    assert_partitions(partitions, d, groups, policies)
    names = partitions.names(
        world.buckets, groups=subgroup_parts(world.titles), policies=[LETTERS[policy] for policy in range(policies)]
    )
    parts = situation.parts(0)
    for own in partitions.own:
        assert_level_sets(names[own], parts[own], world.omega.argmax(start[0]), own, world, own=True)
    assert_subgroups(names, parts, partitions, world)
    assert_given(names, parts, partitions, given, world)
    assert_cells(layout, situation, 0, names)


def assert_given(
    names: PartNames, parts: list[npt.NDArray[Any]], partitions: Partitions, given: Floats, world: World
) -> None:
    d = world.omega.dimension
    for place, number in enumerate(partitions.given):
        policy, j = divmod(place, d)
        assert_level_sets(names[number], parts[number], given[policy], j, world, member=LETTERS[policy])


@given(seed=seeds, d=dimensions, count=counts, groups=group_sizes, models=st.integers(0, 3), others=st.integers(0, 2))
def test_the_patch_of_a_forecast(
    seed: int, d: int, count: int, groups: tuple[int, ...], models: int, others: int
) -> None:
    others = others or int(models == 0)
    world = make_world(seed, d, count, groups)
    predictions = world.predictions(models)
    actions = np.stack([world.omega.argmax(h) for h in (*predictions, *world.predictions(others))])
    outputs = MemberOutputs(predictions, actions, world.omega, world.buckets)
    if groups:
        outputs = outputs.in_subgroups(world.parts, world.titles)
    forecast = world.predictions(1)[0]
    layout, situation = make_layout(outputs), situate(outputs, forecast)
    members = list(LETTERS[: models + others])
    partitions, names, parts = layout.partitions, part_names(outputs, members), situation.parts(0)
    leading = (models + 1,) if models > 1 else ()  # one more than there are, for no fitting row lacks a leader
    assert_partitions(partitions, d, (*leading, *groups), models + others)
    for own in partitions.own:
        assert_level_sets(names[own], parts[own], world.omega.argmax(forecast), own, world, own=True)
    if leading:
        first = partitions.subgroups[0]
        claims = np.stack([(a * h).sum(axis=1) for a, h in zip(actions, predictions, strict=False)])
        np.testing.assert_array_equal(parts[first], claims.argmax(axis=0))
        assert list(names[first]) == [Leader(LETTERS[model], promises=True) for model in range(models)]
    assert_subgroups(names, parts, partitions, world, before=len(leading))
    assert_given(names, parts, partitions, actions, world)
    assert_cells(layout, situation, 0, names)


@given(
    levels=st.lists(st.integers(1, 12), min_size=1, max_size=5).map(tuple),
    leaders=st.integers(1, 6),
    groups=st.lists(st.integers(1, 9), max_size=4).map(tuple),
    policies=st.integers(0, 5),
)
def test_partitions_are_known_again_by_their_sizes(
    levels: tuple[int, ...], leaders: int, groups: tuple[int, ...], policies: int
) -> None:
    partitions = Partitions(levels, leaders, groups, policies)
    assert len(partitions.sizes) == len(levels) * (policies + 1) + 1 + len(groups)
    assert Partitions.of_sizes(partitions.sizes, len(groups), len(levels)) == partitions
    assert Partitions.of_sizes(list(partitions.sizes), len(groups), len(levels)).sizes == partitions.sizes
