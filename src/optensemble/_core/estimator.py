"""Base class of the estimators: scikit-learn's ``BaseEstimator``, except in the program ``optensemble``.

Importing scikit-learn takes most of a second, which is more than a small ``decide`` takes altogether. The program hands
no estimator to other code, so it does without: it calls :func:`do_without_scikit_learn` before anything else.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator as BaseEstimator  # the type checker sees scikit-learn's

_WITHOUT = False


def do_without_scikit_learn() -> None:
    """Let estimators have a plain base in this process, unless scikit-learn is loaded already."""
    global _WITHOUT
    _WITHOUT = "sklearn" not in sys.modules


class _PlainEstimator:
    """The part of ``BaseEstimator`` that a fit, a decision and an audit need."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}


if not TYPE_CHECKING:

    def __getattr__(name):
        """Return the base class when an estimator is defined: only then it is decided which."""
        if name != "BaseEstimator":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if _WITHOUT:
            return _PlainEstimator
        from sklearn.base import BaseEstimator

        return BaseEstimator
