"""The answer: DecisionEnsemble on fresh rows, recomputed from public parts, and what is said of it."""

from __future__ import annotations

import re
from html import escape

import numpy as np
import pytest

import optensemble as oe
from optensemble.experiments import Experiment, answer
from optensemble.experiments.outcome import (
    BEST,
    BLACK,
    FORESIGHT,
    FRESH,
    HONEST,
    IN_SAMPLE,
    POLICIES,
    RIDGE,
    WHITE,
    Outcome,
    Settings,
    way_error,
)
from tests.experiments.conftest import NAMES, SMALL, Finished
from tests.experiments.outcomes import Pair, made_up
from tests.experiments.test_run import earn, expected, fit, rows_of
from tests.experiments.test_words import read_aloud

pytestmark = pytest.mark.slow

EACH = pytest.mark.parametrize("name", NAMES)


# The numbers


@EACH
def test_the_interval_is_what_was_promised_before_labels_were_seen(
    name: str, finished: Finished, experiments: dict[str, Experiment], honest: dict[str, oe.DecisionEnsemble]
) -> None:
    X, Y = rows_of(experiments[name], FRESH)
    promise, outcome = honest[name].promise(X), finished.outcome(name)
    judgement, line = outcome.judgement, outcome.payoff(FRESH, HONEST)
    np.testing.assert_allclose([judgement.low, judgement.high], [promise.low, promise.high], rtol=1e-9)
    assert line.promised == pytest.approx(promise.mean, rel=1e-9)
    assert judgement.kept == (promise.low <= earn(honest[name].decide(X), Y).mean() <= promise.high)


@EACH
def test_gains_are_differences_row_by_row(
    name: str, finished: Finished, experiments: dict[str, Experiment], honest: dict[str, oe.DecisionEnsemble]
) -> None:
    experiment, judgement = experiments[name], finished.outcome(name).judgement
    fitted = fit(experiment, *rows_of(experiment, IN_SAMPLE), SMALL.rounds_of(name))
    rows = expected(experiment, {**fitted, HONEST: honest[name]}, FRESH)
    ours = rows.pop(HONEST)[1]
    assert [*judgement.gains["policy"], HONEST] == [policy for policy in POLICIES if policy != FORESIGHT]
    for policy, (_, theirs) in rows.items():
        gain = judgement.gain(policy)
        assert gain.gain == pytest.approx((ours - theirs).mean(), rel=1e-6, abs=1e-9)
        spread = np.sqrt(np.mean((ours - theirs - (ours - theirs).mean()) ** 2) / (len(ours) - 1))
        assert gain.gain_error == pytest.approx(1.96 * spread, rel=1e-6, abs=1e-9)


@EACH
def test_the_audit_and_the_leaderboard_are_quoted(
    name: str, finished: Finished, experiments: dict[str, Experiment], honest: dict[str, oe.DecisionEnsemble]
) -> None:
    outcome = finished.outcome(name)
    audit = honest[name].audit(*rows_of(experiments[name], FRESH))
    assert (outcome.judgement.verdict, outcome.judgement.finding) == (audit.verdict, honest[name].finding_)
    assert outcome.judgement.kept == audit.kept
    lift = audit.lift.set_index("rival").loc[outcome.best]
    assert outcome.judgement.gain(BEST).gain == pytest.approx(lift["gain"], rel=1e-9)
    assert outcome.judgement.gain(BEST).gain_error == pytest.approx((lift["high"] - lift["low"]) / 2, rel=0.01)


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
            answer.line(outcomes),
            answer.found(outcomes),
            answer.compared(outcomes),
            *answer.reports(outcomes),
            answer.OPENING,
            answer.TRAINED,
            answer.COLUMNS,
        )
    )


def test_the_words_on_a_real_run_can_be_read_aloud(finished: Finished) -> None:
    said(finished.result.outcomes)
    said(finished.result.outcomes[:1])


def test_the_line_is_in_percent_of_the_way_to_foresight() -> None:
    outcomes = [made_up("A", fresh={HONEST: (7.0, 5.0)}), made_up("B", fresh={HONEST: (9.0, 7.0)})]
    assert re.search(r"promised 60\s% and earned 40\s% on fresh rows", answer.line(outcomes))


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
    outcomes = [made_up(name, fresh={HONEST: pair}) for name, pair in zip("ABCD", pairs, strict=False)]
    assert answer.line(outcomes).endswith(f"kept {where}.")
    assert answer.found(outcomes).endswith(f"kept {where}.")
    said(outcomes)


def test_the_error_of_a_promise_is_shown_beside_its_half_width() -> None:
    outcomes = [
        made_up("A", fresh={HONEST: (5.5, 5.25)}, allowed=0.5),
        made_up("B", fresh={HONEST: (5.0, 5.75)}, allowed=1.25),
    ]
    text = answer.found(outcomes)
    assert "promised 5.50 and earned 5.25 in A, 5.00 and 5.75 in B: off by 0.25 to 0.75, where" in text
    assert "allowed for 0.50 to 1.25. " in text


def test_policies_it_is_ahead_of_in_the_same_experiments_are_named_together() -> None:
    ahead = made_up("A", fresh={HONEST: (6.5, 6.5)})
    assert answer.compared([ahead]).startswith(
        "It earns more than the best initial policy, white box and black box in A. "
    )
    behind = made_up("B", fresh={HONEST: (5.0, 5.0), WHITE: (6.0, 6.0), BLACK: (6.0, 6.0)})
    text = answer.compared([ahead, behind])
    assert "more than the best initial policy in every experiment; " in text
    assert "more than white box and black box in A but not in B. " in text
    said([ahead, behind])


@pytest.mark.parametrize(
    ("earned", "side"),
    [
        ([5.5], "ahead"),
        ([4.5], "behind"),
        ([5.1], "level within the noise"),
        ([5.5, 5.5], "ahead each time"),
        ([4.5, 5.5, 4.9], "ahead in B, behind in A and level within the noise in C"),
    ],
)
def test_a_difference_to_ridge_stacking_within_noise_is_called_equal(earned: list[float], side: str) -> None:
    pairs = zip("ABCD", earned, strict=False)
    outcomes = [made_up(name, fresh={HONEST: (5.0, payoff), RIDGE: (5.0, 5.0)}) for name, payoff in pairs]
    assert f"it is {side}: the difference is " in answer.compared(outcomes)
    said(outcomes)


def test_the_difference_to_ridge_stacking_is_said_with_its_sign() -> None:
    outcomes = [made_up("A", fresh={HONEST: (5.0, 4.875)}), made_up("B", fresh={HONEST: (5.0, 5.25)})]
    assert answer.compared(outcomes).endswith("the difference is −0.125 to +0.250 a row.")


@pytest.mark.parametrize("debias_on", ["held-out", "train"])
def test_the_page_says_when_rows_are_training_rows_of_the_members(debias_on: str) -> None:
    text = "".join(answer.section([made_up()], Settings(debias_on=debias_on)))
    assert (escape(answer.TRAINED) in text) == (debias_on == "train")


def test_reports_quote_every_experiment() -> None:
    outcomes = [made_up("A"), made_up("C", allowed=0.1)]
    for outcome, text in zip(outcomes, answer.reports(outcomes), strict=True):
        assert text.startswith(f"{outcome.name}. ")
        assert outcome.judgement.verdict in text
        assert outcome.judgement.finding in text
