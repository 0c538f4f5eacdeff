"""What a run found, in plain words; every number comes from the run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from optensemble.experiments.outcome import (
    BEST,
    BLACK,
    FRESH,
    IN_SAMPLE,
    RIDGE,
    UNCORRECTED,
    WHITE,
    Outcome,
    debiasing_seconds,
)
from optensemble.experiments.run import LOOKS
from optensemble.experiments.settings import NAMES, Settings

OPENING = (
    "Several models each know a part of four payoffs. The paper Model Ensembling for Constrained Optimization "
    "(Globus-Harris, Gupta, Kearns and Roth) corrects their predictions until they are unbiased on the events that "
    "decide. Then it follows, row by row, the model that promises the most (white box); or, where only the models' "
    "actions are known, it decides by one model that was corrected on all of them (black box)."
)
KEY = (
    "In experiments A and C each model knows one of the payoffs, in B and D one group of the rows. A and B limit the "
    "risk of the decision, C and D have two linear limits."
)
GAP = (
    "Gap is promised less realised, on fresh rows with its 95 % interval: positive is boastful. Way is the part of the "
    "way from the best initial policy to foresight. Click a heading to sort."
)
BARS = (
    "The bars are in percent of the way from the best initial policy (0) to foresight (100), averaged over the "
    "experiments. Below is the same in the units of the payoff."
)
EFFICIENCY = (
    "The paper reports its running time for experiment A, on a machine of its own: 83 minutes for white box and 3.8 "
    "for black box. Its code solves every row in every round. The seconds here are of a whole fit, after kernels are "
    "compiled; row-solves avoided are those that solving every row in every round would have done on top."
)
_PERCENT = "\N{NO-BREAK SPACE}%"
PAPER_MINUTES = {WHITE: 83.0, BLACK: 3.8}
"""What the paper reports for experiment A."""


def headline(outcomes: Sequence[Outcome]) -> str:
    """Say in one breath what was promised and what was earned."""

    def both(name: str, where: str) -> str:
        promised, earned = shares(outcomes, where, name)
        return f"promised {percent(promised)} and earned {percent(earned)}"

    average = ", on average over the experiments," if len(outcomes) > 1 else ","
    return (
        f"Of what foresight could add to the best initial policy{average} white box {both(WHITE, IN_SAMPLE)} on "
        f"the rows it was debiased on; on fresh rows it {both(WHITE, FRESH)}. Black box {both(BLACK, IN_SAMPLE)}; on "
        f"fresh rows it {both(BLACK, FRESH)}."
    )


def convergence(outcomes: Sequence[Outcome], settings: Settings) -> str:
    """Say who had converged when the rounds ran out: only then do the paper's guarantees hold."""
    parts = {}
    for name in (WHITE, BLACK):
        costs = {outcome.name: outcome.cost(name) for outcome in outcomes}
        left = [cost.worst_violation for cost in costs.values() if not cost.converged]
        violation = f" (worst violation left {span(left, 2)}, tolerance {settings.alpha:g})" if left else ""
        parts[name] = f"converged {in_which([each for each in costs if costs[each].converged], costs)}{violation}"
    return (
        f"White box {parts[WHITE]}; black box {parts[BLACK]}. Where an ensemble has not, the paper's guarantees do not "
        "hold at this tolerance yet, not even on the rows debiased on."
    )


def in_sample(outcomes: Sequence[Outcome]) -> list[str]:
    """Say how far the ensembles came on the rows they were debiased on, and whether they knew it."""
    sentences = []
    for name in (WHITE, BLACK):
        gaps = [
            abs(outcome.share(IN_SAMPLE, name, "promised") - outcome.payoff(IN_SAMPLE, name).way)
            for outcome in outcomes
        ]
        ways = [outcome.payoff(IN_SAMPLE, name).way for outcome in outcomes]
        off = f"{span(gaps, 0)}{_PERCENT}" if max(gaps) >= 0.5 else f"less than {percent(1)}"
        sentences.append(
            f"{promised_and_earned(outcomes, IN_SAMPLE, name)}: in the end its promise is off by {off} of the way "
            f"from the best initial policy to foresight. It comes {span(ways, 0)}{_PERCENT} of that way, above the "
            f"best initial policy {beats(outcomes, IN_SAMPLE, name, BEST)}."
        )
    return sentences


