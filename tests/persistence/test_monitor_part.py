"""Monitors in files: they go on to the last bit, and what is wrong with one is told by the name of the part."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble._core.spans import MOST_SPANS, Spans
from optensemble.exceptions import FileError
from optensemble.monitoring.monitor import MOST_LISTED, Monitor
from optensemble.persistence.archive import read_archive
from optensemble.persistence.monitor_part import (
    check_monitor,
    check_spans,
    pack_monitor,
    pack_spans,
    unpack_monitor,
    unpack_spans,
)
from optensemble.persistence.parts import Part, Shelf, Wrong, require_plain
from tests.fuzz_files import Content, change_array, change_value
from tests.persistence.test_files_of_strangers import ANSWERS, ROWS, SAVED, array, document, entry
from tests.problems import Floats

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.RefitWarning")
N, D = 200, 3
Change = Callable[[Content], None]


def bits(monitor: Monitor) -> tuple[str, dict[str, bytes]]:
    plain, arrays = monitor.state()
    return json.dumps(plain), {name: each.tobytes() for name, each in arrays.items()}


def table(seed: int, drop: float = 0.0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(N, D))
    return np.hstack([signal + rng.normal(size=(N, D)) for _ in range(2)]), signal + rng.normal(size=(N, D)) - drop


@pytest.fixture(scope="module")
def fitted() -> oe.DecisionEnsemble:
    """An ensemble whose monitor has listed alarms, a restart, and alarms since."""
    models = [(f"m{m}", oe.Columns(list(range(D * m, D * (m + 1))))) for m in range(2)]
    ensemble = oe.DecisionEnsemble(models, feasible=feasible.Simplex(D)).fit(*table(0))
    for seed, drop in ((1, 0.0), (2, 2.0)):
        ensemble.update(*table(seed, drop))
    ensemble.monitor_.restart()
    for seed in (3, 4):
        ensemble.update(*table(seed, -3.0))
    return ensemble


@pytest.fixture
def saved(fitted: oe.DecisionEnsemble, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "watched.oe")
    return tmp_path / "watched.oe"


# Whole files


def test_a_loaded_monitor_is_the_saved_one(fitted: oe.DecisionEnsemble, saved: Path) -> None:
    again = oe.load(saved)
    assert len(fitted.monitor_.alarms) > len(fitted.monitor_.standing) > 0
    assert bits(again.monitor_) == bits(fitted.monitor_)
    assert (again.monitor_.standing, str(again.monitor_)) == (fitted.monitor_.standing, str(fitted.monitor_))
    assert again.refit_due_ == fitted.refit_due_
    pd.testing.assert_frame_equal(again.monitor_.alarms, fitted.monitor_.alarms, check_exact=True)
    pd.testing.assert_frame_equal(again.monitor_.evidence, fitted.monitor_.evidence, check_exact=True)


def test_a_loaded_monitor_goes_on_to_the_same_bits(fitted: oe.DecisionEnsemble, saved: Path) -> None:
    """It watches the promise of the fit, which the file has to know: the record has learned from updates since."""
    ours, theirs = copy.deepcopy(fitted), oe.load(saved)
    for seed in (5, 6, 7):
        for each in (ours, theirs):
            each.update(*table(seed, 0.5))
    assert ours.monitor_.rows == fitted.monitor_.rows + 3 * N
    assert bits(theirs.monitor_) == bits(ours.monitor_)
    assert theirs.refit_due_ == ours.refit_due_


def test_a_saved_monitor_is_the_same_file_again(saved: Path) -> None:
    oe.load(saved).save(saved.with_name("again.oe"))
    assert saved.with_name("again.oe").read_bytes() == saved.read_bytes()


def test_a_refit_after_loading_begins_anew(saved: Path) -> None:
    ensemble = oe.load(saved)
    ensemble.extend()
    assert ensemble.monitor_.rows == 0
    assert not ensemble.monitor_.alarms.size
    assert ensemble.refit_due_ == ""


# Files of earlier versions


@pytest.mark.parametrize("name", ANSWERS)
def test_files_of_earlier_versions_have_a_new_monitor(name: str) -> None:
    ensemble = oe.load(SAVED / f"{name}.oe")
    if not isinstance(ensemble, oe.DecisionEnsemble):
        assert not hasattr(ensemble, "monitor_")
        return
    monitor, record = ensemble.monitor_, ensemble.record_
    assert (monitor.rows, monitor.standing, monitor.restarts) == (0, (), ())
    assert monitor.sigma == pytest.approx(record.residual.std(), rel=0.05)
    assert monitor.half_width is not None
    assert monitor.half_width > 0
    assert monitor.long_run >= 1


def test_a_monitor_of_an_earlier_file_watches_its_promise(tmp_path: Path) -> None:
    old = oe.load(SAVED / "decision.oe")
    answer = old.answer(ROWS)
    labels = np.random.default_rng(0).normal(size=answer.actions.shape)
    expected = old.monitor_.copy().observe(answer.promised, (answer.actions * labels).sum(axis=1))
    old.update(ROWS, labels)
    assert old.monitor_.rows == len(ROWS)
    pd.testing.assert_frame_equal(old.monitor_.evidence, expected.evidence)
    old.save(tmp_path / "new.oe")
    assert bits(oe.load(tmp_path / "new.oe").monitor_) == bits(old.monitor_)


def test_a_file_that_lost_its_monitor_has_a_new_one(fitted: oe.DecisionEnsemble, saved: Path) -> None:
    """As if an earlier version had written it, after updates: the promise is that of the rows of the fit."""
    content = Content.of(saved)
    del content.document["monitor"], content.document["watched"]
    content.write(saved)
    again = oe.load(saved)
    assert again.monitor_.rows == 0
    assert again.monitor_.sigma == pytest.approx(fitted.monitor_.sigma)
    assert again._watched == pytest.approx(fitted._watched)


# One wrong value


def listed(*change: tuple[int, Any]) -> Change:
    """Change entries of the first alarm that is listed."""

    def apply(content: Content) -> None:
        for number, value in change:
            content.document["monitor"]["alarms"][0][number] = value

    return apply


def without(*way: str) -> Change:
    def apply(content: Content) -> None:
        holder = content.document
        for key in way[:-1]:
            holder = holder[key]
        del holder[way[-1]]

    return apply


def both(*changes: Change) -> Change:
    def apply(content: Content) -> None:
        for change in changes:
            change(content)

    return apply


def value(name: str, to: Any) -> Change:
    return document("monitor", name, value=to)


def fewer_rows(content: Content) -> None:
    content.arrays["monitor/spans/place"] = np.array([3, 1])
    content.arrays["monitor/spans/values"] = content.arrays["monitor/spans/values"][:3]


WRONG: list[tuple[Change, str]] = [
    (document("monitor", value=[]), "monitor must have 'sigma'"),
    (document("monitor", value="none"), "monitor must have 'sigma'"),
    (without("watched"), "the document must have 'watched'"),
    (document("watched", value=[0.0] * 4), "watched must be base, slope, centre, offset, share"),
    (document("watched", 0, value=float("nan")), "watched.0 must be a number"),
    (document("watched", 1, value=1e200), "watched.1 must be a number"),
    *((without("monitor", name), f"monitor must have '{name}'") for name in ("half_width", "horizon", "since")),
    (value("sigma", 0.0), "monitor.sigma must be a number from 1e-300"),
    (value("sigma", float("nan")), "monitor.sigma must be a number"),
    (value("sigma", 1e130), "monitor.sigma must be at most 1e.120"),
    (value("sigma", None), "monitor.sigma must be a number"),
    (value("half_width", -1.0), "monitor.half_width must be a number from 0"),
    (value("half_width", 1e130), "monitor.half_width must be at most 1e.120"),
    (value("long_run", 0.5), "monitor.long_run must be a number from 1"),
    (value("long_run", 1e130), "monitor.long_run must be at most 1e.120"),
    (value("tolerance", -0.1), "monitor.tolerance must be a number from 0"),
    (value("horizon", 0), "monitor.horizon must be a whole number from 1"),
    (value("horizon", 5000.0), "monitor.horizon must be a whole number"),
    (value("horizon", 10**13), "monitor.horizon must be a whole number"),
    (value("false_alarms", 0.0), "monitor.false_alarms must be a number from 1e-09"),
    (value("false_alarms", 1.0), "monitor.false_alarms must be below 1"),
    (value("sense", "most"), "monitor.sense must be one of 'max', 'min'"),
    (value("directions", []), "monitor.directions must be 'less', 'more' or both"),
    (value("directions", ["less", "less"]), "monitor.directions must hold distinct names"),
    (value("directions", ["up", "down"]), "monitor.directions must be 'less', 'more' or both"),
    (value("directions", ["less"]), "monitor/spans/values must be an array of numbers, any × 3 long"),
    (value("directions", "less"), "monitor.directions must be a list"),
    (value("since", -1), "monitor.since must be a whole number from 0"),
    (value("since", 10**6), "monitor.since must be a whole number from 0"),
    (value("since", 2 * N - 1), "monitor.restarts must end with|monitor.restarts.0 must be a whole number"),
    (value("restarts", []), "monitor.restarts must end with"),
    (value("restarts", [2 * N, 5, 2 * N]), "monitor.restarts must ascend"),
    (value("restarts", [2 * N] * (MOST_LISTED + 1)), "monitor.restarts must ascend, and be"),
    (value("restarts", [2 * N + 1]), "monitor.restarts.0 must be a whole number from 0"),
    (value("alarms", {}), "monitor.alarms must be a list"),
    (value("alarms", [[1, 1]]), "monitor.alarms.0 must be row, onset, direction, kind, evidence, since"),
    (
        both(lambda content: content.document["monitor"]["alarms"].extend([[1, 1, "less", "broken", 1.0, 0]] * 1000)),
        "monitor.alarms must be at most 1,000",
    ),
    (listed((0, 2 * N)), "monitor.alarms.0.0 must be a whole number from 0"),
    (listed((1, 2 * N)), "monitor.alarms.0.1 must be a whole number from 0"),
    (listed((1, -1)), "monitor.alarms.0.1 must be a whole number from 0"),
    (listed((5, 2 * N)), "monitor.alarms.0.5 must be a whole number from 0"),
    (listed((2, "up")), "monitor.alarms.0.2 must be one of 'less', 'more'"),
    (listed((3, "moved")), "monitor.alarms.0.3 must be one of 'broken', 'drifted'"),
    (listed((4, -1.0)), "monitor.alarms.0.4 must be a number from 0"),
    (listed((4, float("inf"))), "monitor.alarms.0.4 must be a number"),
    # what compiled code goes through
    (entry("monitor/spans/place", -1), "monitor/spans/place must hold whole numbers from 0"),
    (entry("monitor/spans/place", 2**61), "monitor/spans/place must hold whole numbers from 0"),
    (entry("monitor/spans/place", 0, at=1), "monitor/spans/place must be that of"),
    (entry("monitor/spans/place", 3, at=1), "monitor/spans/place must be that of"),
    (entry("monitor/spans/place", 10**6), "monitor/spans/place must be that of"),
    (array("monitor/spans/place", lambda place: place[:1]), "monitor/spans/place must be an array"),
    (array("monitor/spans/place", lambda place: place.astype(float)), "monitor/spans/place must be an array of whole"),
    (array("monitor/spans/values", lambda values: values[:-1]), "monitor/spans/place must be that of"),
    (array("monitor/spans/values", lambda values: np.repeat(values, 9, axis=0)), "monitor/spans/place must be that of"),
    (array("monitor/spans/values", lambda values: values[:, :-1]), "monitor/spans/values must be an array"),
    (entry("monitor/spans/values", np.nan), "monitor/spans/values must hold numbers"),
    (fewer_rows, "monitor.since must be a whole number from 0 to 3"),
    (entry("monitor/variance", 0.5), "monitor/variance must be at least 1"),
    (entry("monitor/variance", np.inf), "monitor/variance must hold numbers"),
    (array("monitor/variance", lambda one: np.repeat(one, 2)), "monitor/variance must be an array of numbers, 1 long"),
    (entry("monitor/evidence", -1.0), "monitor/evidence must be at least 0"),
    (entry("monitor/evidence", np.nan), "monitor/evidence must hold numbers"),
    (entry("monitor/evidence", 1e101), "monitor/evidence must be at most 1e.100"),
    (array("monitor/evidence", lambda sizes: sizes[..., :-1]), "monitor/evidence must be an array of numbers, 2 × 2 ×"),
    (entry("monitor/rising", -1.0), "monitor/rising must be at least 0"),
    (array("monitor/rising", lambda sizes: sizes[:1]), "monitor/rising must be an array"),
    (entry("monitor/began", 10**6), "monitor/began must hold whole numbers from 400"),
    (entry("monitor/began", 2 * N - 1), "monitor/began must hold whole numbers from 400"),
    (array("monitor/began", lambda rows: rows[:, :1]), "monitor/began must be an array of whole numbers"),
    (entry("monitor/strength", -1.0), "monitor/strength must be at least 0"),
    (array("monitor/strength", lambda strength: strength.T[:1]), "monitor/strength must be an array"),
    (entry("monitor/raised", 10**6), "monitor/raised must hold whole numbers from -1"),
    (entry("monitor/raised", -2), "monitor/raised must hold whole numbers from -1"),
    (array("monitor/raised", lambda raised: raised[..., ::-1].copy()), "monitor/raised must be rows from 400 to 799"),
    (array("monitor/raised", lambda raised: np.full_like(raised, 7)), "monitor/raised must be rows from 400 to 799"),
    *(
        (lambda content, name=name: content.arrays.pop(f"monitor/{name}"), f"must have 'monitor/{name}'")
        for name in ("variance", "evidence", "rising", "began", "raised", "strength", "spans/values", "spans/place")
    ),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_wrong_value_is_told_by_the_name_of_its_part(number: int, saved: Path) -> None:
    change, words = WRONG[number]
    content = Content.of(saved)
    change(content)
    content.write(saved)
    with pytest.raises(FileError, match=rf"is not what this version writes: .*({words}).*Save the ensemble"):
        oe.load(saved)


# Any wrong values


def sample(seed: int) -> Monitor:
    """Monitors of all kinds, with many rows or few, restarts and alarms."""
    rng = np.random.default_rng(seed)
    directions = [["less"], ["more"], ["less", "more"], ["more", "less"]][seed % 4]
    monitor = Monitor(2.0, half_width=None if seed % 3 else 0.4, long_run=1.5, directions=directions, horizon=100)
    for _ in range(seed % 4):
        monitor.observe(0.0, rng.normal(rng.choice([-3, 0, 3]), 2.0, rng.integers(1, 900))).restart()
    return monitor.observe(0.0, rng.normal(rng.choice([-2, 0, 2]), 2.0, rng.integers(0, 900)))


def checked(content: Content, path: Path) -> Monitor | None:
    """The monitor, if it passes: the way of ``load``."""
    content.write(path)
    try:
        document, arrays = read_archive(path)
        require_plain(document)
        rows = check_monitor(Shelf(arrays), Part(document), "key")
    except (Wrong, FileError):
        return None
    monitor = unpack_monitor(document, arrays, "key")
    assert monitor.rows == rows
    return monitor


def packed(monitor: Monitor) -> Content:
    arrays: dict[str, Any] = {}
    return Content(json.loads(json.dumps(pack_monitor(monitor, arrays, "key"))), arrays)


@pytest.mark.parametrize("seed", range(12))
def test_every_monitor_passes_and_comes_back(seed: int, tmp_path: Path) -> None:
    monitor = sample(seed)
    again = checked(packed(monitor), tmp_path / "monitor")
    assert again is not None
    assert bits(again) == bits(monitor)


@pytest.mark.slow
@pytest.mark.no_cover
def test_whatever_a_file_says_it_is_refused_or_the_monitor_works(tmp_path: Path) -> None:
    rng, fates = np.random.default_rng(0), [0, 0]
    samples, path = [packed(sample(seed)) for seed in range(12)], tmp_path / "monitor"
    for number in range(600):
        given = samples[number % len(samples)]
        content = Content(json.loads(json.dumps(given.document)), dict(given.arrays))
        (change_value if rng.random() < 0.5 else change_array)(content, rng)
        try:
            monitor = checked(content, path)
        except UnicodeEncodeError:  # JSON cannot write it
            continue
        fates[monitor is not None] += 1
        if monitor is not None:
            monitor.observe(0.0, rng.normal(-1.0, 3.0, 700)).restart().observe(1.0, 2.0)
            assert len(monitor.evidence) <= MOST_SPANS
            assert np.isfinite(monitor.evidence.to_numpy()).all()
            assert str(monitor) == str(monitor.copy())
            assert checked(packed(monitor), path) is not None
    assert min(fates) > 50


# Histories


def history(n: int = 700) -> Spans:
    spans = Spans({"payoff": "sum", "level": "last"})
    spans.add(np.random.default_rng(0).normal(size=(n, 2)))
    return spans


@pytest.mark.parametrize("n", [0, 1, 512, 513, 700])
def test_a_history_comes_back_to_the_bit(n: int) -> None:
    spans, arrays = history(n), dict[str, Any]()
    plain = json.loads(json.dumps(pack_spans(spans, arrays, "key")))
    assert check_spans(Shelf(arrays), Part(plain), "key") == n
    again = unpack_spans(plain, arrays, "key")
    for each in (spans, again):
        each.add(np.ones((600, 2)))
    pd.testing.assert_frame_equal(again.frame(), spans.frame(), check_exact=True)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([["payoff", "mean"], ["level", "last"]], r"columns\.0\.1 must be one of 'sum', 'last', 'max'"),
        ([["payoff", "sum"], ["payoff", "last"]], "columns must have distinct names"),
        ([["first", "sum"], ["level", "last"]], r"columns\.0\.0 must be another name"),
        ([["payoff", "sum"], ["level"]], r"columns\.1 must be a name and how its rows are joined"),
        ([[3, "sum"], ["level", "last"]], r"columns\.0\.0 must be text"),
        (["payoff", "level"], r"columns\.0 must be a list"),
        ([["payoff", "sum"]], "key/values must be an array of numbers, any × 1 long"),
        (None, "columns must be a list"),
    ],
)
def test_a_history_of_other_columns_is_refused(columns: Any, words: str) -> None:
    arrays: dict[str, Any] = {}
    pack_spans(history(), arrays, "key")
    with pytest.raises(Wrong, match=words):
        check_spans(Shelf(arrays), Part({"columns": columns}), "key")
