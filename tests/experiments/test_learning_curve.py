"""Learning curves: every point is what it says, findings follow from points, and a run goes on where it was left."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble.exceptions import FileError, InputError
from optensemble.experiments import Experiment
from optensemble.experiments.learning_curve import store, sweep, text
from optensemble.experiments.learning_curve.figure import curve_figure
from optensemble.experiments.learning_curve.points import (
    JOINT,
    METHODS,
    ROUND_ROBIN,
    STACKING,
    STAGES,
    CurvePoint,
    LearningCurve,
    first_size,
)
from optensemble.experiments.learning_curve.section import curve_section
from optensemble.experiments.outcome import (
    DECISION_ENSEMBLE,
    FORESIGHT,
    PAPER_ENSEMBLES,
    RIDGE_STACKING,
    WHITE_BOX_ENSEMBLE,
)
from optensemble.experiments.reproduce import check_settings, find_finished, reproduce_paper
from optensemble.experiments.settings import CurveSettings, Settings
from optensemble.experiments.text import repeat_command
from tests.experiments.curves import FORESEEN, made_up_curve, made_up_point

SMALL = Settings(rows=120, rounds=60, fresh_rows=400, training_rows=400)
CURVE = CurveSettings(sizes=(130, 300), joint_rounds=3)
NAMES = ("A", "C")


def same(ours: CurvePoint, theirs: CurvePoint) -> None:
    """To the last bit, seconds apart."""
    seconds = {"fit_seconds": 0, "evaluation_seconds": 0}
    np.testing.assert_equal(dataclasses.asdict(ours) | seconds, dataclasses.asdict(theirs) | seconds)


# A run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("curves")
    reproduce_paper(folder, SMALL, NAMES, learning_curve=CURVE)
    return folder


@pytest.fixture(scope="module")
def curves(folder: Path) -> list[LearningCurve]:
    loaded = [store.load_curve(folder, name, SMALL, CURVE) for name in NAMES]
    return [curve for curve in loaded if curve is not None]


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    from optensemble.experiments import make_experiment

    return make_experiment("A", SMALL.seed, training_rows=SMALL.training_rows)


def point_of(curves: list[LearningCurve], policy: str, stage: str) -> CurvePoint:
    return curves[0].line(policy, stage)[-1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")
@pytest.mark.parametrize(("stage", "rounds"), [(JOINT, 3), (ROUND_ROBIN, 60)])
@pytest.mark.parametrize("policy", PAPER_ENSEMBLES)
def test_the_papers_points_are_made_of_public_answers(
    policy: str, stage: str, rounds: int, curves: list[LearningCurve], experiment: Experiment
) -> None:
    omega, point = experiment.feasible, point_of(curves, policy, stage)
    options: dict[str, Any] = {"schedule": stage, "max_rounds": rounds, "validation": None}
    policies: list[Any] = [(name, lambda X, model=model: omega.argmax(model(X))) for name, model in experiment.models]
    ensemble = (
        oe.WhiteBoxEnsemble(experiment.models, omega, **options)
        if policy == WHITE_BOX_ENSEMBLE
        else oe.BlackBoxEnsemble(policies, omega, **options)
    )
    ensemble.fit(*experiment.draw(CURVE.sizes[-1], SMALL.seed + 1))
    X, Y = experiment.draw(SMALL.fresh_rows, SMALL.seed + 2)
    realised = (ensemble.decide(X) * Y).sum(axis=1)
    assert point.promised == pytest.approx(ensemble.self_assess(X).mean())
    assert point.realised == pytest.approx(realised.mean())
    assert point.realised_error == pytest.approx(realised.std(ddof=1) / np.sqrt(len(realised)))
    lemmas = ensemble.guarantees_.drop_duplicates("lemma").set_index("lemma")["bound"]
    bounds = ("Lemma 7", "Lemma 9") if policy == WHITE_BOX_ENSEMBLE else ("Corollary 1", "Lemma 4")
    assert (point.gap_bound, point.regret_bound) == tuple(lemmas[list(bounds)])
    if policy == WHITE_BOX_ENSEMBLE:
        chosen, taken = ensemble.choose(X), [omega.argmax(each) for each in ensemble.predict_members(X)]
        payoffs = np.array([(actions * Y).sum(axis=1) for actions in taken])
        best = sum(max(payoffs[:, chosen == i].sum(axis=1)) for i in range(len(payoffs)))
    else:
        best = max(realised.sum(), *((given(X) * Y).sum() for _, given in policies))
    assert point.regret == pytest.approx((best - realised.sum()) / len(Y))


@pytest.mark.slow
def test_a_size_has_the_rows_of_a_run_with_as_many(folder: Path, curves: list[LearningCurve], tmp_path: Path) -> None:
    size = CURVE.sizes[0]
    (outcome,) = reproduce_paper(tmp_path, dataclasses.replace(SMALL, rows=size), ["A"]).outcomes
    for policy, stage in METHODS:
        if stage != JOINT:
            point, payoff = curves[0].line(policy, stage)[0], outcome.payoff("fresh rows", policy)
            assert (point.promised, point.realised) == pytest.approx((payoff.promised, payoff.realised))
    assert curves[0].foresight == pytest.approx(outcome.payoff("fresh rows", FORESIGHT).realised)
    (point,) = [point for point in curves[0].line(DECISION_ENSEMBLE, STACKING) if point.rows == size]
    assert (point.low, point.high) == pytest.approx((outcome.audit.low, outcome.audit.high))


@pytest.mark.slow
def test_a_run_leaves_figure_table_and_a_section_of_the_page(folder: Path, curves: list[LearningCurve]) -> None:
    assert {"learning_curve.png", "learning_curve.svg", "learning_curve.csv"} <= {p.name for p in folder.iterdir()}
    table = pd.read_csv(folder / "learning_curve.csv")
    points = json.loads((folder / "results.json").read_bytes())["learning_curve"]["points"]
    assert len(table) == len(points) == len(NAMES) * len(CURVE.sizes) * (len(METHODS) + 1)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert 'id="curve"' in page
    assert 'href="#curve"' in page
    assert "--learning-curve --sizes 130,300 --joint-rounds 3" in page
    for sentence in text.summary_lines(curves, CURVE):
        assert sentence.replace("'", "&#x27;") in page


@pytest.mark.slow
def test_what_is_on_disk_is_not_run_again_and_more_sizes_are_added(
    folder: Path, curves: list[LearningCurve], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(name: str | None, phase: str, share: float) -> None:
        if (name, phase) == ("C", sweep.phase_of(JOINT, 130)):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce_paper(tmp_path, SMALL, NAMES, learning_curve=CURVE, tell=interrupt)
    assert find_finished(tmp_path, NAMES) == [*NAMES, *(f"points of {name}'s learning curve" for name in NAMES)]
    assert not (tmp_path / "report.html").exists()
    begun = store.load_curve(tmp_path, "A", SMALL, CURVE)
    assert begun is not None
    assert [(stage, size) for stage in STAGES for size in CURVE.sizes if begun.at(stage, size)] == [
        (STACKING, 130),
        (STACKING, 300),
        (JOINT, 130),
    ]
    fitted = list[tuple[str, str, int]]()
    measure = sweep._Sweep.points

    def counted(self: sweep._Sweep, name: str, stage: str, size: int, tell: object) -> list[CurvePoint]:
        fitted.append((name, stage, size))
        return measure(self, name, stage, size, tell)  # type: ignore[arg-type]

    monkeypatch.setattr(sweep._Sweep, "points", counted)
    result = reproduce_paper(tmp_path, SMALL, NAMES, learning_curve=CURVE, resume=True)
    assert ("A", JOINT, 130) not in fitted
    assert ("C", JOINT, 130) in fitted
    for ours, theirs in zip(result.curves, curves, strict=True):
        for a, b in zip(ours.points, theirs.points, strict=True):
            same(a, b)
    fitted.clear()
    fewer = dataclasses.replace(CURVE, sizes=(300,), minutes=1.0)
    assert reproduce_paper(tmp_path, SMALL, NAMES, learning_curve=fewer, resume=True).curves[0].sizes == [300]
    assert fitted == []


# Points on disk


def test_a_curve_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    curve = made_up_curve("B")
    store.save_curve(tmp_path, curve, SMALL, CURVE)
    loaded = store.load_curve(tmp_path, "B", SMALL, dataclasses.replace(CURVE, sizes=(7000,), minutes=1.0))
    assert loaded is not None
    for ours, theirs in zip(loaded.points, curve.points, strict=True):
        same(ours, theirs)
    assert store.load_curve(tmp_path, "C", SMALL, CURVE) is None


def test_a_curve_of_other_settings_or_a_malformed_one_is_refused(tmp_path: Path) -> None:
    store.save_curve(tmp_path, made_up_curve(), SMALL, CURVE)
    with pytest.raises(FileError, match=r"learning_curve_A.json was run with joint rounds 3, not 4\. .*--resume"):
        store.load_curve(tmp_path, "A", SMALL, dataclasses.replace(CURVE, joint_rounds=4))
    path = store.path_of(tmp_path, "A")
    document = json.loads(path.read_bytes())
    for change in ({"policy": "oracle"}, {"realised": None}, {"rows": "many"}, {"stage": ROUND_ROBIN}):
        broken = [{**document["points"][0], **change}, *document["points"][1:]]
        path.write_text(json.dumps({**document, "points": broken}))
        with pytest.raises(FileError, match="is not a whole experiment"):
            store.load_curve(tmp_path, "A", SMALL, CURVE)


# The order of work, and its time


class FakeSweep:
    """Makes points at once, each of which seems to have taken a millisecond for each row."""

    def __init__(self, *args: object) -> None:
        pass

    def points(self, name: str, stage: str, size: int, tell: object) -> list[CurvePoint]:
        methods = [method for method in METHODS if method[1] == stage]
        foresight = made_up_curve(sizes=[size], gaps=[0.0], methods=[]).points if stage == STACKING else ()
        return [*foresight, *(made_up_point(size, policy, stage, 0.0) for policy, _ in methods)]


def traced(folder: Path, seconds: float, monkeypatch: pytest.MonkeyPatch) -> list[LearningCurve]:
    how = CurveSettings(sizes=(1000, 2000, 40_000, 50_000))
    monkeypatch.setattr(sweep, "_Sweep", FakeSweep)

    def make(name: str) -> Experiment:
        raise AssertionError(f"{name} is not needed")

    told = list[tuple[str, str, float]]()
    deadline = time.perf_counter() + seconds
    curves = sweep.trace_curves(
        folder, NAMES, SMALL, how, make, deadline=deadline, tell=lambda *done: told.append(done)
    )
    assert {(name, phase) for name, phase, share in told if share == 1} == {
        (name, sweep.phase_of(stage, size)) for name in NAMES for stage in STAGES for size in how.sizes
    }
    return curves


@pytest.mark.parametrize(
    ("seconds", "sizes"), [(-1.0, [1000]), (60.0, [1000, 2000]), (1000.0, [1000, 2000, 40_000, 50_000])]
)
def test_what_would_take_too_long_is_left_out_and_all_that_is_larger(
    seconds: float, sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curves = traced(tmp_path, seconds, monkeypatch)  # 2 experiments of 2 points, each with a second for 1,000 rows
    for curve in curves:
        assert [[point.rows for point in curve.line(*method)] for method in METHODS] == [sizes] * len(METHODS)
    missing = [size for size in (1000, 2000, 40_000, 50_000) if size not in sizes]
    assert sweep.left_out(curves, (1000, 2000, 40_000, 50_000)) == (dict.fromkeys(STAGES, missing) if missing else {})
    how = CurveSettings(sizes=(1000, 2000, 40_000, 50_000), minutes=2.0)
    said = text.left_out_sentence(curves, how)
    for size in missing:
        assert f"{size:,}" in said
    assert ("not have fitted into 2 minutes" in said) == bool(missing)


def test_fits_are_expected_to_grow_with_the_rows_and_evaluations_to_stay() -> None:
    curve = made_up_curve(sizes=[1000, 3000], gaps=[0, 0])  # a second for 1,000 rows, and one for the fresh rows
    assert sweep.expected_seconds(curve, JOINT, 9000) == pytest.approx(2 * (9 + 1))
    assert sweep.expected_seconds(curve, JOINT, 1000) == 0
    assert sweep.expected_seconds(LearningCurve("A"), JOINT, 1000) == 0


# What is found


def test_something_holds_from_the_size_after_the_last_at_which_it_does_not() -> None:
    line = [
        made_up_point(rows, WHITE_BOX_ENSEMBLE, JOINT, gap) for rows, gap in [(1, 0.0), (2, 5.0), (3, 0.0), (4, 0.0)]
    ]
    assert first_size(line, lambda point: point.gap < 1) == 3
    assert first_size(line, lambda point: point.gap < 9) == 1
    assert first_size(line, lambda point: point.gap > 9) is None
    assert first_size(line[:2], lambda point: point.gap < 1) is None
    assert first_size([], lambda point: True) is None


@pytest.mark.parametrize(
    ("gap", "error", "is_true"),
    [(0.09, 0.01, True), (-0.09, 0.01, True), (0.11, 0.01, False), (-0.11, 0.01, False), (0.5, 0.3, True)],
)
def test_a_promise_is_true_within_a_percent_of_foresight_or_two_standard_errors(
    gap: float, error: float, is_true: bool
) -> None:
    point = dataclasses.replace(made_up_point(400, RIDGE_STACKING, STACKING, gap), gap_error=error)
    assert FORESEEN == 10
    assert made_up_curve().is_true(point) == is_true


def test_the_sentences_say_from_where_on_promises_are_true_and_bounds_hold() -> None:
    curves = [made_up_curve("A"), made_up_curve("B", gaps=(2.0, 2.0, 2.0)), made_up_curve("C", gaps=(0.0, 0.0, 0.0))]
    white, *_ = text.promise_sentences(curves)
    assert white.startswith(
        "White box, joint: the promise is true from 400 rows on in C; from 10,000 rows on in A; with no number of rows "
        "tried in B. With 10,000 rows: 8.00 promised and 7.95 realised in A, 8.00 promised and 6.00 realised in B"
    )
    assert len(text.promise_sentences(curves)) == len(METHODS)
    bounds = text.bound_sentence(curves)  # a gap of 2 breaks the bound of 1: in A once, in B thrice, for four methods
    assert "in 20 of 36 fits, and the regret in 36." in bounds
    assert "0.1 times all that foresight earns. 20 of the fits converged" in bounds
    assert "kept 5 of 9" in text.interval_sentence(curves)  # an interval from 7 holds 8 less 0.5, not less 2
    assert "white box, joint in no experiment" in text.ridge_sentence(curves)


def test_methods_that_were_not_fitted_everywhere_are_neither_drawn_nor_spoken_of() -> None:
    curves = [made_up_curve("A"), made_up_curve("B", methods=METHODS[2:])]
    assert text.fitted_methods(curves) == list(METHODS[2:])
    assert not any("white box" in line.label for line in curve_figure(curves).lines)
    assert not any("White box" in sentence for sentence in text.summary_lines(curves, CurveSettings()))
    alone = [made_up_curve("A", methods=[(RIDGE_STACKING, STACKING), (DECISION_ENSEMBLE, STACKING)])]
    assert text.bound_sentence(alone) == ""


def test_every_line_of_the_figure_is_what_its_legend_says() -> None:
    from optensemble.experiments.figures import draw_panel
    from optensemble.report.drawing import style

    curve = made_up_curve()
    picture = curve_figure([curve])
    with style():
        axes = draw_panel(picture, curve).axes[0]
    drawn: dict[Any, Any] = {
        (line.get_color(), line.get_linestyle(), line.get_marker()): np.asarray(line.get_ydata()) for line in axes.lines
    }
    assert len(drawn) == len(picture.lines) == 1 + 2 * len(METHODS)
    labels = [line.label for line in picture.lines]
    assert len(set(labels)) == len(labels)
    for line in picture.lines[1:]:
        what = "promised" if "promised" in line.label else "realised"
        ((policy, stage),) = [method for method in METHODS if line.label.startswith(text.method_name(*method))]
        expected = [getattr(point, what) for point in curve.line(policy, stage)]
        np.testing.assert_array_equal(drawn[line.colour, line.dashes, line.marker], expected)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["400", "2k", "10k"]


def test_the_section_has_every_point() -> None:
    curves = [made_up_curve("A"), made_up_curve("C")]
    page = "".join(curve_section(curves, Settings(), CurveSettings()))
    assert page.count("<tr") == (2 + 2 * len(METHODS)) + 2 * (2 + 3 * len(METHODS))  # with two rows of headings each
    assert page.count("<svg") >= 2


# Settings


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sizes": ()}, "sizes must be numbers of rows, ascending; got none"),
        ({"sizes": (2000, 400)}, "ascending; got 2000, 400"),
        ({"sizes": (10,)}, "sizes must be a whole number at least 100; got 10"),
        ({"joint_rounds": 0}, "joint rounds must be"),
        ({"minutes": 0.0}, "minutes must be"),
    ],
)
def test_invalid_settings_are_refused(change: dict[str, object], words: str, tmp_path: Path) -> None:
    how = dataclasses.replace(CURVE, **change)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=words):
        reproduce_paper(tmp_path / "out", SMALL, learning_curve=how)
    assert not (tmp_path / "out").exists()


def test_a_curve_of_training_rows_is_refused() -> None:
    with pytest.raises(InputError, match=r"held out from training; leave out --debias-on train"):
        check_settings(dataclasses.replace(SMALL, debias_on="train"), CURVE)


def test_the_command_that_repeats_a_run_has_what_is_not_as_usual() -> None:
    usual = repeat_command(Settings(), tuple("ABCD"), CurveSettings())
    assert usual == "optensemble reproduce --seed 42 --learning-curve"
    given = repeat_command(Settings(), tuple("ABCD"), CurveSettings(sizes=(400, 2000), joint_rounds=9, minutes=2.5))
    assert given == f"{usual} --sizes 400,2000 --joint-rounds 9 --minutes 2.5"
