"""A walk through all parts of an estimator that skops has made, before anything asks it: each is what belongs there."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from optensemble.persistence.estimator_checks import CHECKS, Unvouched
from optensemble.persistence.estimator_schema import FORGOTTEN
from optensemble.persistence.estimator_types import (
    BUNCH,
    MASKED,
    OF_BOOSTERS,
    PREDICTOR,
    SCORER,
    TREE,
    full_name,
    is_reviewed_class,
    is_reviewed_object,
)
from optensemble.persistence.parts import Wrong

_PLACES: dict[str, frozenset[str]] = {
    BUNCH: frozenset(["named_estimators_"]),
    **dict.fromkeys(OF_BOOSTERS, frozenset[str]()),
    **dict.fromkeys(MASKED, frozenset(["cv_results_"])),
    **dict.fromkeys([SCORER, "sklearn.metrics._scorer._PassthroughScorer"], frozenset(["scorer_", "scoring"])),
}
"""Types that do as they are told, by the attributes in which nothing tells them anything at prediction."""

_FUNCTIONS, _TYPES = frozenset(["func", "inverse_func", "score_func", "_score_func"]), frozenset(["dtype"])
"""Attributes that hold functions and types: elsewhere they could be called as methods."""


class _Found(NamedTuple):
    """A part, the attribute that it is in, and whether it belongs to an object of a type that was trusted by name."""

    value: Any
    attribute: str
    trusted: bool


def check_estimator(estimator: Any, trusted: frozenset[str]) -> None:
    """Raise :class:`Wrong` or :class:`Unvouched` unless all parts of an estimator may be asked for predictions.

    What is not kept of an object is set to what is kept in its place: the file may be of another's making.
    """
    left, seen, vouched = [_Found(estimator, "", False)], dict[int, Any](), set[int]()
    while left:
        found = left.pop()
        value, name = found.value, full_name(type(found.value))
        if not found.trusted:
            _require_place(found, name, trusted)
        if id(value) in seen or _is_function(value):
            continue
        seen[id(value)] = value  # kept, so that no other object gets its id
        if name in (TREE, PREDICTOR) and id(value) not in vouched:
            raise Wrong(name, "belong to an estimator", type(value).__name__)
        if is_reviewed_class(name):
            _settle(value)
        for kind in map(full_name, type(value).__mro__):
            for part in CHECKS[kind](value) if kind in CHECKS else ():
                if isinstance(part, Unvouched):
                    if part.name not in trusted:
                        raise part
                else:
                    vouched.add(id(part))
        left += _parts(found, found.trusted or not is_reviewed_object(name))
    _require_answers(estimator)


def _require_place(found: _Found, name: str, trusted: frozenset[str]) -> None:
    """Refuse a type neither reviewed nor trusted, whatever the file called it, and parts out of their place."""
    value, attribute = found.value, found.attribute
    if _is_function(value):
        places = _TYPES if isinstance(value, type) else _FUNCTIONS
        if attribute not in places and all(each.rpartition(".")[2] != value.__name__ for each in trusted):
            raise Wrong(f"the attribute {attribute!r}", "be no function", value.__name__)
    elif name in _PLACES:
        if attribute not in _PLACES[name]:
            raise Wrong(f"the attribute {attribute!r}", f"be no {type(value).__name__}", name)
    elif not is_reviewed_object(name) and name not in trusted and not isinstance(value, np.dtype):
        raise Unvouched(name)


def _is_function(value: Any) -> bool:
    """Return whether something is a function or a type: it has a name, and is not looked into."""
    return callable(value) and isinstance(getattr(value, "__name__", None), str)


def _parts(found: _Found, trusted: bool) -> list[_Found]:
    """Return the objects that an object has; what is in a list is where the list is."""
    value, several = found.value, list[Any]()
    own = {} if isinstance(value, ModuleType | np.ndarray) else getattr(value, "__dict__", {})
    if isinstance(value, dict):
        several = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set):
        several = list(value)
    elif isinstance(value, np.ndarray) and value.dtype == object:
        several = list(np.asarray(value).flat)
    within = [_Found(each, found.attribute, trusted) for each in several]
    return within + [_Found(each, str(name), trusted) for name, each in own.items()]


def _settle(value: Any) -> None:
    """Refuse attributes in the place of methods, which would go around what a method checks, and what is not kept."""
    own = vars(value)
    for name in own:
        if callable(getattr(type(value), name, None)):
            raise Wrong(type(value).__name__, f"have the method {name}", "an attribute")
    if own.get("memory") is not None:
        raise Wrong(type(value).__name__, "have no memory: joblib would unpickle what is in it", type(own["memory"]))
    own.update({name: json.loads(kept) for name, kept in FORGOTTEN.items() if name in own})


def _require_answers(estimator: Any) -> None:
    """Refuse what cannot be asked for anything."""
    if isinstance(estimator, type) or not any(callable(getattr(estimator, each, None)) for each in _ANSWERS):
        raise Wrong("a member", "have predict or decide", type(estimator).__name__)


_ANSWERS = ("predict", "decide", "__call__")
