"""Every lemma and corollary of the paper as a function: numbers in, numbers out.

The general form holds for any data. ``M`` bounds the labels, ``M_h`` the predictions after fitting (patches may carry
them beyond ``M``). For actions between ``l`` and ``u``, ``span = Σ(u_j − l_j)`` and ``reach = Σ max(|l_j|, |u_j|)``;
in the unit box both are ``d``, which is what ``reach`` is taken for when it is not given. The paper's form
(``paper_*``) is the special case ``M_h ≤ M``, the unit box, and the bucket width at which the bound is smallest.

All of them speak of the rows that were debiased on. None of them speaks of rows not yet seen.
"""

from __future__ import annotations

from math import floor, sqrt

__all__ = [
    "corollary_1",
    "lemma_1",
    "lemma_2",
    "lemma_3",
    "lemma_4",
    "lemma_5",
    "lemma_6",
    "lemma_7",
    "lemma_8",
    "lemma_9",
    "lemma_10",
    "paper_lemma_2",
    "paper_lemma_3",
    "paper_lemma_4",
    "paper_lemma_6",
    "paper_lemma_7",
    "paper_lemma_8",
    "paper_lemma_9",
    "paper_lemma_10",
    "paper_width",
]

_MOST = 2**62

# Convergence


def lemma_1(probability: float, squared_step: float) -> float:
    """Monotone decrease: a patch ``δ`` on ``C`` lowers ``E‖h − y‖²`` by exactly ``Pr[C]·‖δ‖²``.

    >>> lemma_1(probability=0.25, squared_step=2.0)
    0.5
    """
    return probability * squared_step


def lemma_2(alpha: float, squared_error: float) -> int:
    """Update ends within ``E‖h⁰ − y‖²/α²`` patches.

    >>> lemma_2(alpha=0.1, squared_error=0.5)
    50
    """
    ratio = sqrt(squared_error) / alpha
    return floor(min(ratio * ratio * (1 + 1e-12), _MOST))  # 0.5/0.1² is not 50 in floating point


def lemma_5(alpha: float, squared_error: float) -> int:
    """Update ends within as many patches on any sequence of cells, even if each is chosen after the last patch."""
    return lemma_2(alpha, squared_error)


def paper_lemma_2(alpha: float, d: int, M: float) -> int:
    """``dM²/α²``: labels and predictions in ``[0, M]`` (Lemma 5 too)."""
    return lemma_2(alpha, d * M * M)


def lemma_6(alpha: float, squared_errors: list[float]) -> int:
    """White box ends within the sum over its models of Lemma 2's patches, and so of rounds."""
    return sum(lemma_2(alpha, squared_error) for squared_error in squared_errors)


def paper_lemma_6(alpha: float, k: int, d: int, M: float) -> int:
    """``k·dM²/α²``."""
    return k * paper_lemma_2(alpha, d, M)


# Utility of one model


def lemma_3(alpha: float, width: float, span: float, M: float, M_h: float, reach: float | None = None) -> float:
    """How far ``E[π·h]`` may be from ``E[π·y]`` when ``h`` is α-consistent with ``π``.

    ``α·reach/w + w·span·(M + M_h)/2``: each of the ``1/w`` buckets of a coordinate may be off by ``α``, and the
    midpoint of a bucket stands for an action up to half a width away.

    >>> lemma_3(alpha=0.01, width=0.1, span=4, M=1.0, M_h=1.0)
    0.8
    """
    return alpha * (span if reach is None else reach) / width + width * span * (M + M_h) / 2


def corollary_1(alpha: float, width: float, span: float, M: float, M_h: float, reach: float | None = None) -> float:
    """How far the promise ``E[π_h·h]`` of a self-consistent model may be from what it earns."""
    return lemma_3(alpha, width, span, M, M_h, reach)


def paper_lemma_3(alpha: float, d: int, M: float) -> float:
    """``2d√(αM)`` (Corollary 1 too).

    >>> paper_lemma_3(0.01, 4, 1.0) == lemma_3(0.01, paper_width(0.01, 1.0), 4, 1.0, 1.0)
    True
    """
    return 2 * d * sqrt(alpha * M)


def paper_width(alpha: float, M: float, k: int = 1) -> float:
    """Return the bucket width ``√(αk/M)`` at which the paper's bounds are stated."""
    return sqrt(alpha * k / M)


def lemma_4(alpha: float, width: float, span: float, M: float, M_h: float, reach: float | None = None) -> float:
    """How much ``π_h`` may earn less than a policy that ``h``, also self-consistent, is consistent with."""
    return 2 * lemma_3(alpha, width, span, M, M_h, reach)


def paper_lemma_4(alpha: float, d: int, M: float) -> float:
    """``4d√(αM)``."""
    return 2 * paper_lemma_3(alpha, d, M)


# Utility of white box: αk for α


def lemma_7(alpha: float, width: float, span: float, M: float, M_h: float, k: int, reach: float | None = None) -> float:
    """How far white box's promise ``E[max_i π_i·h_i]`` may be from what it earns."""
    return lemma_3(alpha * k, width, span, M, M_h, reach)


def paper_lemma_7(alpha: float, d: int, M: float, k: int) -> float:
    """``2d√(αkM)``."""
    return paper_lemma_3(alpha * k, d, M)


def lemma_8(alpha: float, width: float, span: float, M: float, M_h: float, k: int, reach: float | None = None) -> float:
    """How much white box may earn less than the pointwise maximum of its models' self-assessments."""
    return lemma_7(alpha, width, span, M, M_h, k, reach)


def paper_lemma_8(alpha: float, d: int, M: float, k: int) -> float:
    """``2d√(αkM)``."""
    return paper_lemma_7(alpha, d, M, k)


def lemma_9(alpha: float, width: float, span: float, M: float, M_h: float, k: int, reach: float | None = None) -> float:
    """How much white box could have gained by following ``φ(i)`` wherever it followed ``i``, for any ``φ``."""
    return 2 * lemma_7(alpha, width, span, M, M_h, k, reach)


def paper_lemma_9(alpha: float, d: int, M: float, k: int) -> float:
    """``4d√(αkM)``."""
    return 2 * paper_lemma_7(alpha, d, M, k)


# Utility of black box on a cell


def lemma_10(
    alpha: float, width: float, span: float, M: float, M_h: float, probability: float, reach: float | None = None
) -> float:
    """How much ``π_h`` may earn less than ``π`` on a cell ``C`` of probability ``Pr[C]``.

    Needs consistency on ``C × {π_h,j ∈ τ}`` and ``C × {π_j ∈ τ}``: the cells of ``conditional=True``. The paper
    claims it of ``C`` alone, which does not follow; ``tests/theorems/test_guarantees.py`` has a counterexample.
    """
    return 2 * lemma_3(alpha / probability, width, span, M, M_h, reach)


def paper_lemma_10(alpha: float, width: float, d: int, M: float, probability: float) -> float:
    """``2αd/Pr[C] + 2wMd``, as printed; it does not follow from the cells it names."""
    return 2 * alpha * d / probability + 2 * width * M * d
