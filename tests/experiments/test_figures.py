"""Figures: every line is the data its legend says, and nothing is lost on the way into a file."""

from __future__ import annotations

import struct
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from optensemble.experiments.figures import (
    ExperimentFigure,
    LineStyle,
    draw_files,
    draw_grid,
    draw_panel,
    experiment_figures,
)
from optensemble.experiments.outcome import (
    BEST_INITIAL,
    DECISION_ENSEMBLE,
    FORESIGHT,
    FRESH,
    IN_SAMPLE,
    RIDGE_STACKING,
    Outcome,
)
from optensemble.report.drawing import style
from tests.experiments.conftest import Finished
from tests.experiments.outcomes import made_up

pytestmark = pytest.mark.slow

WHERE = {"payoffs": IN_SAMPLE, "payoffs_fresh": FRESH, "members": IN_SAMPLE, "members_fresh": FRESH}
OF_LINES = pytest.mark.parametrize("name", WHERE)


def picture_of(name: str, outcome: Outcome) -> ExperimentFigure[Outcome]:
    (picture,) = [picture for picture in experiment_figures([outcome]) if picture.name == name]
    return picture


def drawn(name: str, outcome: Outcome) -> Axes:
    with style():
        return draw_panel(picture_of(name, outcome), outcome).axes[0]


def line_of(axes: Axes, stroke: LineStyle) -> Any:
    """The one line that looks as the legend says."""
    (line,) = [
        line
        for line in axes.lines
        if to_hex(line.get_color()) == to_hex(stroke.colour) and line.get_linestyle() == stroke.dashes
    ]
    return line


@pytest.fixture(params=["made up", "A", "D"])
def outcome(request: pytest.FixtureRequest, finished: Finished) -> Outcome:
    return made_up("B") if request.param == "made up" else finished.outcome(request.param)


@OF_LINES
def test_every_line_is_what_the_legend_says(name: str, outcome: Outcome) -> None:
    axes, picture, where = drawn(name, outcome), picture_of(name, outcome), WHERE[name]
    curves = outcome.curves[where]
    assert len(axes.lines) == len(picture.lines)
    for stroke in picture.lines:
        line = line_of(axes, stroke)
        if stroke.label in (FORESIGHT, BEST_INITIAL, RIDGE_STACKING):
            assert set(line.get_ydata()) == {outcome.payoff(where, stroke.label).realised}
            assert line.get_xdata() == [0, 1]  # from edge to edge
            continue
        if stroke.label.startswith(DECISION_ENSEMBLE):
            what = "promised" if stroke.band else "realised"
            assert what in stroke.label
            assert set(line.get_ydata()) == {getattr(outcome.payoff(where, DECISION_ENSEMBLE), what)}
            assert line.get_xdata() == [0, 1]
            continue
        column = stroke.label
        if name.startswith("members"):
            column = f"{outcome.members[int(stroke.label.rsplit(' ', 1)[1])]}, realised"
        np.testing.assert_array_equal(line.get_xdata(), curves["round"])
        np.testing.assert_array_equal(line.get_ydata(), curves[column])


def test_the_interval_of_a_promise_is_a_band_from_edge_to_edge(outcome: Outcome) -> None:
    axes, audit = drawn("payoffs_fresh", outcome), outcome.audit
    (stroke,) = [stroke for stroke in picture_of("payoffs_fresh", outcome).lines if stroke.band]
    band: Any = axes.patches[0]
    assert (band.get_x(), band.get_width()) == (0, 1)
    assert (band.get_y(), band.get_height()) == pytest.approx((audit.low, audit.high - audit.low))
    assert to_hex(band.get_facecolor()) == to_hex(stroke.colour)
    assert 0 < band.get_facecolor()[3] < 0.5  # lines can be seen through it
    assert len(axes.patches) == 1
    assert not drawn("payoffs", outcome).patches


def test_lines_that_coincide_with_the_answer_lie_on_top_of_it(outcome: Outcome) -> None:
    axes = drawn("payoffs_fresh", outcome)
    lines = {stroke.label: stroke for stroke in picture_of("payoffs_fresh", outcome).lines}
    ours, ridge = (line_of(axes, lines[label]) for label in (f"{DECISION_ENSEMBLE}, realised", RIDGE_STACKING))
    assert ours.get_zorder() == ridge.get_zorder()
    assert axes.lines.index(ours) < axes.lines.index(ridge)
    assert ours.get_linewidth() > 1.5 * ridge.get_linewidth()


