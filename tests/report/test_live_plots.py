"""The plots of a LiveEnsemble and of a Monitor: what the axes hold, against series computed beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import InputError, RefitWarning
from optensemble.report.drawing import INK, PAPER, new_figure, style

pytestmark = pytest.mark.slow

Floats = npt.NDArray[np.float64]
STEP = 20


@pytest.fixture(autouse=True)
def _figures_are_closed() -> Iterator[None]:
    mpl.use("Agg")
    yield
    pyplot.close("all")


@dataclass
class Run:
    """A live ensemble, and what was seen of each row while it went on."""

    live: oe.LiveEnsemble
    X: Floats
    Y: Floats
    earned: Floats
    promised: Floats
    weights: list[Floats] = field(default_factory=list)
    corrections: list[float] = field(default_factory=list)

    @property
    def known(self) -> int:
        return len(self.weights)


class Models:
    """Two models that see one feature each; they fail on demand."""

    fails = False

    def __call__(self, column: int) -> Any:
        def predict(X: Floats) -> Floats:
            if self.fails:
                raise RuntimeError("out of order")
            return np.asarray(X * np.eye(2)[column])

        return predict

    def named(self) -> list[Any]:
        return [("left", self(0)), ("right", self(1))]


def drawn_world(n: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, X + rng.normal(scale=0.5, size=X.shape)


def started(*, sense: str = "max", models: Models | None = None, **options: Any) -> oe.LiveEnsemble:
    given: Any = (Models() if models is None else models).named()
    ensemble = oe.DecisionEnsemble(models=given, feasible=feasible.Simplex(2), sense=sense)
    return oe.LiveEnsemble(ensemble.fit(*drawn_world(120, 0)), **options)


def followed(live: oe.LiveEnsemble, n: int, *, late: int = 0, breaks: bool = False) -> Run:
    """Go on over n rows, whose labels come a number of rows late; from the middle on labels turn around, or do not."""
    X, Y = drawn_world(n, 1)
    if breaks:
        Y[n // 2 :] *= -1
    run = Run(live, X, Y, np.empty(n), np.empty(n))
    for start in range(0, n, STEP):
        rows = slice(start, start + STEP)
        answer = live.answer(X[rows], ids=range(start, start + STEP))
        run.earned[rows], run.promised[rows] = (answer.actions * Y[rows]).sum(axis=1), answer.promised
        if (known := start - late) >= 0:
            live.observe(ids=range(known, known + STEP), Y=Y[known : known + STEP])
            run.weights += [live.weights_] * STEP
            run.corrections += [live.correction_] * STEP
    return run


@cache
def plain() -> Run:
    return followed(started(refit=60), 200)


@cache
def late() -> Run:
    return followed(started(refit=60, sense="min"), 240, late=40)


@cache
def many() -> Run:
    return followed(started(refit="never"), 640, breaks=True)


RUNS = {"plain": plain, "late, of costs": late, "many rows": many}


def panels(figure: Figure) -> list[Axes]:
    figure.draw_without_rendering()
    return figure.axes


def line_of(axes: Axes, label: str) -> Line2D:
    (found,) = [line for line in axes.lines if line.get_label() == label]
    return found


def xy(line: Line2D) -> tuple[Floats, Floats]:
    return np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)


def marks(axes: Axes, *, dotted: bool = False) -> list[float]:
    """The rows of vertical marks, dashed and dotted ones or solid ones."""
    found: list[Any] = [each for each in axes.collections if isinstance(each, LineCollection)]
    chosen = [each for each in found if (each.get_linestyle()[0][1] is not None) == dotted]
    return sorted(float(segment[0][0]) for each in chosen for segment in each.get_segments())


def legend(axes: Axes) -> list[str]:
    shown = axes.get_legend()
    return [] if shown is None else [text.get_text() for text in shown.get_texts()]


def spans_end(run: Run) -> npt.NDArray[np.int64]:
    """The last row of each span: 512 of them at most, whose length is a power of two."""
    length = 1
    while run.known > 512 * length:
        length *= 2
    ends = np.arange(length - 1, run.known + length - 1, length)
    return np.minimum(ends, run.known - 1)


@pytest.mark.parametrize("name", RUNS)
def test_payoffs_are_means_over_the_rows_so_far(name: str) -> None:
    run = RUNS[name]()
    live, ends = run.live, spans_end(run)
    axes, cost = panels(live.plot())[0], live.ensemble_.sense == "min"
    Y, so_far = run.Y[: run.known], np.arange(1, run.known + 1)
    alone = (np.asarray(live.ensemble_.decide(run.X))[: run.known] * Y).sum(axis=1)
    expected = {
        "paid" if cost else "earned": run.earned[: run.known],
        "with foresight": Y.min(axis=1) if cost else Y.max(axis=1),
        "fitted": alone,
    }
    for label, each in expected.items():
        at, mean = xy(line_of(axes, label))
        assert at == pytest.approx(ends)
        assert mean == pytest.approx((each.cumsum() / so_far)[ends])
    assert axes.get_title("left") == f"Mean {'cost' if cost else 'payoff'} so far"
    assert sorted(legend(axes)) == sorted([*live.policies_, "with foresight", "paid" if cost else "earned"])


@pytest.mark.parametrize("name", RUNS)
def test_lines_end_as_far_apart_as_the_certificate_says(name: str) -> None:
    live = RUNS[name]().live
    axes, sign = panels(live.plot())[0], -1 if live.ensemble_.sense == "min" else 1
    ends = {str(line.get_label()): float(xy(line)[1][-1]) for line in axes.lines}
    earned = ends["paid" if sign < 0 else "earned"]
    lost = [sign * (ends[policy] - earned) for policy in live.policies_]
    assert lost == pytest.approx(live.certificate()["lost_per_row"].tolist(), abs=1e-12)
    assert legend(axes) == sorted(ends, key=lambda label: -ends[label])
    low, high = axes.get_ylim()
    assert all(low < end < high for end in ends.values())


@pytest.mark.parametrize("name", RUNS)
def test_weights_are_stacked(name: str) -> None:
    run = RUNS[name]()
    live, ends = run.live, spans_end(run)
    axes = panels(live.plot())[1]
    areas = [each for each in axes.collections if not isinstance(each, LineCollection)]
    tops = np.cumsum(run.weights, axis=1)[ends]
    assert [each.get_label() for each in areas] == list(live.policies_)
    for number, area in enumerate(areas):
        corners = np.asarray(area.get_paths()[0].vertices)
        highest = [corners[corners[:, 0] == row, 1].max() for row in ends]
        assert highest == pytest.approx(tops[:, number])
    assert legend(axes)[: len(areas)] == list(reversed(live.policies_))


@pytest.mark.parametrize("name", RUNS)
def test_promised_and_realised_are_means_of_the_last_rows(name: str) -> None:
    run = RUNS[name]()
    ends = spans_end(run)
    axes, length = panels(run.live.plot())[2], int(ends[0]) + 1
    window = max(len(ends) // 16, 1) * length
    assert axes.get_title("left") == f"Promised and realised, mean of the last {window} rows"

    def latest(values: Floats) -> list[float]:
        first = [max((end // length + 1) * length - window, 0) for end in ends]
        return [float(values[start : end + 1].mean()) for start, end in zip(first, ends, strict=True)]

    promised, realised = latest(run.promised), latest(run.earned)
    assert xy(line_of(axes, "promised"))[1] == pytest.approx(promised)
    assert xy(line_of(axes, "realised"))[1] == pytest.approx(realised)
    (band,) = [each for each in axes.collections if each.get_label() == "tracked correction"]
    corners = np.asarray(band.get_paths()[0].vertices)
    heights = [np.ptp(corners[corners[:, 0] == row, 1]) for row in ends[1:-1]]
    assert heights == pytest.approx(np.abs(np.array(run.corrections)[ends[1:-1]]))


def test_evidence_shares_the_axis_if_the_monitor_looked_at_every_row() -> None:
    live = plain().live
    payoffs, _, promises, evidence = panels(live.plot())
    assert live.monitor is not None
    assert live.monitor.rows == live.rows_
    assert evidence.get_xlim() == payoffs.get_xlim()
    assert (promises.get_xlabel(), evidence.get_xlabel()) == ("", "labelled rows")
    payoffs.set_xlim(0, 10)
    assert evidence.get_xlim() == (0, 10)


def test_evidence_has_an_axis_of_its_own_if_it_did_not() -> None:
    live, (X, Y) = started(refit=60), drawn_world(200, 1)
    for start in range(0, 200, STEP):
        live.decide(X[start : start + STEP], ids=range(start, start + STEP))
        if start:
            live.observe(ids=range(start, start + STEP), Y=Y[start : start + STEP])
    live.observe(ids=range(STEP), Y=Y[:STEP])  # the fit that decided these is watched no more
    payoffs, _, promises, evidence = panels(live.plot())
    monitor = live.monitor
    assert monitor is not None
    assert 0 < monitor.rows < live.rows_
    looked = f"rows seen by the monitor ({monitor.rows} of {live.rows_})"
    assert (promises.get_xlabel(), evidence.get_xlabel()) == ("labelled rows", looked)
    payoffs.set_xlim(0, 10)
    assert evidence.get_xlim() == (0, monitor.rows - 1)
    assert marks(evidence) == list(monitor.restarts)


@pytest.mark.parametrize("name", RUNS)
def test_refits_are_marked_in_all_panels(name: str) -> None:
    live = RUNS[name]().live
    made = live.refits_["labels"].tolist()
    *others, evidence = panels(live.plot())
    assert all(marks(axes) == made for axes in others)
    assert live.monitor is not None
    assert marks(evidence) == list(live.monitor.restarts)
    assert ("refit" in legend(others[1])) == bool(made)


def test_a_refit_that_failed_is_marked_by_a_dotted_line() -> None:
    models = Models()
    live = started(models=models, refit=STEP)
    X, Y = drawn_world(2 * STEP, 2)
    for start in (0, STEP):
        live.decide(X[start : start + STEP], ids=range(start, start + STEP))
        models.fails = start > 0
        if models.fails:
            with pytest.warns(RefitWarning, match="out of order"):
                live.observe(ids=range(start, start + STEP), Y=Y[start : start + STEP])
        else:
            live.observe(ids=range(start, start + STEP), Y=Y[start : start + STEP])
    for axes in panels(live.plot())[:3]:
        assert (marks(axes), marks(axes, dotted=True)) == ([STEP], [2 * STEP])


def test_without_labels_the_plot_says_so() -> None:
    live = started()
    live.decide(drawn_world(5, 1)[0])
    figure = live.plot()
    assert [[text.get_text() for text in axes.texts] for axes in panels(figure)] == [
        *[["no labels have arrived yet"]] * 3,
        ["the monitor has not seen any rows yet"],
    ]
    assert figure.get_suptitle() == live.finding_


def test_without_a_monitor_the_plot_says_why() -> None:
    live = started(refit="never")
    live.monitor = None
    followed(live, 2 * STEP)
    *others, evidence = panels(live.plot())
    assert [text.get_text() for text in evidence.texts] == [
        "no monitor: the fit left no record out of fold to judge by"
    ]
    assert all(axes.lines or axes.collections for axes in others)


def test_the_title_is_the_certificate() -> None:
    for run in (plain(), late()):
        figure = run.live.plot()
        assert figure.get_suptitle().replace("\n", " ") == run.live.finding_


def test_rows_that_count_for_nothing_leave_gaps() -> None:
    live, (X, Y) = started(refit="never"), drawn_world(2 * STEP, 1)
    for start, weight in ((0, 0.0), (STEP, 1.0)):
        rows, ids = slice(start, start + STEP), range(start, start + STEP)
        live.decide(X[rows], ids=ids)
        live.observe(ids=ids, Y=Y[rows], sample_weight=np.full(STEP, weight))
    mean = xy(line_of(panels(live.plot())[0], "earned"))[1]
    assert np.isnan(mean[:STEP]).all()
    assert np.isfinite(mean[STEP:]).all()


def test_a_figure_given_is_drawn_into_and_pyplot_is_left_alone() -> None:
    before, figure = dict(mpl.rcParams), Figure(figsize=(7, 8))
    assert plain().live.plot(figure) is figure
    assert len(panels(figure)) == 4
    assert pyplot.get_fignums() == []
    own = plain().live.plot()
    assert pyplot.get_fignums() == [own.number]
    assert dict(mpl.rcParams) == before


def test_names_beside_the_panels_are_within_the_figure() -> None:
    figure = Figure(figsize=(7, 8))
    for axes in panels(plain().live.plot(figure)):
        shown = axes.get_legend()
        assert shown is not None
        assert shown.get_window_extent().x1 <= figure.bbox.x1


def test_what_is_no_empty_figure_is_refused() -> None:
    live = plain().live
    given: Any = pyplot.subplots()
    with pytest.raises(InputError, match=r"got Axes\. Give what plt\.figure"):
        live.plot(given[1])
    with pytest.raises(InputError, match=r"got one with 1 axes.*figure\.clear\(\)"):
        live.plot(given[0])
    given[0].clear()
    assert len(live.plot(given[0]).axes) == 4


def test_text_is_readable_on_a_dark_figure_and_on_our_own() -> None:
    live = plain().live
    with mpl.rc_context(), pyplot.style.context("dark_background"):
        for figure, ink in ((live.plot(), INK), (live.plot(pyplot.figure()), PAPER)):
            assert all(to_rgba(axes.get_facecolor())[3] == 0 for axes in panels(figure))
            texts = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text()]
            assert {to_hex(text.get_color()) for text in texts} == {ink}


# Monitors


def test_a_monitor_draws_its_evidence_in_both_directions() -> None:
    monitor = oe.Monitor(1.0).observe(0.0, np.random.default_rng(0).normal(size=700))
    axes, frame = monitor.plot(), monitor.evidence
    for direction in ("less", "more"):
        at, drawn = xy(line_of(axes, f"earned {direction} than promised"))
        assert at.tolist() == (frame["first"] + frame["rows"] - 1).tolist()
        assert np.log10(drawn) == pytest.approx(frame[direction].to_numpy())
    assert xy(line_of(axes, "threshold"))[1] == pytest.approx(monitor.threshold)
    assert legend(axes) == ["earned less than promised", "earned more than promised", "threshold"]
    assert axes.get_title() == "No alarm in 700 rows"


def test_alarms_onsets_and_restarts_are_marked() -> None:
    rng, monitor = np.random.default_rng(0), oe.Monitor(1.0, half_width=0.1, sense="min")
    for drop in (0.0, 1.0):
        monitor.observe(0.0, np.r_[rng.normal(size=200), rng.normal(-drop, size=200)]).restart()
    axes, alarms = monitor.plot(), monitor.alarms
    assert set(alarms["kind"]) == {"broken", "drifted"}
    at, height = xy(line_of(axes, "alarm"))
    assert at.tolist() == alarms["row"].drop_duplicates().tolist()
    assert height == pytest.approx(monitor.threshold)
    assert marks(axes, dotted=True) == sorted(alarms["onset"].unique())
    assert marks(axes) == list(monitor.restarts) == [400, 800]
    assert {"cost less than promised", "alarm", "its onset", "restart"} < set(legend(axes))


def test_a_monitor_of_one_direction_draws_one_line_in_its_colour() -> None:
    both = oe.Monitor(1.0).observe(0.0, 1.0).plot()
    alone = oe.Monitor(1.0, directions="more").observe(0.0, 1.0).plot()
    name = "earned more than promised"
    assert [str(line.get_label()) for line in alone.lines] == [name, "threshold"]
    assert line_of(alone, name).get_color() == line_of(both, name).get_color()


def test_a_monitor_that_has_looked_at_nothing_draws_the_threshold() -> None:
    axes = oe.Monitor(1.0).plot()
    assert axes.get_title() == "No alarm in 0 rows"
    assert len(xy(line_of(axes, "earned less than promised"))[0]) == 0


@pytest.mark.parametrize(("restarts", "hidden"), [(3, False), (100, True)])
def test_marks_are_short_where_they_are_many(restarts: int, hidden: bool) -> None:
    monitor = oe.Monitor(1.0)
    for _ in range(restarts):
        monitor.observe(0.0, 0.0).restart()
    (lines,) = [each for each in monitor.plot().collections if isinstance(each, LineCollection)]
    heights = {float(segment[1][1]) for segment in lines.get_segments()}
    assert len(lines.get_segments()) == restarts
    assert (max(heights) < 0.1) == hidden


def test_powers_of_ten_are_written_without_formulas() -> None:
    with style():  # where pictures are saved, math text is off
        figure = new_figure(5.0, 3.0)
        axes = oe.Monitor(1.0).observe(0.0, 1.0).plot(figure.subplots())
        figure.canvas.draw()
        ticks = {
            place: label.get_text() for place, label in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)
        }
    assert ticks[1.0] == "1"
    assert ticks[100.0] == "10²"
    assert not any("$" in text for text in ticks.values())
