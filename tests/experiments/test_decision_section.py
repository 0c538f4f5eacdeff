"""DecisionEnsemble on fresh rows, recomputed from public parts, and what is said of it."""

from __future__ import annotations

import re
from html import escape

import numpy as np
import pytest

import optensemble as oe
from optensemble.experiments import Experiment
from optensemble.experiments.decision_section import (
    ABOUT_DECISION,
    ABOUT_DECISION_COLUMNS,
    ABOUT_TRAINING_ROWS,
    audit_sentences,
    comparison_sentences,
    decision_section,
    decision_summary,
    promise_sentences,
)
from optensemble.experiments.outcome import (
    BEST_INITIAL,
    BLACK_BOX_ENSEMBLE,
    DECISION_ENSEMBLE,
    FORESIGHT,
    FRESH,
    IN_SAMPLE,
    POLICIES,
    RIDGE_STACKING,
    WHITE_BOX_ENSEMBLE,
    Outcome,
    way_error,
)
from optensemble.experiments.settings import Settings
from tests.experiments.conftest import NAMES, SMALL, Finished
from tests.experiments.outcomes import Pair, made_up
from tests.experiments.test_run import earn, expected, fit, rows_of
from tests.experiments.test_text import read_aloud

pytestmark = pytest.mark.slow

EACH = pytest.mark.parametrize("name", NAMES)


# The numbers


@EACH
def test_the_interval_is_what_was_promised_before_labels_were_seen(
    name: str, finished: Finished, experiments: dict[str, Experiment], honest: dict[str, oe.DecisionEnsemble]
) -> None:
    X, Y = rows_of(experiments[name], FRESH)
    promise, outcome = honest[name].promise(X), finished.outcome(name)
    audit, line = outcome.audit, outcome.payoff(FRESH, DECISION_ENSEMBLE)
    np.testing.assert_allclose([audit.low, audit.high], [promise.low, promise.high], rtol=1e-9)
    assert line.promised == pytest.approx(promise.mean, rel=1e-9)
    assert audit.kept == (promise.low <= earn(honest[name].decide(X), Y).mean() <= promise.high)


@EACH
def test_gains_are_differences_row_by_row(
    name: str, finished: Finished, experiments: dict[str, Experiment], honest: dict[str, oe.DecisionEnsemble]
) -> None:
    experiment, audit = experiments[name], finished.outcome(name).audit
    fitted = fit(experiment, *rows_of(experiment, IN_SAMPLE), SMALL.rounds_of(name))
    rows = expected(experiment, {**fitted, DECISION_ENSEMBLE: honest[name]}, FRESH)
    ours = rows.pop(DECISION_ENSEMBLE)[1]
    assert [*(gain.policy for gain in audit.gains), DECISION_ENSEMBLE] == [
        policy for policy in POLICIES if policy != FORESIGHT
    ]
    for policy, (_, theirs) in rows.items():
        gain = audit.gain_over(policy)
        assert gain.gain == pytest.approx((ours - theirs).mean(), rel=1e-6, abs=1e-9)
        spread = np.sqrt(np.mean((ours - theirs - (ours - theirs).mean()) ** 2) / (len(ours) - 1))
        assert gain.gain_error == pytest.approx(1.96 * spread, rel=1e-6, abs=1e-9)


@EACH
def test_the_audit_and_the_leaderboard_are_quoted(
    name: str, finished: Finished, experiments: dict[str, Experiment], honest: dict[str, oe.DecisionEnsemble]
) -> None:
    outcome = finished.outcome(name)
    audit = honest[name].audit(*rows_of(experiments[name], FRESH))
    assert (outcome.audit.verdict, outcome.audit.finding) == (audit.verdict, honest[name].finding_)
    assert outcome.audit.kept == audit.kept
    lift = audit.lift.set_index("rival").loc[outcome.best]
    assert outcome.audit.gain_over(BEST_INITIAL).gain == pytest.approx(lift["gain"], rel=1e-9)
    assert outcome.audit.gain_over(BEST_INITIAL).gain_error == pytest.approx((lift["high"] - lift["low"]) / 2, rel=0.01)


def test_the_interval_of_the_share_of_foresight_covers_it_at_its_level() -> None:
    rng, held, times = np.random.default_rng(0), 0, 400
    for _ in range(times):
        best = rng.normal(2, 1, size=200)
        most = best + rng.exponential(4, size=200)
        payoff = best + 0.75 * (most - best) + rng.normal(size=200)  # three quarters of the way
        way = 100 * (payoff - best).mean() / (most - best).mean()
        held += abs(way - 75) <= way_error(payoff, best, most)
    assert 0.92 * times <= held <= 0.98 * times


def test_without_a_way_there_is_no_interval() -> None:
    same = np.array([1.0, 2.0, 3.0])
    assert np.isnan(way_error(same, same, same))


# The words


