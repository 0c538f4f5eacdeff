"""Everything that can go wrong, in one tree.

::

    OptEnsembleError
    ├── InputError (ValueError)            an argument or array that cannot be used
    │   └── ConflictError                  an id or a label that contradicts what is known of its row
    ├── FeasibleSetError (ValueError)      a feasible set, or an action, that cannot be
    │   ├── EmptySetError                  no action satisfies the constraints
    │   ├── UnboundedSetError              some coordinate of the actions has no bound
    │   └── InfeasibleActionError          an oracle or a policy left the set
    ├── SolverError (RuntimeError)         a row that the solver could not solve, or a solver that cannot be loaded
    ├── NotFittedError (sklearn's)         used before ``fit``
    ├── FileError (ValueError)             a file that cannot be read, or written
    └── LogError (RuntimeError)            a log that cannot be read, written or led

    AbsentWarning (UserWarning)
    NotConvergedWarning (sklearn's ConvergenceWarning)
    DataWarning (UserWarning)
    FallbackWarning (UserWarning)
    RefitWarning (UserWarning)

Every message says what is wrong, what was found, and what to do about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.exceptions import NotFittedError as SklearnNotFittedError

__all__ = [
    "AbsentWarning",
    "ConflictError",
    "DataWarning",
    "EmptySetError",
    "FallbackWarning",
    "FeasibleSetError",
    "FileError",
    "InfeasibleActionError",
    "InputError",
    "LogError",
    "NotConvergedWarning",
    "NotFittedError",
    "OptEnsembleError",
    "RefitWarning",
    "SolverError",
    "UnboundedSetError",
]


class OptEnsembleError(Exception):
    """The root: catch this to catch everything the package raises on purpose."""

    rows: tuple[str, int, int] | None = None
    """The rows that the message speaks of, if any: as it names them, the first, and how many."""


class InputError(OptEnsembleError, ValueError):
    """An argument or array that cannot be used."""


class ConflictError(InputError):
    """An id that was given to another row before, or labels of a row that has others, or has expired."""


class FeasibleSetError(OptEnsembleError, ValueError):
    """A feasible set, or an action, that cannot be."""


class EmptySetError(FeasibleSetError):
    """No action satisfies the constraints."""


class UnboundedSetError(FeasibleSetError):
    """Some coordinate of the actions has no bound."""


class InfeasibleActionError(FeasibleSetError):
    """An oracle or a policy returned an action outside the feasible set."""


class SolverError(OptEnsembleError, RuntimeError):
    """A row that the solver could not solve, or a solver that cannot be loaded in this process."""


class FileError(OptEnsembleError, ValueError):
    """A file that cannot be read, or written."""


class LogError(OptEnsembleError, RuntimeError):
    """A log that cannot be read, or written, or that another process leads."""


class AbsentWarning(UserWarning):
    """Members had no answer in some rows, or rows no labels, and went without; the message counts them."""


class DataWarning(UserWarning):
    """Something in the data looks like a mistake, such as a label among the inputs; the message says what."""


class FallbackWarning(UserWarning):
    """Some rows could not be solved and took the fallback action; the message counts them."""


class RefitWarning(UserWarning):
    """What was learned no longer fits the rows that come in, or is old; the message says which."""


if TYPE_CHECKING:

    class NotFittedError(OptEnsembleError, SklearnNotFittedError):
        """The ensemble was used before ``fit``."""

    class NotConvergedWarning(ConvergenceWarning):
        """Debiasing stopped before every cell was within alpha; the message says why."""

else:

    def __getattr__(name):
        """Make the classes with a scikit-learn base on first use: importing scikit-learn takes a second."""
        if name not in ("NotConvergedWarning", "NotFittedError"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        for made in _make_scikit_learn_subclasses():
            globals().setdefault(made.__name__, made)  # atomic: of two threads, both get the first one's class
        return globals()[name]

    def __dir__():
        return sorted({*globals(), *__all__})

    def _make_scikit_learn_subclasses():
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.exceptions import NotFittedError as SklearnNotFittedError

        class NotFittedError(OptEnsembleError, SklearnNotFittedError):
            """The ensemble was used before ``fit``."""

            __qualname__ = "NotFittedError"  # pickle looks it up in the module

        class NotConvergedWarning(ConvergenceWarning):
            """Debiasing stopped before every cell was within alpha; the message says why."""

            __qualname__ = "NotConvergedWarning"

        return NotFittedError, NotConvergedWarning
