"""Estimators as members: which are to be fitted here, copies of them, and what their ``fit`` is given."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from numbers import Integral
from typing import Any

import numpy as np

from optensemble._core.hashing import hash_labels
from optensemble.exceptions import InputError
from optensemble.members.per_label import PerLabel

PREFIT = "prefit"
"""The value of ``cv`` that takes all members as they are."""

_SEEDS = 1 << 31  # scikit-learn takes seeds below 2**32, some libraries only those of a signed number


def to_be_fitted(member: Any, name: str, cv: Any) -> bool:
    """Return whether a member is to be fitted here: an estimator that is not fitted yet.

    Estimators follow scikit-learn's convention (``get_params``; what is learned ends in an underscore). Of other
    objects with a ``fit`` nobody knows whether they are fitted: they are taken as they are unless ``cv`` is given, or
    their ``__sklearn_is_fitted__`` says that they are not.
    """
    if isinstance(cv, str) and cv == PREFIT:
        return False
    if isinstance(member, (list, PerLabel)):
        return _all_alike([to_be_fitted(each, name, cv) for each in parts_of(member)], name)
    if isinstance(member, type) or not callable(getattr(member, "fit", None)):
        return False
    if not _answers(member):
        return False
    if not hasattr(member, "get_params") and not hasattr(member, "__sklearn_is_fitted__") and cv is None:
        return False
    return not _is_fitted(member)


def _answers(member: Any) -> bool:
    """Return whether a member has a method to answer by; some regressors show theirs only once they are fitted."""
    if any(callable(getattr(member, method, None)) for method in ("predict", "decide")):
        return True
    from sklearn.base import is_regressor

    return hasattr(member, "__sklearn_tags__") and is_regressor(member)


def _is_fitted(member: Any) -> bool:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    own = not hasattr(member, "__sklearn_tags__")  # scikit-learn's check is for estimators that have tags
    last = member if own else _last_step(member)
    if own or _answers_unfitted(last):  # of these scikit-learn's check says nothing
        return bool(getattr(last, "__sklearn_is_fitted__", lambda: bool(_learned(last)))())
    try:
        check_is_fitted(member)
    except NotFittedError:
        return False
    return True


def _answers_unfitted(estimator: Any) -> bool:
    """Return whether an estimator answers even if it is not fitted, as a Gaussian process does, by its prior."""
    from sklearn.utils import get_tags

    return hasattr(estimator, "__sklearn_tags__") and not get_tags(estimator).requires_fit


def _last_step(estimator: Any) -> Any:
    """Return the last step of a pipeline; all else as it is."""
    steps = getattr(estimator, "steps", None)
    return _last_step(steps[-1][1]) if isinstance(steps, list) and steps and is_pair(steps[-1]) else estimator


def _learned(member: Any) -> list[str]:
    """Return the attributes that a fit has left, by scikit-learn's convention for their names."""
    slots = [getattr(kind, "__slots__", ()) for kind in type(member).__mro__]
    named = [name for each in slots for name in ([each] if isinstance(each, str) else each)]
    found = dict.fromkeys([*getattr(member, "__dict__", ()), *named])
    return [name for name in found if name.endswith("_") and not name.startswith("__") and hasattr(member, name)]


def _all_alike(found: list[bool], name: str) -> bool:
    if len(set(found)) > 1:
        raise InputError(f"some of the estimators of {name!r} are fitted and others are not. Fit all of them, or none.")
    return any(found)


def parts_of(member: Any) -> list[Any]:
    """Return the estimators that a member is made of: one for each label, or itself."""
    if isinstance(member, PerLabel):
        return member.models
    return list(member) if isinstance(member, list) else [member]


def require_parts(member: Any, name: str) -> None:
    """Refuse a tuple of estimators, and a list in which something is no estimator."""
    if isinstance(member, tuple):
        raise InputError(f"{name!r} is a tuple. Make it a list: one estimator for each label.")
    if isinstance(member, list) and not member:
        raise InputError(f"{name!r} is an empty list. Give one estimator for each label, or one for all of them.")
    for number, part in enumerate(member if isinstance(member, list) else ()):
        if isinstance(part, (type, list)) or not _answers(part):
            kind = f"the class {part.__name__}" if isinstance(part, type) else type(part).__name__
            raise InputError(
                f"{name!r} is a list of estimators, one for each label, and number {number} in it, counted from 0, is "
                f"none; got {kind}. Give an object with predict(X)."
            )


