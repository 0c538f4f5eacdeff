"""The certificate of payoff lost, against adversaries: whether it is ever false, and how much of it is lost.

    python benchmarks/certificate.py                       all of it, under a minute
    python benchmarks/certificate.py --repetitions 20

Weights are asked for row by row, and an adversary says what the policies earn when the row's label comes, up to 60 rows
later, in view of the weights then and now. Half of the games play the mixture, half the policy of the largest weight.
At every moment what was lost to each policy is recomputed from payoffs, and compared with the bound; realised less
promised payoffs are summed, and compared with what the correction of promises says they come to.

The script fails if a bound is broken, or an identity by more than rounding.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from honesty import show
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.theorems.test_certificate import ADVERSARIES, ROUNDING, Game, play, some_rules

OF_ITS_OWN_ACCORD = 8
"""The adversaries that do not look at weights come first."""


def main() -> int:
    """Play all games and print the table; return 1 if a bound or an identity is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=100, help="games of each kind and way to play")
    repetitions = parser.parse_args().repetitions
    rows, games = list[list[str]](), dict[str, list[Game]]()
    for kind, adversary in ADVERSARIES.items():
        games[kind] = [
            play(adversary, some_rules(seed, heaviest=heaviest), seed)
            for heaviest in (False, True)
            for seed in range(10_000, 10_000 + repetitions)
        ]
        rows.append([kind, *told(games[kind])])
    every = [game for played in games.values() for game in played]
    watching = [game for played in list(games.values())[OF_ITS_OWN_ACCORD:] for game in played]
    rows.append(["those that look at weights", *told(watching)])
    rows.append(["all", *told(every)])
    columns = ["world", "games", "labels", "bounds broken", "lost / bound", "at most", "identity missed by"]
    show("Certificate: payoff lost to the best policy", columns, rows)
    broken, missed = sum(game.violations for game in every), max(game.promise for game in every)
    print(f"{broken} of {sum(len(game.bound) for game in every):,} bounds are broken")
    print(f"the identity of promises is missed by {missed:.1g} of what is summed, at most")
    return int(broken > 0 or missed > ROUNDING)


def told(games: Sequence[Game]) -> list[str]:
    """Return the columns of some games; the share of the bound is of those in which something was lost."""
    shares = np.array([game.looseness for game in games])
    labels, missed = sum(len(game.bound) for game in games), max(game.promise for game in games)
    lost = shares[~np.isnan(shares)]
    mean, most = (f"{lost.mean():.2f}", f"{lost.max():.2f}") if len(lost) else ("–", "–")
    return [f"{len(games):,}", f"{labels:,}", str(sum(game.violations for game in games)), mean, most, f"{missed:.0e}"]


if __name__ == "__main__":
    with threadpool_limits(1):
        sys.exit(main())
