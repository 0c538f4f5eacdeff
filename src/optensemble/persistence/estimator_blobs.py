"""Estimators as bytes by way of skops, without pickle, and back, once everything in them is trusted or checked."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from optensemble.persistence.estimator_checks import Unvouched
from optensemble.persistence.estimator_schema import normal_form, scan
from optensemble.persistence.estimator_types import require_name
from optensemble.persistence.estimator_walk import check_estimator

_NO_LIMIT = 1 << 62
_FILTERS = RLock()
"""Held while filters of warnings are changed: they are the process's, and each thread would restore another's."""


@contextmanager
def _quiet(message: str) -> Iterator[None]:
    """Leave out warnings that begin with a message."""
    with _FILTERS, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=message)
        yield


def has_skops() -> bool:
    """Return whether skops is installed."""
    try:
        import skops.io  # noqa: F401
    except ImportError:
        return False
    return True


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that estimators are of, and are written by."""
    import sklearn
    import skops

    return {"scikit-learn": sklearn.__version__, "skops": skops.__version__}


def dump_estimator(estimator: Any) -> tuple[bytes, list[str]]:
    """Return an estimator as bytes, the same for the same estimator, and the types in it that must be trusted by name.

    Whatever could not be loaded again raises.
    """
    import skops.io

    with _quiet(""):
        blob, trusted = normal_form(skops.io.dumps(estimator)), frozenset[str]()
        while True:
            _, asked = load_estimator(blob, trusted, _NO_LIMIT)
            if not asked:
                return blob, sorted(trusted)
            trusted |= asked


def load_estimator(blob: bytes, trusted: frozenset[str], limit: int) -> tuple[Any, set[str]]:
    """Return the estimator, or else the types in it that must be trusted by name, and are not."""
    import skops.io

    found = scan(blob, limit)
    asked = found.asked | (set(skops.io.get_untrusted_types(data=blob)) - found.reviewed)
    for name in asked:
        require_name(name)
    if asked - trusted:
        return None, asked - trusted
    with _quiet("Trying to unpickle estimator"):  # one of ours takes the place of one for every estimator
        estimator = skops.io.loads(blob, trusted=sorted(found.reviewed | trusted))
    try:
        check_estimator(estimator, trusted)
    except Unvouched as unvouched:
        return None, {unvouched.name}
    return estimator, set()