def wrapped(member: Any, name: str, d: int) -> Any:
    """Return a list of estimators as the model of ``d`` labels that it is; all else as it is."""
    require_parts(member, name)
    if not isinstance(member, list):
        return member
    if len(member) != d:
        raise InputError(
            f"{name!r} is a list of {len(member)} estimators; there must be one for each of the {d} labels. Give "
            f"{d} of them, or one estimator for all labels."
        )
    return PerLabel(member)


def unfitted(member: Any) -> Any:
    """Return a copy of an estimator with the same parameters and nothing learned."""
    if isinstance(member, list):
        return [unfitted(each) for each in member]
    if isinstance(member, PerLabel):
        return PerLabel([unfitted(each) for each in member.models])
    if hasattr(member, "get_params"):
        from sklearn.base import clone

        return clone(member)
    fresh = copy.deepcopy(member)
    for attribute in _learned(fresh):
        delattr(fresh, attribute)
    return fresh


def copy_unfitted(members: Any) -> Any:
    """Return members as they were given, pairs or a dict, with copies of those that are not fitted yet.

    Fitted ones are shared: a copy of them would have to be fitted again.
    """
    pairs = list(members.items()) if isinstance(members, Mapping) else members
    if not isinstance(pairs, (list, tuple)) or not all(map(is_pair, pairs)):
        return members
    new = [to_be_fitted(member, str(name), None) for name, member in pairs]
    if not any(new):
        return members
    copies = [(name, unfitted(member) if own else member) for (name, member), own in zip(pairs, new, strict=True)]
    return dict(copies) if isinstance(members, Mapping) else copies


def is_pair(given: Any) -> bool:
    """Return whether something is a list or tuple of two."""
    return isinstance(given, (list, tuple)) and len(given) == 2


def with_seeds(member: Any, name: str, seed: int) -> Any:
    """Give every random state that is None a seed of its own, so that the same rows and seed give the same bits."""
    for each in parts_of(member):
        given = each.get_params(deep=True) if hasattr(each, "get_params") else {}
        open_states = [key for key, value in given.items() if value is None and _is_random_state(key)]
        if open_states:
            each.set_params(**{key: _seed_of(seed, name, key) for key in sorted(open_states)})
    return member


def without_seeds(member: Any, name: str, seed: int) -> Any:
    """Take the seeds away that a member was given by :func:`with_seeds`, so that another seed can take effect."""
    for each in parts_of(member):
        given = each.get_params(deep=True) if hasattr(each, "get_params") else {}
        states = {key: value for key, value in given.items() if _is_random_state(key) and isinstance(value, Integral)}
        own = sorted(key for key, value in states.items() if value == _seed_of(seed, name, key))
        if own:
            each.set_params(**dict.fromkeys(own))
    return member


def _is_random_state(key: str) -> bool:
    return key == "random_state" or key.endswith("__random_state")


def _seed_of(seed: int, name: str, key: str) -> int:
    return int(hash_labels([f"{seed} {name} {key}"])[0] % np.uint64(_SEEDS))


def takes_all_labels(estimator: Any) -> bool:
    """Return whether one estimator can be fitted to several labels at once.

    Regressors of scikit-learn's kind say so by their tags; whatever else has a ``fit`` is given all labels.
    """
    from sklearn.base import is_regressor
    from sklearn.utils import get_tags

    if not hasattr(estimator, "__sklearn_tags__") or not is_regressor(estimator):
        return True
    if get_tags(estimator).target_tags.multi_output:
        return True
    inner = getattr(estimator, "estimator", None)  # a search takes what it searches for
    return inner is not None and hasattr(inner, "__sklearn_tags__") and takes_all_labels(inner)


def is_ensemble(estimator: Any) -> bool:
    """Return whether an estimator is one of our ensembles, alone, at the end of a pipeline or in a search.

    They know labels by their names, and need them as a table even if there is only one.
    """
    last = _last_step(estimator)
    return hasattr(last, "member_terms") or hasattr(_last_step(getattr(last, "estimator", None)), "member_terms")


Arguments = dict[str, Any]
"""Keyword arguments of ``fit``: values with one for every row, and ``time_ordered``."""

_TIME_ORDERED, _WEIGHT = "time_ordered", "sample_weight"


