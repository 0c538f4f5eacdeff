"""Sentences on outcomes made up by hand: right, and such that they can be read aloud."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict

import hypothesis
import pytest
import typer.main
from hypothesis import strategies as st

from optensemble import cli
from optensemble.experiments import text
from optensemble.experiments.outcome import (
    BEST_INITIAL,
    BLACK_BOX_ENSEMBLE,
    FRESH,
    IN_SAMPLE,
    RIDGE_STACKING,
    WHITE_BOX_ENSEMBLE,
    Outcome,
)
from optensemble.experiments.settings import CurveSettings, Settings
from tests.experiments.conftest import SMALL, Finished
from tests.experiments.outcomes import Pair, made_up

STRAY = (r"  ", r" [,.;:]", r"[,;:][,.;:]", r"\.\.", r"\(\)", r"-0 ", r"\bnan\b", r"\binf\b", r"None", r"<NA>")
TOO_HIGH, TOO_LOW, KEPT, RIGHT_TO_THE_DIGIT = (7.0, 6.0), (5.0, 6.0), (6.2, 6.0), (6.0, 6.0)


def read_aloud(text: str) -> str:
    """Whatever is said is made of whole sentences, without stray marks, blanks or zeros."""
    assert text[0].isupper()
    assert text.endswith(".")
    for stray in STRAY:
        assert not re.search(stray, text), f"{stray!r} in {text!r}"
    assert text.count("(") == text.count(")")
    for sentence in re.split(r"(?<=[a-z%])\. ", text):
        assert sentence[0].isupper() or sentence[0].isdigit(), sentence
    return text


def said(outcomes: list[Outcome]) -> list[str]:
    return [
        read_aloud(each)
        for each in [
            text.normalised_summary(outcomes),
            text.speed_summary(outcomes),
            *text.in_sample_sentences(outcomes),
            *text.fresh_sentences(outcomes),
            *text.run_facts(outcomes, SMALL),
            text.convergence_summary(outcomes, SMALL),
        ]
    ]


def on_fresh_rows(*pairs: Pair) -> list[Outcome]:
    return [made_up(name, fresh={WHITE_BOX_ENSEMBLE: pair}) for name, pair in zip("ABCD", pairs, strict=False)]


@pytest.mark.parametrize(
    "constant", ["ABOUT_PAGE", "ABOUT_PAPER", "ABOUT_EXPERIMENTS", "ABOUT_COLUMNS", "ABOUT_BARS", "ABOUT_SPEED"]
)
def test_what_is_always_said_can_be_read_aloud(constant: str) -> None:
    read_aloud(getattr(text, constant))


@pytest.mark.slow
def test_the_words_on_a_real_run_can_be_read_aloud(finished: Finished) -> None:
    assert len(said(finished.result.outcomes)) == len(said(finished.result.outcomes[:1])) + 1


# What was promised and earned


def test_the_summary_is_in_percent_of_the_way_to_foresight() -> None:
    percent = r"(\S+)\s% and (?:realised )?(\S+)\s% (?:in sample|on fresh rows)"
    near = made_up(
        "A",
        in_sample={WHITE_BOX_ENSEMBLE: (7.0, 5.0)},
        fresh={WHITE_BOX_ENSEMBLE: (12.0, 2.0), BLACK_BOX_ENSEMBLE: (14.0, 1.0)},
    )
    far = made_up(
        "B",
        in_sample={WHITE_BOX_ENSEMBLE: (11.0, 6.0)},
        fresh={WHITE_BOX_ENSEMBLE: (22.0, 7.0), BLACK_BOX_ENSEMBLE: (14.0, 1.0)},
    )
    summary = read_aloud(text.normalised_summary([near]))
    assert re.findall(percent, summary) == [("50", "30"), ("100", "0"), ("20", "20"), ("120", "−10")]
    assert summary.index(WHITE_BOX_ENSEMBLE) < summary.index(BLACK_BOX_ENSEMBLE)
    assert re.findall(percent, text.normalised_summary([near, far]))[:2] == [("70", "35"), ("150", "25")]


@pytest.mark.parametrize("name", [WHITE_BOX_ENSEMBLE, BLACK_BOX_ENSEMBLE])
def test_payoffs_are_said_for_every_experiment(name: str) -> None:
    outcomes = [
        made_up("A", in_sample={name: (6.5, 5.25)}, fresh={name: (7.5, 3.25)}),
        made_up("C", in_sample={name: (8.5, 9.25)}, fresh={name: (-1.5, 4.75)}),
    ]
    for sentences, numbers in (
        (text.in_sample_sentences(outcomes), ["6.50", "5.25", "8.50", "9.25"]),
        (text.fresh_sentences(outcomes), ["7.50", "3.25", "−1.50", "4.75"]),
    ):
        (sentence,) = [each for each in sentences if each.startswith(name.capitalize())]
        first = re.split(r"[:.] ", read_aloud(sentence))[0]
        assert re.findall(r"−?\d+\.\d\d", first) == numbers
        assert re.findall(r"\bin ([A-D])\b", first) == ["A", "C"]


def test_gap_and_way_in_sample_are_ranges_over_experiments() -> None:
    outcomes = [
        made_up("A", in_sample={WHITE_BOX_ENSEMBLE: (7.0, 6.0)}),
        made_up("B", in_sample={WHITE_BOX_ENSEMBLE: (4.0, 8.0)}),
    ]
    both = text.in_sample_sentences(outcomes)[0]
    assert "off by 10 to 40\N{NO-BREAK SPACE}%" in both
    assert "normalised payoff is 40 to 60\N{NO-BREAK SPACE}%" in both
    alone = text.in_sample_sentences(outcomes[:1])[0]
    assert "off by 10\N{NO-BREAK SPACE}%" in alone
    assert " to 40\N{NO-BREAK SPACE}%" not in alone


@pytest.mark.parametrize(
    ("pairs", "verdict"),
    [
        ([TOO_HIGH], "too high"),
        ([TOO_LOW], "too low"),
        ([KEPT], "correct within noise"),
        ([RIGHT_TO_THE_DIGIT], "correct within noise"),
        ([TOO_HIGH, TOO_HIGH], "too high in every experiment"),
        ([TOO_LOW, TOO_LOW, TOO_LOW], "too low in every experiment"),
        ([KEPT, KEPT], "correct within noise in every experiment"),
        ([TOO_HIGH, KEPT], "too high in A and correct within noise in B"),
        ([KEPT, TOO_HIGH, TOO_HIGH, TOO_HIGH], "too high in B, C and D and correct within noise in A"),
        ([TOO_LOW, TOO_HIGH], "too high in B and too low in A"),
        ([TOO_LOW, KEPT, TOO_HIGH], "too high in C, too low in A and correct within noise in B"),
    ],
)
def test_promises_on_fresh_rows_are_judged(pairs: list[Pair], verdict: str) -> None:
    outcomes = on_fresh_rows(*pairs)
    assert f": the promise was {verdict}. " in text.fresh_sentences(outcomes)[0]
    said(outcomes)


def test_a_promise_is_kept_if_the_gap_is_within_its_interval() -> None:
    for pair, error in (
        (TOO_HIGH, "1.00 ± 0.25 too high"),
        (TOO_LOW, "1.00 ± 0.25 too low"),
        (KEPT, "0.20 ± 0.25 too high, not significant"),
    ):
        assert text.promise_error(on_fresh_rows(pair)[0], WHITE_BOX_ENSEMBLE) == error
    assert "not significant" in text.promise_error(
        made_up(fresh={WHITE_BOX_ENSEMBLE: (6.25, 6.0)}, error=0.25), WHITE_BOX_ENSEMBLE
    )
    assert "not significant" not in text.promise_error(
        made_up(fresh={WHITE_BOX_ENSEMBLE: (6.26, 6.0)}, error=0.25), WHITE_BOX_ENSEMBLE
    )


@pytest.mark.parametrize(
    ("better", "where"),
    [
        ([True], "in A"),
        ([False], "in no experiment"),
        ([True, True], "in every experiment"),
        ([False, False], "in no experiment"),
        ([True, False], "in A but not in B"),
        ([False, True, True], "in B and C but not in A"),
        ([True, True, False, True], "in A, B and D but not in C"),
    ],
)
@pytest.mark.parametrize("other", [BEST_INITIAL, RIDGE_STACKING])
def test_the_text_names_the_experiments_where_a_policy_earns_more(other: str, better: list[bool], where: str) -> None:
    others: dict[str, Pair] = {WHITE_BOX_ENSEMBLE: (6.0, 6.0), BEST_INITIAL: (3.0, 1.0), RIDGE_STACKING: (3.0, 1.0)}
    outcomes = [
        made_up(name, fresh={**others, other: (3.0, 5.0 if wins else 7.0)})
        for name, wins in zip("ABCD", better, strict=False)
    ]
    sentence = text.fresh_sentences(outcomes)[0]
    than = "the best initial policy" if other == BEST_INITIAL else "ridge stacking of the same models"
    assert re.search(rf"more than {than} {where}[;.]", sentence), sentence
    said(outcomes)


def test_the_text_names_the_experiments_where_an_ensemble_beats_the_best_initial_policy() -> None:
    outcomes = [
        made_up("A", in_sample={BLACK_BOX_ENSEMBLE: (3.0, 1.0)}),
        made_up("B", in_sample={BLACK_BOX_ENSEMBLE: (3.0, 5.0)}),
    ]
    assert text.in_sample_sentences(outcomes)[0].endswith("the best initial policy in every experiment.")
    assert text.in_sample_sentences(outcomes)[1].endswith("the best initial policy in B but not in A.")
    assert text.in_sample_sentences(outcomes[:1])[1].endswith("the best initial policy in no experiment.")
    said(outcomes)


@pytest.mark.parametrize("earned", [1.996, 2.004])
def test_a_difference_that_rounds_to_zero_has_no_sign(earned: float) -> None:
    said([made_up(in_sample={WHITE_BOX_ENSEMBLE: (earned, earned)}, fresh={WHITE_BOX_ENSEMBLE: (earned, earned)})])


def test_it_is_said_who_converged_and_how_far_the_others_were() -> None:
    done, first, second = made_up("A"), made_up("B", violations=(0.25, None)), made_up("C", violations=(0.104, 0.03))
    alone = text.convergence_summary([done], SMALL)
    assert alone.startswith("White box converged in A; black box converged in A. ")
    every = text.convergence_summary([done, first, second], SMALL)
    assert "White box converged in A but not in B and C (worst violation left 0.10 to 0.25, tolerance 0.01); " in every
    assert "black box converged in A and B but not in C (worst violation left 0.03, tolerance 0.01). " in every
    assert text.convergence_summary([first, second], SMALL).startswith("White box converged in no experiment (worst")
    said([done, first, second])


def test_white_box_is_compared_with_itself_before_any_correction() -> None:
    outcomes = [made_up("A", fresh={WHITE_BOX_ENSEMBLE: (6.0, 2.5)}), made_up("B")]
    assert text.fresh_sentences(outcomes)[0].endswith("more than without any correction in B but not in A.")
    assert "correction" not in text.fresh_sentences(outcomes)[1]


def test_speed_adds_up_what_both_algorithms_did() -> None:
    one, two = (text.speed_summary([made_up(name) for name in names]) for names in ("A", "AB"))
    assert "0.75 s" in one
    assert "1 experiment," in one
    assert "190 rounds" in one
    assert "1,900 row-solves were done and 3,000 avoided" in one
    assert "1.50 s" in two
    assert "2 experiments," in two
    assert "3,800 row-solves were done and 6,000 avoided" in two


def test_facts_tell_the_choices_of_a_run() -> None:
    settings = Settings(rows=1234, seed=17, noise=0.5, trees="exact", debias_on="train", training_rows=4321)
    told = " ".join(text.run_facts([made_up("C", note="at most 0.5")], settings))
    for fact in ("variance 0.5", "seed 17", "(exact)", "4,321 rows", "1,234 rows of", "Experiment C: at most 0.5."):
        assert fact in told
    assert "held out" in " ".join(text.run_facts([made_up()], Settings()))
    assert "held out" not in told


# The command that makes a run again


def parsed(line: str) -> tuple[Settings, str]:
    """What the command line makes of a command."""
    program, name, *options = shlex.split(line)
    assert program == "optensemble"
    given = typer.main.get_group(cli.app).commands[name].make_context(name, options).params
    values = {key: given[key] for key in asdict(Settings()) if key in given}
    return Settings(**{key: getattr(value, "value", value) for key, value in values.items()}), given["experiments"]


def test_the_command_of_a_usual_run_names_its_seed() -> None:
    assert text.repeat_command(Settings(), "ABCD") == "optensemble reproduce --seed 42"


@hypothesis.given(
    st.builds(
        Settings,
        rows=st.integers(100, 10**6),  # fewer are refused
        rounds=st.none() | st.integers(1, 10**6),
        seed=st.integers(0, 2**40),
        noise=st.floats(0, 1e6) | st.integers(0, 9),
        trees=st.sampled_from(["histogram", "exact"]),
        debias_on=st.sampled_from(["held-out", "train"]),
        fresh_rows=st.integers(10, 10**6),
    ),
    st.sampled_from(["A", "D", "AC", "DB", "ABC", "ABCD", "DCBA"]),
)
def test_the_command_makes_the_same_run_again(settings: Settings, names: str) -> None:
    again, experiments = parsed(text.repeat_command(settings, list(names)))
    assert again == settings
    assert experiments == ",".join(names)


def test_every_option_of_the_command_line_is_in_the_command() -> None:
    options = set(typer.main.get_group(cli.app).commands["reproduce"].make_context("reproduce", []).params)
    settings = {*asdict(Settings()), "learning_curve", *asdict(CurveSettings())}
    assert settings == options - {"experiments", "out", "resume", "as_json", "quiet"}


@pytest.mark.parametrize("where", [IN_SAMPLE, FRESH])
def test_shares_are_averages_over_experiments(where: str) -> None:
    outcomes = [
        made_up("A", in_sample={WHITE_BOX_ENSEMBLE: (7.0, 3.0)}, fresh={WHITE_BOX_ENSEMBLE: (7.0, 3.0)}),
        made_up("B"),
    ]
    assert text.mean_ways(outcomes, where, WHITE_BOX_ENSEMBLE) == pytest.approx(((50 + 40) / 2, (10 + 40) / 2))