def fresh(outcomes: Sequence[Outcome]) -> list[str]:
    """Say what became of promises on rows that the ensembles had not seen, and what others earn there."""
    sentences = []
    for name in (WHITE, BLACK):
        more = [
            f"more than the best initial policy {beats(outcomes, FRESH, name, BEST)}",
            f"more than ridge stacking of the same models {beats(outcomes, FRESH, name, RIDGE)}",
        ]
        if name == WHITE:
            more.append(f"more than without any correction {beats(outcomes, FRESH, name, UNCORRECTED)}")
        said = f"{promised_and_earned(outcomes, FRESH, name)}: {_kept_where(outcomes, name)}"
        sentences.append(f"{said}. It earns {'; '.join(more)}.")
    return sentences


def speed(outcomes: Sequence[Outcome]) -> str:
    """Say how long debiasing took, and how many row-solves were done and avoided."""
    costs = [outcome.cost(name) for outcome in outcomes for name in (WHITE, BLACK)]
    rounds, done, avoided = (sum(cost[what] for cost in costs) for what in ("rounds", "row_solves", "avoided"))
    return (
        f"Debiasing took {debiasing_seconds(outcomes):.2f} s in total: {_count(len(outcomes), 'experiment')}, both "
        f"algorithms, {rounds:,} rounds. {done:,} row-solves were done and {avoided:,} avoided, because only rows that "
        "a round moved are solved again."
    )


def number(value: float, digits: int = 2, sign: str = "") -> str:
    """Write a number with a real minus sign, and nothing as nothing: never as -0.

    >>> number(-0.001), number(-1.5, 1), number(2, 0, sign="+")
    ('0.00', '−1.5', '+2')
    """
    return f"{round(float(value), digits) + 0.0:{sign}.{digits}f}".replace("-", "−")


def percent(value: float) -> str:
    """Write a whole percentage, which stays on one line."""
    return f"{number(value, 0)}{_PERCENT}"


def verdict(outcome: Outcome, name: str) -> str:
    """Say by how much a promise on fresh rows was missed, and whether that is more than the noise of the mean."""
    line = outcome.payoff(FRESH, name)
    missed = f"{abs(line.gap):.2f} ± {line.gap_error:.2f} too {'much' if line.gap > 0 else 'little'}"
    return missed if _missed(line) else f"{missed}, within the noise"


def shares(outcomes: Sequence[Outcome], where: str, name: str) -> tuple[float, float]:
    """Return how much of the way from best initial policy to foresight was promised and earned, on average."""
    promised, earned = (
        sum(outcome.share(where, name, what) for outcome in outcomes) / len(outcomes)
        for what in ("promised", "realised")
    )
    return promised, earned


def command(settings: Settings, names: Sequence[str]) -> str:
    """Return the command that makes a run again."""
    defaults = asdict(Settings())
    words = ["optensemble", "reproduce"]
    if tuple(names) != NAMES:
        words += ["--experiments", ",".join(names)]
    for key, value in asdict(settings).items():
        if value != defaults[key] or key == "seed":
            words += [f"--{key.replace('_', '-')}", str(value)]
    return shlex.join(words)


