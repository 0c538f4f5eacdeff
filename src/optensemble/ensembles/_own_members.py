"""Members that an ensemble fits itself: which they are, how they are fitted, and their parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar, Self

from optensemble._core.arrays import Floats
from optensemble._core.estimator import BaseEstimator
from optensemble._core.progress import Progress
from optensemble._core.suggestions import listed
from optensemble._core.validation import require_number
from optensemble.exceptions import InputError
from optensemble.members.alignment import OutputNames
from optensemble.members.cross_fitting import (
    DECIDE,
    PREDICT,
    CrossFitted,
    Trainee,
    TrainingRows,
    cross_fit,
    member_folds,
    require_cv,
)
from optensemble.members.estimators import (
    copy_unfitted,
    nested,
    require_parts,
    set_nested,
    to_be_fitted,
    unfitted,
    without_seeds,
    wrapped,
)
from optensemble.members.fit_inputs import LabelledBatch
from optensemble.members.query import Members


class OwnMembers(BaseEstimator):
    """The part of an ensemble that fits members; not to be used itself.

    ``member_parameters`` are the parameters that hold members, and ``member_terms`` the arguments of ``fit`` that an
    ensemble hands on where this one is its member. After a fit ``cross_fitted_`` has the names of the
    members that were fitted here.
    """

    member_parameters: ClassVar[tuple[str, ...]] = ("models", "policies")
    member_terms: ClassVar[tuple[str, ...]] = ("time_ordered",)
    cv: Any
    members_: Members
    labels_: list[str] | None
    cross_fitted_: list[str]
    _seed: int | None

    # Parameters, as scikit-learn's heterogeneous ensembles have them

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with ``deep`` also members and their own parameters.

        A member is there as ``models__forest``, its parameter as ``models__forest__max_depth``.
        """
        found: dict[str, Any] = super().get_params(deep=deep)
        if deep:
            for what in self.member_parameters:
                found |= dict(nested(getattr(self, what), what))
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters, by the names that :meth:`get_params` has for them."""
        inside = {key: value for key, value in params.items() if self._is_nested(key)}
        super().set_params(**{key: value for key, value in params.items() if key not in inside})
        for key in sorted(inside, key=lambda each: each.count("__")):  # a member first, then its parameters
            what, _, rest = key.partition("__")
            setattr(self, what, set_nested(getattr(self, what), rest, inside[key], what, self.cv))
        return self

    def _is_nested(self, key: str) -> bool:
        return key.partition("__")[0] in self.member_parameters and "__" in key

    def get_metadata_routing(self) -> Any:
        """Return what ``fit`` asks for of ``sample_weight`` and ``groups``, for itself and for members it fits."""
        from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping

        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        mapping = MethodMapping().add(caller="fit", callee="fit")
        for what in self.member_parameters:
            for name, member in nested(getattr(self, what), what):
                if name.count("__") == 1 and hasattr(member, "get_metadata_routing"):
                    router.add(**{name: member}, method_mapping=mapping)
        return router

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks about estimators: of X the ensemble takes what all of its members take."""
        from sklearn.utils import get_tags

        tags, found = super().__sklearn_tags__(), dict[str, Any]()
        for what in self.member_parameters:
            found |= {name: each for name, each in nested(getattr(self, what), what) if name.count("__") == 1}
        known = [get_tags(each).input_tags for each in found.values() if hasattr(each, "__sklearn_tags__")]
        tags.input_tags.allow_nan = all(each.allow_nan for each in known)
        tags.input_tags.sparse = all(each.sparse for each in known)
        tags.target_tags.required = tags.target_tags.multi_output = True
        return tags

    def _same_parameters(self) -> Self:
        """Return an ensemble of the same parameters that is not fitted; members are shared."""
        return type(self)(**self.get_params(deep=False))

    def __sklearn_clone__(self) -> Self:
        # fitted members are shared, where scikit-learn would make them unfitted copies
        copies = {what: copy_unfitted(getattr(self, what)) for what in self.member_parameters}
        found = self._same_parameters().set_params(**copies)
        if hasattr(self, "_metadata_request"):  # as scikit-learn's own clone does
            found._metadata_request = deepcopy(self._metadata_request)
        return found

    # Fitting

    def _find_trainees(self, models: Members, policies: Members = ()) -> list[Trainee]:  # type: ignore[assignment]
        """Return the members that are to be fitted here."""
        require_cv(self.cv)
        found = [Trainee(name, member, PREDICT) for name, member in models]
        found += [Trainee(name, member, DECIDE) for name, member in policies]
        for each in found:
            require_parts(each.member, each.name)
        return [each for each in found if to_be_fitted(each.member, each.name, self.cv)]

    def _train(
        self,
        trainees: Sequence[Trainee],
        rows: Sequence[LabelledBatch],
        *,
        time_ordered: bool,
        seed: int | None,
        n_jobs: int | None,
        progress: Progress,
        on_error: str = "raise",
    ) -> CrossFitted:
        """Fit members out of fold and on all rows; nothing is done if there are none to be fitted."""
        if not trainees:
            return CrossFitted()
        if n_jobs is not None:
            require_number(n_jobs, "n_jobs", whole=True)
        training = TrainingRows.of(rows, time_ordered=time_ordered)
        d = training.labels.shape[1]
        trainees = [each._replace(member=wrapped(each.member, each.name, d)) for each in trainees]
        splits = member_folds(self.cv, training, time_ordered=time_ordered, seed=seed or 0)
        terms: dict[str, Any] = {"names": OutputNames(self.labels_), "seed": seed or 0, "on_error": on_error}
        return cross_fit(trainees, training, splits, n_jobs=n_jobs, progress=progress, **terms)

    def _take_fitted(self, found: CrossFitted, d: int) -> None:
        """Put fitted members in the place of those that were to be fitted."""
        self.members_ = [(name, found.members.get(name, wrapped(member, name, d))) for name, member in self.members_]
        self.cross_fitted_ = [name for name, _ in self.members_ if name in found.members]

    def _given_fitted(self) -> Members:
        """Return the members that came fitted; None stands for those that were fitted here."""
        return [(name, None if name in self.cross_fitted_ else member) for name, member in self.members_]

    def _as_given(self, members: Members) -> Members:
        """Return members as they were before the fit: those that were fitted here unfitted, without its seeds."""
        own, seed = set(self.cross_fitted_), self._seed or 0
        return [(name, without_seeds(unfitted(each), name, seed) if name in own else each) for name, each in members]


def refuse_streamed(trainees: Sequence[Trainee]) -> None:
    """Refuse to fit members on rows that are read as they are needed."""
    if trainees:
        names = [each.name for each in trainees]
        raise InputError(
            f"{listed(names)} {'is' if len(names) == 1 else 'are'} not fitted yet, and members are fitted here only on "
            "rows in memory; these are read from a source as they are needed. Fit them elsewhere, on other rows "
            "(partial_fit, or Dask or XGBoost on a cluster), or give rows as arrays or a frame."
        )


NOTHING_SAID: Mapping[str, Floats] = {}