def said(outcomes: list[Outcome]) -> str:
    return " ".join(
        read_aloud(text)
        for text in (
            decision_summary(outcomes),
            promise_sentences(outcomes),
            comparison_sentences(outcomes),
            *audit_sentences(outcomes),
            ABOUT_DECISION,
            ABOUT_TRAINING_ROWS,
            ABOUT_DECISION_COLUMNS,
        )
    )


def test_the_words_on_a_real_run_can_be_read_aloud(finished: Finished) -> None:
    said(finished.result.outcomes)
    said(finished.result.outcomes[:1])


def test_the_line_is_in_percent_of_the_way_to_foresight() -> None:
    outcomes = [
        made_up("A", fresh={DECISION_ENSEMBLE: (7.0, 5.0)}),
        made_up("B", fresh={DECISION_ENSEMBLE: (9.0, 7.0)}),
    ]
    assert re.search(r"promised 60\s% and realised 40\s% on fresh rows", decision_summary(outcomes))


KEPT, BROKEN = (5.5, 5.25), (7.0, 5.0)


@pytest.mark.parametrize(
    ("pairs", "where"),
    [
        ([KEPT], "in A"),
        ([BROKEN], "in no experiment"),
        ([KEPT, KEPT], "in every experiment"),
        ([KEPT, BROKEN, KEPT], "in A and C but not in B"),
    ],
)
def test_it_is_said_where_the_promise_was_kept(pairs: list[Pair], where: str) -> None:
    outcomes = [made_up(name, fresh={DECISION_ENSEMBLE: pair}) for name, pair in zip("ABCD", pairs, strict=False)]
    assert decision_summary(outcomes).endswith(f"kept {where}.")
    assert promise_sentences(outcomes).endswith(f"kept {where}.")
    said(outcomes)


def test_the_error_of_a_promise_is_shown_beside_its_half_width() -> None:
    outcomes = [
        made_up("A", fresh={DECISION_ENSEMBLE: (5.5, 5.25)}, allowed=0.5),
        made_up("B", fresh={DECISION_ENSEMBLE: (5.0, 5.75)}, allowed=1.25),
    ]
    text = promise_sentences(outcomes)
    assert "promised 5.50 and realised 5.25 in A, 5.00 and 5.75 in B: off by 0.25 to 0.75, with" in text
    assert "intervals of half-width 0.50 to 1.25. " in text


def test_policies_it_is_ahead_of_in_the_same_experiments_are_named_together() -> None:
    ahead = made_up("A", fresh={DECISION_ENSEMBLE: (6.5, 6.5)})
    assert comparison_sentences([ahead]).startswith(
        "It realises more than the best initial policy, white box and black box in A. "
    )
    behind = made_up(
        "B", fresh={DECISION_ENSEMBLE: (5.0, 5.0), WHITE_BOX_ENSEMBLE: (6.0, 6.0), BLACK_BOX_ENSEMBLE: (6.0, 6.0)}
    )
    text = comparison_sentences([ahead, behind])
    assert "more than the best initial policy in every experiment; " in text
    assert "more than white box and black box in A but not in B. " in text
    said([ahead, behind])


@pytest.mark.parametrize(
    ("earned", "side"),
    [
        ([5.5], "significantly better"),
        ([4.5], "significantly worse"),
        ([5.1], "statistically indistinguishable"),
        ([5.5, 5.5], "significantly better in every experiment"),
        (
            [4.5, 5.5, 4.9],
            "significantly better in B, significantly worse in A and statistically indistinguishable in C",
        ),
    ],
)
def test_a_difference_to_ridge_stacking_within_noise_is_called_equal(earned: list[float], side: str) -> None:
    pairs = zip("ABCD", earned, strict=False)
    outcomes = [
        made_up(name, fresh={DECISION_ENSEMBLE: (5.0, payoff), RIDGE_STACKING: (5.0, 5.0)}) for name, payoff in pairs
    ]
    assert f"it is {side}; the difference is " in comparison_sentences(outcomes)
    said(outcomes)


def test_the_difference_to_ridge_stacking_is_said_with_its_sign() -> None:
    outcomes = [
        made_up("A", fresh={DECISION_ENSEMBLE: (5.0, 4.875)}),
        made_up("B", fresh={DECISION_ENSEMBLE: (5.0, 5.25)}),
    ]
    assert comparison_sentences(outcomes).endswith("the difference is −0.125 to +0.250 per row.")


@pytest.mark.parametrize("debias_on", ["held-out", "train"])
def test_the_page_says_when_rows_are_training_rows_of_the_members(debias_on: str) -> None:
    text = "".join(decision_section([made_up()], Settings(debias_on=debias_on)))
    assert (escape(ABOUT_TRAINING_ROWS) in text) == (debias_on == "train")


def test_reports_quote_every_experiment() -> None:
    outcomes = [made_up("A"), made_up("C", allowed=0.1)]
    for outcome, text in zip(outcomes, audit_sentences(outcomes), strict=True):
        assert text.startswith(f"{outcome.name}. ")
        assert outcome.audit.verdict in text
        assert outcome.audit.finding in text