def facts(outcomes: Sequence[Outcome], settings: Settings) -> list[str]:
    """Say how the run was made, where the paper leaves a choice too."""
    rows = "of the members' own training rows, as was published" if settings.debias_on == "train" else "held out"
    return [
        "Data: 19 normal features with a random mean and covariance, a category of five, four labels linear in all of "
        f"them with noise of variance {settings.noise:g}; seed {settings.seed}.",
        f"Members: gradient boosted trees of depth 6, learning rate 0.1 ({settings.trees}), trained on "
        f"{settings.training_rows:,} rows. By label: a member knows one label and says the mean of the others. By "
        "group: it knows the rows of one category and says the mean elsewhere.",
        f"Debiasing: on {settings.rows:,} rows {rows}; tolerance {settings.alpha:g}, bucket width "
        f"{settings.bucket_width:g}. Each round corrects one model on one bucket of one coordinate; rounds take these "
        "in turn. Black box starts from the label mean, and ends when a whole turn found nothing to correct.",
        f"Curves and heatmaps: the rounds are looked at {LOOKS} times, evenly; after its end a line goes on level.",
        "Best initial policy: of the members' own policies the one that earns most on the rows debiased on. Average, "
        "then optimise: the mean of all predictions. Ridge stacking: ridge regression of the labels on all "
        "predictions, fitted on the rows debiased on. White box, uncorrected: the member that promises most, before "
        "any round. DecisionEnsemble: as it comes, on the same rows. Foresight knows the labels.",
        *(f"Experiment {outcome.name}: {outcome.note}." for outcome in outcomes),
    ]


def promised_and_earned(outcomes: Sequence[Outcome], where: str, name: str) -> str:
    """Begin a sentence with what a policy promised and earned in every experiment."""
    first, *others = (outcome.payoff(where, name) for outcome in outcomes)
    text = f"{number(first.promised)} and earned {number(first.realised)} in {outcomes[0].name}"
    for outcome, line in zip(outcomes[1:], others, strict=True):
        text += f", {number(line.promised)} and {number(line.realised)} in {outcome.name}"
    return f"{title(name)} promised {text}"


def title(name: str) -> str:
    """Write a policy's name as a sentence begins.

    >>> title("white box"), title("DecisionEnsemble")
    ('White box', 'DecisionEnsemble')
    """
    return name[0].upper() + name[1:]


def _missed(line: Any) -> bool:
    return bool(abs(line.gap) > line.gap_error)


def _kept_where(outcomes: Sequence[Outcome], name: str) -> str:
    lines = {outcome.name: outcome.payoff(FRESH, name) for outcome in outcomes}
    found = {
        "too much": [each for each, line in lines.items() if _missed(line) and line.gap > 0],
        "too little": [each for each, line in lines.items() if _missed(line) and line.gap < 0],
        "wrong by no more than the noise": [each for each, line in lines.items() if not _missed(line)],
    }
    return sorted_out(found)


def sorted_out(found: dict[str, list[str]]) -> str:
    """Say of which experiments each thing is true; each belongs to one.

    >>> sorted_out({"ahead": ["A", "C"], "behind": ["B"]})
    'ahead in A and C and behind in B'
    """
    kinds = {said: names for said, names in found.items() if names}
    if len(kinds) == 1:
        ((said, names),) = kinds.items()
        return f"{said}{' each time' if len(names) > 1 else ''}"
    return listed([f"{said} in {listed(names)}" for said, names in kinds.items()])


def beats(outcomes: Sequence[Outcome], where: str, name: str, other: str) -> str:
    """Say in which experiments one policy earns more than another; rounding decides nothing."""
    earned = {o.name: (o.payoff(where, name).realised, o.payoff(where, other).realised) for o in outcomes}
    return in_which([each for each, (ours, theirs) in earned.items() if ours > theirs + 1e-9 * abs(theirs)], earned)


def in_which(names: Sequence[str], of: Iterable[str]) -> str:
    """Say in which of all experiments something is so."""
    others = [name for name in of if name not in names]
    if not names:
        return "in no experiment"
    if not others:
        return "in every experiment" if len(names) > 1 else f"in {names[0]}"
    return f"in {listed(names)} but not in {listed(others)}"


def span(values: Sequence[Any], digits: int, sign: str = "") -> str:
    """Write from where to where numbers reach."""
    low, high = (number(value, digits, sign) for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def listed(items: Sequence[str]) -> str:
    """Write items one after the other."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
