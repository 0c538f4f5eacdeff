"""What a run found, in plain words; every number comes from the run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from optensemble.experiments.outcome import BEST, BLACK, FRESH, IN_SAMPLE, RIDGE, WHITE, Outcome, Settings
from optensemble.experiments.setup import NAMES
from optensemble.experiments.store import debiasing_seconds

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
PAPER_MINUTES = {WHITE: 83.0, BLACK: 3.8}
"""What the paper reports for experiment A."""


def headline(outcomes: Sequence[Outcome]) -> str:
    """Say in one breath what was promised and what was earned."""

    def both(name: str, where: str) -> str:
        promised, earned = shares(outcomes, where, name)
        return f"promised {number(promised, 0)} % and earned {number(earned, 0)} %"

    return (
        f"Of what foresight could add to the best initial policy, white box {both(WHITE, IN_SAMPLE)} on the rows it "
        f"was debiased on; on fresh rows it {both(WHITE, FRESH)}. Black box {both(BLACK, IN_SAMPLE)}; on fresh rows it "
        f"{both(BLACK, FRESH)}."
    )


def in_sample(outcomes: Sequence[Outcome]) -> list[str]:
    """Say how far the ensembles came on the rows they were debiased on, and whether they knew it."""
    return [
        f"{_promised_and_earned(outcomes, IN_SAMPLE, name)}: in the end its promise is off by "
        f"{_range([gap_share(outcome, name) for outcome in outcomes])} % of the way from the best initial policy to "
        f"foresight. It comes {_range([outcome.payoff(IN_SAMPLE, name).way for outcome in outcomes])} % of that way, "
        f"above the best initial policy {_where(outcomes, _beats(IN_SAMPLE, name, BEST))}."
        for name in (WHITE, BLACK)
    ]


def fresh(outcomes: Sequence[Outcome]) -> list[str]:
    """Say what became of promises on rows that the ensembles had not seen, and what others earn there."""
    return [
        f"{_promised_and_earned(outcomes, FRESH, name)}: {_kept_where(outcomes, name)}. It earns more than the best "
        f"initial policy {_where(outcomes, _beats(FRESH, name, BEST))}, and more than ridge stacking of the same "
        f"models {_where(outcomes, _beats(FRESH, name, RIDGE))}."
        for name in (WHITE, BLACK)
    ]


def speed(outcomes: Sequence[Outcome]) -> str:
    """Say how long debiasing took, and how many row-solves were done and avoided."""
    costs = [outcome.cost(name) for outcome in outcomes for name in (WHITE, BLACK)]
    rounds, done, avoided = (sum(cost[what] for cost in costs) for what in ("rounds", "row_solves", "avoided"))
    return (
        f"Debiasing took {debiasing_seconds(outcomes):.1f} s in total: {_count(len(outcomes), 'experiment')}, both "
        f"algorithms, {rounds:,} rounds. {done:,} row-solves were done and {avoided:,} avoided, because only rows that "
        "a round moved are solved again."
    )


def number(value: float, digits: int = 2, sign: str = "") -> str:
    """Write a number with a real minus sign, and nothing as nothing: never as -0.

    >>> number(-0.001), number(-1.5, 1), number(2, 0, sign="+")
    ('0.00', '−1.5', '+2')
    """
    return f"{round(float(value), digits) + 0.0:{sign}.{digits}f}".replace("-", "−")


def verdict(outcome: Outcome, name: str) -> str:
    """Say by how much a promise on fresh rows was missed; no more than the noise of the mean is none."""
    line = outcome.payoff(FRESH, name)
    missed = missed_by(line)
    return (
        f"{abs(line.gap):.2f} ± {line.gap_error:.2f} {missed}"
        if missed
        else f"what it earned, within ± {line.gap_error:.2f}"
    )


def missed_by(line: Any) -> str:
    """Return "too much" or "too little", or nothing where the promise was kept within the noise of the mean."""
    if abs(line.gap) <= line.gap_error:
        return ""
    return "too much" if line.gap > 0 else "too little"


def shares(outcomes: Sequence[Outcome], where: str, name: str) -> tuple[float, float]:
    """Return how much of the way from best initial policy to foresight was promised and earned, on average."""
    promised, earned = (
        sum(outcome.share(where, name, what) for outcome in outcomes) / len(outcomes)
        for what in ("promised", "realised")
    )
    return promised, earned


def gap_share(outcome: Outcome, name: str) -> float:
    """Return how far promise and payoff are apart on the rows debiased on, in percent of the same way."""
    return abs(outcome.share(IN_SAMPLE, name, "promised") - outcome.share(IN_SAMPLE, name, "realised"))


def command(settings: Settings, names: Sequence[str]) -> str:
    """Return the command that makes a run again."""
    defaults = asdict(Settings())
    words = ["optensemble", "reproduce"]
    if tuple(names) != NAMES:
        words += ["--experiments", ",".join(names)]
    for key, value in asdict(settings).items():
        if value != defaults[key]:
            words += [f"--{key.replace('_', '-')}", str(value)]
    if settings.seed == defaults["seed"]:
        words += ["--seed", str(settings.seed)]
    return shlex.join(words)


def facts(outcomes: Sequence[Outcome], settings: Settings) -> list[str]:
    """Say how the run was made, where the paper leaves a choice too."""
    rows = "of the members' own training rows, as in the paper" if settings.debias_on == "train" else "held out"
    return [
        "Data: 19 normal features with a random mean and covariance, a category of five, four labels linear in all of "
        f"them with noise of variance {settings.noise:g}; seed {settings.seed}.",
        f"Members: gradient boosted trees of depth 6, learning rate 0.1 ({settings.trees}), trained on "
        f"{settings.training_rows:,} rows. By label: a member knows one label and says the mean of the others. By "
        "group: it knows the rows of one category and says the mean elsewhere.",
        f"Debiasing: on {settings.rows:,} rows {rows}; tolerance {settings.alpha:g}, bucket width "
        f"{settings.bucket_width:g}; a round visits one model, coordinate and bucket after the other; black box starts "
        "from the label mean.",
        "Best initial policy: of the members' own policies the one that earns most on the rows debiased on. Average, "
        "then optimise: the mean of all predictions. Ridge stacking: ridge regression of the labels on all "
        "predictions, fitted on the rows debiased on. Foresight knows the labels.",
        *(f"Experiment {outcome.name}: {outcome.note}." for outcome in outcomes),
    ]


def _promised_and_earned(outcomes: Sequence[Outcome], where: str, name: str) -> str:
    lines = [(outcome.name, outcome.payoff(where, name)) for outcome in outcomes]
    first, *others = (
        f"{number(line.promised)} and {verb}{number(line.realised)} in {experiment}"
        for (experiment, line), verb in zip(lines, ["earned ", *[""] * len(lines)], strict=False)
    )
    return f"{name.capitalize()} promised {', '.join([first, *others])}"


def _kept_where(outcomes: Sequence[Outcome], name: str) -> str:
    parts = []
    for missed, said in {"too much": "too much", "too little": "too little", "": "right within the noise"}.items():
        found = [outcome.name for outcome in outcomes if missed_by(outcome.payoff(FRESH, name)) == missed]
        if len(found) == len(outcomes):
            return said if len(outcomes) == 1 else f"{said} each time"
        parts += [f"{said} in {_listed(found)}"] if found else []
    return _listed(parts)


def _beats(where: str, name: str, other: str) -> Callable[[Outcome], bool]:
    def beats(outcome: Outcome) -> bool:
        return bool(outcome.payoff(where, name).realised > outcome.payoff(where, other).realised)

    return beats


def _where(outcomes: Sequence[Outcome], holds: Callable[[Outcome], bool]) -> str:
    names = [outcome.name for outcome in outcomes if holds(outcome)]
    if not names:
        return "in no experiment"
    if len(names) == len(outcomes) > 1:
        return "in every experiment"
    return f"{'only ' if len(names) < len(outcomes) else ''}in {_listed(names)}"


def _range(values: Sequence[Any]) -> str:
    low, high = (number(value, 0) for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