def fit_arguments(estimator: Any, given: Mapping[str, Any]) -> Arguments:
    """Return what an estimator's ``fit`` is given of ``sample_weight``, ``groups`` and ``time_ordered``.

    Of the values of rows, it is those it asks for by metadata routing. Where that is not enabled, it is weights if it
    takes them, and of our own ensembles groups too. These are told in any case whether rows are in time order.
    """
    from sklearn import get_config

    known = {key: value for key, value in given.items() if value is not None}
    if not get_config()["enable_metadata_routing"]:
        keys = {name: _fit_key(estimator, name) for name in known}
        return {key: known[name] for name, key in keys.items() if key is not None}
    ordered = known.pop(_TIME_ORDERED, None)
    told = {} if ordered is None or not hasattr(estimator, "member_terms") else {_TIME_ORDERED: ordered}
    return told | (_routed(estimator, known) if known and hasattr(estimator, "get_params") else {})


def _routed(estimator: Any, given: Mapping[str, Any]) -> Arguments:
    from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping

    mapping = MethodMapping().add(caller="fit", callee="fit")
    router = MetadataRouter(owner=type(estimator).__name__).add(member=estimator, method_mapping=mapping)
    return dict(router.route_params(caller="fit", params=dict(given)).member.fit)


def _fit_key(estimator: Any, name: str) -> str | None:
    """Return the argument of ``fit`` for this; that of a pipeline is its last step's. None if there is none."""
    terms = getattr(estimator, "member_terms", None)
    if terms is not None:  # our own ensembles say what they take
        return name if name in terms else None
    if name == _WEIGHT and _takes_weights(estimator):
        return name
    steps = getattr(estimator, "steps", None)
    if not isinstance(steps, list) or not steps:
        return None
    inner = _fit_key(steps[-1][1], name)
    return None if inner is None else f"{steps[-1][0]}__{inner}"


def _takes_weights(estimator: Any) -> bool:
    """Return whether ``fit`` takes weights; those that hand them on to another estimator do if that one does."""
    from sklearn.linear_model import RANSACRegressor
    from sklearn.multioutput import MultiOutputRegressor
    from sklearn.utils.validation import has_fit_parameter

    if not hasattr(estimator, "fit") or not has_fit_parameter(estimator, _WEIGHT):
        return False
    handed_on = isinstance(estimator, (MultiOutputRegressor, RANSACRegressor)) and estimator.estimator is not None
    return not handed_on or has_fit_parameter(estimator.estimator, _WEIGHT)


def nested(members: Any, what: str) -> Iterator[tuple[str, Any]]:
    """Go through members that are estimators, and their parameters, under the names that ``set_params`` knows."""
    pairs = members.items() if isinstance(members, Mapping) else members
    if not isinstance(pairs, (list, tuple)) and not isinstance(members, Mapping):
        return
    for name, member in (pair for pair in pairs if is_pair(pair)):
        yield from _with_parameters(f"{what}__{name}", member)


def _with_parameters(key: str, member: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(member, (list, PerLabel)):
        yield key, member
        for number, each in enumerate(parts_of(member)):
            yield from _with_parameters(f"{key}__{number}", each)
    elif not isinstance(member, type) and hasattr(member, "get_params"):
        yield key, member
        yield from ((f"{key}__{name}", value) for name, value in member.get_params(deep=True).items())


def set_nested(members: Any, key: str, value: Any, what: str, cv: Any) -> Any:
    """Return members with one of them replaced, or with a parameter of one set; ``key`` is ``name`` or ``name__…``."""
    pairs = list(members.items() if isinstance(members, Mapping) else members or ())
    names = [name for name, _ in pairs]
    name = max((each for each in names if key == each or key.startswith(f"{each}__")), key=len, default=None)
    if name is None:
        from optensemble._core.suggestions import did_you_mean

        first = key.partition("__")[0]
        raise InputError(f"{what} has no member {first!r}.{did_you_mean(first, names)}")
    rest = key[len(name) + 2 :]
    at = names.index(name)
    changed = value if not rest else _with_parameter(pairs[at][1], rest, value, name, cv)
    pairs[at] = (name, changed)
    return dict(pairs) if isinstance(members, Mapping) else pairs


def _with_parameter(member: Any, key: str, value: Any, name: str, cv: Any) -> Any:
    if not to_be_fitted(member, name, cv):
        raise InputError(
            f"{key} of {name!r} would change nothing: it is taken as it is, and not fitted here. Give an estimator "
            "that is not fitted yet."
        )
    if not isinstance(member, list):
        member.set_params(**{key: value})
        return member
    number, _, rest = key.partition("__")
    if not number.isdigit() or int(number) >= len(member):
        raise InputError(f"{name!r} is a list of {len(member)} estimators, numbered from 0; got {number!r}.")
    parts = list(member)
    parts[int(number)] = _with_parameter(parts[int(number)], rest, value, name, cv) if rest else value
    return parts
