"""Mistakes that leave numbers which can be computed with: leaks, units, shifts, copies, policies outside the set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl

import optensemble as oe
from optensemble import feasible
from tests.mistakes.mistake import Group, Seen
from tests.mistakes.names import seen
from tests.mistakes.worlds import FAR, LABELS, LEVEL, MODELS, NEAR, PLAN, POLICIES, World, audited, ensemble, numbers

LEAKS, MODELLED, DECIDED, ASKED = (
    Group("Leaks"),
    Group("Models"),
    Group("Policies and feasible sets"),
    Group("Questions"),
)
SEEN_COLUMNS = ["seen_north", "seen_south", "seen_west"]


def with_model(w: World, said: Any, **options: Any) -> Seen:
    """Fit with another model in the place of near."""
    return seen(ensemble([("near", said), MODELS[1]], **options).fit(w.X, w.Y), w)


# Leaks


@LEAKS.told(
    "a model was given the labels among its inputs",
    "'near': it explains 100 % .*seems to know them",
    before="nothing said; promised 5.88 instead of 5.84",
)
def _(w: World) -> Seen:
    noise = 1e-3 * np.random.default_rng(0).normal(size=w.Y.shape)
    X = w.X.assign(**{name: w.Y.to_numpy()[:, j] + noise[:, j] for j, name in enumerate(NEAR)})
    return seen(ensemble().fit(X, w.Y), w)


@LEAKS.told(
    "the label columns are in X, and listed as a model",
    "'prices': it explains 100 %",
    before="nothing said; promised 6.06 instead of 5.84",
)
def _(w: World) -> Seen:
    return seen(
        ensemble([*MODELS, ("prices", oe.Columns("price_*"))]).fit(w.X.join(w.Y), w.Y), w, X=w.X_new.join(w.Y_new)
    )


@LEAKS.told(
    "a policy acts with foresight",
    "'plan': it earns 100 % .*seems to know them",
    before="nothing said; promised 6.00 instead of 5.84",
)
def _(w: World) -> Seen:
    best = feasible.Simplex(3).argmax(w.Y.to_numpy())
    return seen(ensemble().fit(w.X.assign(**{name: best[:, j] for j, name in enumerate(PLAN)}), w.Y), w)


@LEAKS.told(
    "a random forest was trained on the rows",
    "'forest' explains .*out of bag: these look like",
    before="told, by a plain `UserWarning`",
)
def _(w: World) -> Seen:
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(60, oob_score=True, min_samples_leaf=1, random_state=0)
    forest.fit(w.X[SEEN_COLUMNS].to_numpy(), w.Y.to_numpy())
    model = Wrapped(forest)
    return seen(ensemble([*MODELS, ("forest", model)]).fit(w.X, w.Y), w)


class Wrapped:
    """A model of scikit-learn that picks its own columns."""

    def __init__(self, model: Any) -> None:
        self.model, self.oob_score_ = model, float(model.oob_score_)

    def predict(self, X: pd.DataFrame) -> Any:
        return self.model.predict(X[SEEN_COLUMNS].to_numpy())


@LEAKS.told(
    "a model was trained on the first 60 % of the rows",
    "first 60 % of the rows are .* smaller",
    before="nothing said; promised 5.96 instead of 5.84",
)
def _(w: World) -> Seen:
    first = (np.arange(500) < 300)[:, None]
    said = np.where(first, w.Y + 0.2 * (w.X[NEAR].to_numpy() - w.Y), w.X[NEAR])
    return seen(ensemble().fit(w.X.assign(**{name: said[:, j] for j, name in enumerate(NEAR)}), w.Y), w)


@LEAKS.done(
    "all rows are there twice",
    "1,000 of 1,000 rows are there several times: copies stay together",
    before="nothing said",
)
def _(w: World) -> Seen:
    X, Y = (pd.concat([each, each], ignore_index=True) for each in (w.X, w.Y))
    fitted = ensemble().fit(X, Y)
    return Seen(numbers(fitted, w.X_new), notes=tuple(fitted.notes_))


@LEAKS.told(
    "the rows fitted on are audited", "500 of these 500 rows .*proves nothing", before="the same", kind="UserWarning"
)
def _(w: World) -> Seen:
    return Seen(audited(ensemble().fit(w.X, w.Y).audit(w.X, w.Y)))


@LEAKS.refused(
    "the rows fitted on are given to `update`", "were fitted on or given before. Give new ones", before="the same"
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y).update(w.X[:200], w.Y[:200]), w)


@LEAKS.refused("the same new rows are given to `update` twice", "were fitted on or given before", before="the same")
def _(w: World) -> Seen:
    fitted = ensemble().fit(w.X, w.Y).update(w.X_new, w.Y_new)
    return seen(fitted.update(w.X_new, w.Y_new), w)


# Models


@MODELLED.told(
    "a model is in other units, by a factor of 1,000", "about 1,000 times as large.*Check units", before="nothing said"
)
def _(w: World) -> Seen:
    return with_model(w, lambda X: 1000 * X[NEAR])


@MODELLED.told(
    "one column of a model is in other units", "of label 'price_south' are about 100 times", before="nothing said"
)
def _(w: World) -> Seen:
    return with_model(w, lambda X: X[NEAR] * [1, 100, 1])


@MODELLED.told(
    "labels are in other units than all models", "about 1,000 times as small.*Check units", before="nothing said"
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, 1000 * w.Y), w)


@MODELLED.told(
    "a model says the same in all rows",
    "says the same in all rows",
    before="nothing said; promised 5.71 instead of 5.84",
)
def _(w: World) -> Seen:
    return with_model(w, lambda X: np.full((len(X), 3), LEVEL))


@MODELLED.told(
    "labels are shifted by a row, up",
    "labels of 1 row later.*shifted by 1 row",
    before="nothing said; promised 5.05 instead of 5.84",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, np.roll(w.Y.to_numpy(), 1, axis=0)), w)


@MODELLED.told(
    "labels are shifted by a row, down",
    "labels of 1 row earlier.*shifted by 1 row",
    before="nothing said; promised 4.98 instead of 5.84",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, np.roll(w.Y.to_numpy(), -1, axis=0)), w)


@MODELLED.told("a model is given twice, under two names", "'again' predicts the same as 'near'", before="nothing said")
def _(w: World) -> Seen:
    return seen(ensemble([*MODELS, ("again", oe.Columns("near_*"))]).fit(w.X, w.Y), w)


@MODELLED.told(
    "the sign of a model is flipped",
    "go against the labels.*sign flipped",
    before="nothing said; 5 of 160 rows decided otherwise",
)
def _(w: World) -> Seen:
    return with_model(w, lambda X: -X[NEAR])


@MODELLED.told("a model predicts logarithms", "labels' logarithm.*hand on exp", before="nothing said")
def _(w: World) -> Seen:
    return seen(ensemble([("near", oe.Columns("near_*")), ("far", lambda X: np.exp(X[FAR]))]).fit(w.X, np.exp(w.Y)), w)


@MODELLED.told(
    "columns of a model, an array, are in another order",
    "correlate better.*Check their order",
    before="nothing said; 4 of 160 rows decided otherwise",
)
def _(w: World) -> Seen:
    return with_model(w, lambda X: X[NEAR[::-1]].to_numpy())


@MODELLED.told(
    "labels, an array, have their columns in another order",
    "correlate better.*Check their",
    before="nothing said; 103 of 160 rows decided otherwise",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y[LABELS[::-1]].to_numpy()), w)


@MODELLED.told("a model is far off the labels' level", "times the labels' variance", before="nothing said")
def _(w: World) -> Seen:
    return with_model(w, lambda X: X[NEAR] + 20)


@MODELLED.told(
    "decisions are listed as a model",
    "feasible decisions.*among the policies",
    before="nothing said; 1 of 160 rows decided otherwise",
)
def _(w: World) -> Seen:
    return seen(ensemble([*MODELS, ("plan model", oe.Columns("plan_*"))], []).fit(w.X, w.Y), w)


@MODELLED.told(
    "a label is there twice, under two names",
    "are equal in all 500 rows",
    before="nothing said; promised 5.51 instead of 5.84",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y.assign(price_west=w.Y["price_north"])), w)


@MODELLED.told(
    "a label is there twice, under one name",
    "are equal in all 500 rows",
    before="nothing said; promised 5.50 instead of 5.84",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y[[LABELS[0], LABELS[1], LABELS[1]]]), w)


@MODELLED.told(
    "a label is the same in all rows",
    "is the same in all 500 rows",
    before="nothing said; promised 5.66 instead of 5.84",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y.assign(price_west=5.0)), w)


@MODELLED.refused(
    "the class of a model is given, not an object", "is the class .*Give an object of it", before="the same"
)
def _(w: World) -> Seen:
    return with_model(w, Wrapped)


@MODELLED.refused(
    'a scikit-learn model is not fitted, with `cv="prefit"`', "not fitted", before="the same", kind="NotFittedError"
)
def _(w: World) -> Seen:
    from sklearn.linear_model import LinearRegression

    return with_model(w, LinearRegression(), cv="prefit")


@MODELLED.refused("two members have one name", "'near' is there 2 times. Rename", before="the same")
def _(w: World) -> Seen:
    return seen(ensemble([MODELS[0], ("near", MODELS[1][1])]).fit(w.X, w.Y), w)


@MODELLED.refused("there are too few rows", "at least 100 rows to fit on; got 60", before="the same")
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X[:60], w.Y[:60]), w)


# Policies and feasible sets


def planned(w: World, plan: Any, **options: Any) -> Seen:
    X = w.X.assign(**{name: np.asarray(plan)[:, j] for j, name in enumerate(PLAN)})
    fitted = ensemble(**options).fit(X, w.Y)
    return Seen(numbers(fitted, w.X_new), notes=tuple(fitted.notes_))


@DECIDED.refused(
    "a plan is rounded: its shares sum to 0.999 or 1.001",
    "sums to .*larger tolerance=",
    before="refused, without the constraint that is violated",
    kind="InfeasibleActionError",
)
def _(w: World) -> Seen:
    return planned(w, rounded(w))


@DECIDED.done(
    "a rounded plan, with `tolerance=0.002`", "moved onto the feasible set in .* of 500 rows", before="no such option"
)
def _(w: World) -> Seen:
    return planned(w, rounded(w), tolerance=0.002)


def rounded(w: World) -> Any:
    shares = np.exp(w.X[SEEN_COLUMNS].to_numpy())
    return (shares / shares.sum(axis=1, keepdims=True)).round(3)


@DECIDED.refused(
    "a plan is in percent",
    "sums to 100, must be 1.*more than the whole extent of the set: check units",
    before="refused, without the constraint that is violated",
    kind="InfeasibleActionError",
)
def _(w: World) -> Seen:
    return planned(w, 100 * w.X[PLAN])


@DECIDED.refused(
    "predictions are listed as a policy",
    "outside the feasible set",
    before="refused, without the constraint that is violated",
    kind="InfeasibleActionError",
)
def _(w: World) -> Seen:
    return seen(ensemble(MODELS[:1], [("far", oe.Columns("far_*"))]).fit(w.X, w.Y), w)


@DECIDED.told("a policy does nothing", "does nothing, its actions are 0 in all rows", before="nothing said")
def _(w: World) -> Seen:
    return planned(w, np.zeros((500, 3)), feasible=feasible.Knapsack([1.0, 1.0, 1.0], 1.0))


@DECIDED.told("a policy is given twice, under two names", "'again' decides the same as 'plan'", before="nothing said")
def _(w: World) -> Seen:
    return seen(ensemble(policies=[*POLICIES, ("again", oe.Columns("plan_*"))]).fit(w.X, w.Y), w)


@DECIDED.told("the constraints of a polytope were forgotten", "no constraint beside its bounds", before="nothing said")
def _(w: World) -> Seen:
    return seen(ensemble(policies=(), feasible=feasible.Polytope(lower=[0] * 3, upper=[1] * 3)).fit(w.X, w.Y), w)


@DECIDED.told("a budget is in other units, and never binds", "nothing to decide", before="nothing said")
def _(w: World) -> Seen:
    return seen(ensemble(policies=(), feasible=feasible.Knapsack([1.0, 1.0, 1.0], 1000.0)).fit(w.X, w.Y), w)


@DECIDED.refused(
    "bounds come from columns of X in another order than the labels",
    "upper of the feasible set comes from the columns 'cap_west'.*List the columns in the order of the labels",
    before="nothing said; 160 of 160 rows decided otherwise",
)
def _(w: World) -> Seen:
    caps = ["cap_west", "cap_south", "cap_north"]
    X, later = (each.assign(cap_west=0.2, cap_south=0.5, cap_north=0.9) for each in (w.X, w.X_new))
    fitted = [
        ensemble(policies=(), feasible=feasible.Polytope(A_ub=[[1] * 3], b_ub=[1], upper=oe.Columns(names)))
        for names in (caps, caps[::-1])
    ]
    right = numbers(fitted[1].fit(X, w.Y), later)
    return Seen(numbers(fitted[0].fit(X, w.Y), later), right)


@DECIDED.refused(
    "bounds exclude each other",
    "coordinate 0 has lower bound 1 above its upper bound 0",
    before="the same",
    kind="EmptySetError",
)
def _(w: World) -> Seen:
    return seen(ensemble(feasible=feasible.Box([1.0] * 3, [0.0] * 3)).fit(w.X, w.Y), w)


@DECIDED.refused(
    "the set has another number of coordinates than there are labels",
    r"must have shape \(500, 4\).*got shape \(500, 3\)",
    before="the same",
)
def _(w: World) -> Seen:
    return seen(ensemble(feasible=feasible.Simplex(4)).fit(w.X, w.Y), w)


@DECIDED.refused('`sense="maximise"`', "must be one of 'max', 'min'.*Did you mean 'max'", before="the same")
def _(w: World) -> Seen:
    return seen(ensemble(sense="maximise").fit(w.X, w.Y), w)


# Questions


@ASKED.refused(
    "`decide` before `fit`", r"not fitted yet. Call fit\(X, Y\) first", before="the same", kind="NotFittedError"
)
def _(w: World) -> Seen:
    return Seen(ensemble().decide(w.X_new))


@ASKED.refused(
    "an option is misspelt: `fit(X, Y, time_orderd=True)`",
    "unexpected keyword argument 'time_orderd'. Did you mean 'time_ordered'",
    before="refused, without a proposal",
    kind="TypeError",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y, time_orderd=True), w)  # type: ignore[call-arg]


@ASKED.refused('`time_ordered="day"`', "time_ordered must be", before="the same")
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y, time_ordered="day"), w)  # type: ignore[arg-type]


@ASKED.told(
    "rows are in time order, and `time_ordered=True` was forgotten",
    "in time order by the index of X.*Give time_ordered=True",
    before="nothing said",
)
def _(w: World) -> Seen:
    X, Y = w.X.set_index(w.days), (w.Y + seasons()).set_index(w.days)
    return seen(ensemble().fit(X, Y), w)


def seasons() -> Any:
    """What no model knows, and stays for some time."""
    return 1.5 * np.repeat(np.random.default_rng(0).normal(size=20), 25)[:, None]


@ASKED.refused("a column of subgroups is misspelt", "no column 'regoin'", before="the same")
def _(w: World) -> Seen:
    return seen(ensemble(subgroups="regoin").fit(w.X, w.Y), w)


@ASKED.told(
    "`time_ordered=True` was forgotten, and times are a column of a polars frame",
    "in time order by the column 'day' of X.*Give time_ordered=True",
    before="nothing said",
)
def _(w: World) -> Seen:
    X, Y = (pl.from_pandas(each.reset_index(drop=True)) for each in (w.X.assign(day=w.days), w.Y + seasons()))
    fitted = ensemble().fit(X, Y)
    return Seen(numbers(fitted, X[:50]))


@ASKED.done(
    "a model has other units in new rows than in those fitted on", "rows are unlike the fitted ones", before="the same"
)
def _(w: World) -> Seen:
    fitted = ensemble().fit(w.X, w.Y)
    new = w.X_new.assign(**{name: 1000 * w.X_new[name] for name in NEAR})
    return Seen(numbers(fitted, new), notes=(str(fitted.promise(new)),))


@ASKED.done(
    "labels of the rows to audit are in other units",
    "earned 5,?\\d{3}.*broken, earned more",
    before="the same",
)
def _(w: World) -> Seen:
    audit = ensemble().fit(w.X, w.Y).audit(w.X_new, 1000 * w.Y_new)
    return Seen(audited(audit), notes=(audit.verdict,))


@ASKED.told(
    "label columns of an array are swapped in `update`",
    "earned less than the promise allows for .*Call extend",
    before="the same",
    kind="RefitWarning",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y).update(w.X_new, w.Y_new[LABELS[::-1]].to_numpy()), w)