@pytest.mark.parametrize(("name", "ensembles"), [("payoffs", 2), ("payoffs_fresh", 3)])
def test_promises_are_dashed_and_earnings_solid_and_an_ensemble_has_one_colour(name: str, ensembles: int) -> None:
    lines = [stroke for stroke in picture_of(name, made_up()).lines if ", " in stroke.label]
    said = {(stroke.label.split(", ")[1].split(" (")[0], stroke.dashes) for stroke in lines}
    assert said == {("promised", "--"), ("realised", "-")}
    colours = {(stroke.label.split(", ")[0], stroke.colour) for stroke in lines}
    assert len(colours) == len({colour for _, colour in colours}) == ensembles
    levels = {stroke.colour for stroke in picture_of(name, made_up()).lines if ", " not in stroke.label}
    assert len(levels | {colour for _, colour in colours}) == 3 + ensembles


@pytest.mark.parametrize("name", ["payoffs", "members"])
def test_panels_in_and_out_of_sample_have_the_same_range_and_hide_nothing(name: str, outcome: Outcome) -> None:
    panels = [drawn(name, outcome), drawn(f"{name}_fresh", outcome)]
    assert panels[0].get_ylim() == panels[1].get_ylim()
    assert panels[0].get_xlim() == panels[1].get_xlim() == (0, outcome.curves[IN_SAMPLE]["round"].max())
    values = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for axes in panels for line in axes.lines])
    if name == "payoffs":
        values = np.append(values, [outcome.audit.low, outcome.audit.high])
    low, high = panels[0].get_ylim()
    assert low < values.min() < values.max() < high
    assert high - low < 1.2 * np.ptp(values)


def test_choices_are_shares_of_rows(outcome: Outcome) -> None:
    axes, curves = drawn("choices", outcome), outcome.curves[IN_SAMPLE]
    (image,) = axes.images
    shares = np.stack([curves[f"{member}, chosen"] for member in outcome.members])
    np.testing.assert_array_equal(image.get_array(), shares)
    np.testing.assert_allclose(shares.sum(axis=0), 1)
    assert image.get_clim() == (0, 1)
    assert list(image.get_extent()) == [0, curves["round"].max(), 0, len(outcome.members)]
    assert image.origin == "lower"
    centres = dict(zip(axes.get_yticks().tolist(), [tick.get_text() for tick in axes.get_yticklabels()], strict=True))
    assert centres == {i + 0.5: member for i, member in enumerate(outcome.members)}


def test_disagreement_is_shown_as_it_is_with_most_on_top(outcome: Outcome) -> None:
    axes = drawn("disagreement", outcome)
    (image,) = axes.images
    shown = np.asarray(image.get_array())
    np.testing.assert_array_equal(shown, outcome.disagreement.T)
    assert (np.diff(shown, axis=0) >= 0).all()
    assert image.origin == "lower"
    assert image.get_clim() == (0, outcome.disagreement.max())


@pytest.mark.parametrize("names", ["A", "AB", "ABC", "ABCD"])
def test_a_whole_figure_has_a_panel_for_each_experiment_and_one_legend(names: str) -> None:
    outcomes = [made_up(name) for name in names]
    for picture in experiment_figures(outcomes):
        with style():
            figure = draw_grid(picture, outcomes)
        panels = [axes for axes in figure.axes if axes.get_xlabel()]
        assert [axes.get_title(loc="left")[:2] for axes in panels] == [f"{name}:" for name in names]
        assert len({axes.get_title(loc="left") for axes in panels}) == len(names)
        assert figure.get_suptitle() == picture.title
        legends = [[text.get_text() for text in legend.get_texts()] for legend in figure.legends]
        assert legends == ([[stroke.label for stroke in picture.lines]] if picture.lines else [])


def test_figures_are_as_many_as_their_names_and_titles(finished: Finished) -> None:
    found = experiment_figures(finished.result.outcomes)
    assert len(found) == len({picture.name for picture in found}) == len({picture.title for picture in found}) == 6
    assert len([stroke for stroke in found[2].lines if stroke.label != FORESIGHT]) == 5


def test_the_same_outcomes_give_the_same_files_as_pictures_and_drawings(finished: Finished) -> None:
    shares, names = [], []
    for share, name, content in draw_files(finished.result.outcomes):
        assert content == (finished.folder / name).read_bytes(), name
        if name.endswith(".png"):
            assert content.startswith(b"\x89PNG\r\n\x1a\n")
            width, height = struct.unpack(">II", content[16:24])
            assert 1400 < width < 1600
            assert 500 < height < 800
        else:
            root = ElementTree.fromstring(content)
            assert root.tag == "{http://www.w3.org/2000/svg}svg"
            texts = {"".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")}
            assert {"rounds of debiasing", "A: members by label, risk limit"} <= texts
        shares.append(share)
        names.append(name)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert len(set(names)) == 12


def test_drawing_leaves_the_users_settings_alone() -> None:
    before = dict(mpl.rcParams)
    with style():
        draw_panel(picture_of("payoffs", made_up()), made_up())
        assert dict(mpl.rcParams) != before
    assert dict(mpl.rcParams) == before
