"""Mistakes with names: rows and columns in another order, missing, or there twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import optensemble as oe
from tests.mistakes.mistake import Group, Seen
from tests.mistakes.worlds import FAR, LABELS, MODELS, NEAR, PLAN, World, audited, ensemble, numbers

ROWS, COLUMNS = Group("Rows that belong together"), Group("Columns that belong together")
SWAPPED = LABELS[::-1]


def seen(fitted: oe.DecisionEnsemble, w: World, clean: oe.DecisionEnsemble | None = None, X: Any = None) -> Seen:
    """Compare with the clean run, or with another one."""
    clean = ensemble().fit(w.X, w.Y) if clean is None else clean
    return Seen(numbers(fitted, w.X_new if X is None else X), numbers(clean, w.X_new))


def shuffled(table: Any) -> Any:
    return table.sample(frac=1, random_state=0)


# Rows


@ROWS.put_right("labels are shuffled: `Y.sample(frac=1)`", before="nothing said; promised 5.03 instead of 5.84")
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, shuffled(w.Y)), w)


@ROWS.put_right("X is shuffled, labels are not", before="nothing said; promised 4.96 instead of 5.85")
def _(w: World) -> Seen:
    X = shuffled(w.X)
    return seen(ensemble().fit(X, w.Y), w, ensemble().fit(X, w.Y.loc[X.index]))


@ROWS.put_right("labels are sorted by their index, in `audit`", before="nothing said; earned 4.91 instead of 5.86")
def _(w: World) -> Seen:
    fitted = ensemble().fit(w.X, w.Y)
    return Seen(audited(fitted.audit(w.X_new, w.Y_new.sort_index())), audited(fitted.audit(w.X_new, w.Y_new)))


@ROWS.put_right("`groups` is a series in another order than X", before="nothing said")
def _(w: World) -> Seen:
    clean = ensemble().fit(w.X, w.Y, groups=w.X["customer"])
    return seen(ensemble().fit(w.X, w.Y, groups=w.X["customer"].sort_values()), w, clean)


@ROWS.put_right("`sample_weight` is a series in another order than X", before="no such option")
def _(w: World) -> Seen:
    weight = pd.Series(np.linspace(0.5, 1.5, len(w.X)), index=w.X.index)
    clean = ensemble().fit(w.X, w.Y, sample_weight=weight)
    return seen(ensemble().fit(w.X, w.Y, sample_weight=weight.sort_index()), w, clean)


@ROWS.put_right("a model returns its rows sorted by their index", before="nothing said; promised 5.71 instead of 5.84")
def _(w: World) -> Seen:
    models = [("near", lambda X: X[NEAR].sort_index()), MODELS[1]]
    return seen(ensemble(models).fit(w.X, w.Y), w)


@ROWS.put_right(
    "times of the index are shuffled, with `time_ordered=True`", before="nothing said; promised 5.85 instead of 6.05"
)
def _(w: World) -> Seen:
    X, Y = w.X.set_index(w.days), w.Y.set_index(w.days)
    clean = ensemble().fit(X, Y, time_ordered=True)
    return seen(ensemble().fit(shuffled(X), shuffled(Y), time_ordered=True), w, clean)


@ROWS.refused(
    "labels have the index of another table", "different indexes.*Give both the same index", before="nothing said"
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y.set_index("other-" + w.Y.index)), w)


@ROWS.refused(
    "an id is there twice in the index, and labels are in another order",
    "several times",
    before="nothing said; promised 5.03 instead of 5.84",
)
def _(w: World) -> Seen:
    index = w.X.index.where(np.arange(len(w.X)) != 7, w.X.index[8])
    return seen(ensemble().fit(w.X.set_index(index), shuffled(w.Y.set_index(index))), w)


@ROWS.refused(
    "one row was dropped from the labels",
    "X has 500 rows and Y has 499: 'case-\\d+' of X is not in Y. Give both the same rows",
    before="refused by its shape alone",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y.drop(w.Y.index[100])), w)


@ROWS.refused(
    "some times of the index are missing, with `time_ordered=True`", "no time in 1 of 500 rows", before="nothing said"
)
def _(w: World) -> Seen:
    days = w.days.where(np.arange(len(w.X)) != 9)
    return seen(ensemble().fit(w.X.set_index(days), w.Y.set_index(days), time_ordered=True), w)


@ROWS.refused("a row was dropped from `groups`", "groups.*500 rows", before="the same")
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y, groups=w.X["customer"].tolist()[1:]), w)


@ROWS.refused("`sample_weight` has too few weights", "one weight for each of the 500 rows", before="no such option")
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y, sample_weight=np.ones(499)), w)


# Columns


@COLUMNS.put_right(
    "label columns are in another order than the members' in `fit`",
    before="nothing said; 103 of 160 rows decided otherwise",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y[SWAPPED]), w)


@COLUMNS.put_right("label columns are swapped in `audit`", before="nothing said; earned 4.96 instead of 5.86")
def _(w: World) -> Seen:
    fitted = ensemble().fit(w.X, w.Y)
    return Seen(audited(fitted.audit(w.X_new, w.Y_new[SWAPPED])), audited(fitted.audit(w.X_new, w.Y_new)))


@COLUMNS.put_right(
    "label columns are swapped in `update`", before="told that the promise was broken; promised 5.63 instead of 5.85"
)
def _(w: World) -> Seen:
    clean = ensemble().fit(w.X, w.Y).update(w.X_new, w.Y_new)
    return seen(ensemble().fit(w.X, w.Y).update(w.X_new, w.Y_new[SWAPPED]), w, clean)


@COLUMNS.put_right("label columns are swapped in `score`", before="nothing said; scored 4.96 instead of 5.86")
def _(w: World) -> Seen:
    fitted = ensemble().fit(w.X, w.Y)
    found = [fitted.score(w.X_new, labels) for labels in (w.Y_new[SWAPPED], w.Y_new)]
    return Seen(np.array(found[:1]), np.array(found[1:]))


@COLUMNS.put_right("label columns are swapped in `extend`", before="nothing said; promised 5.61 instead of 5.85")
def _(w: World) -> Seen:
    clean = ensemble().fit(w.X, w.Y).extend(X=w.X_new, Y=w.Y_new)
    return seen(ensemble().fit(w.X, w.Y).extend(X=w.X_new, Y=w.Y_new[SWAPPED]), w, clean)


@COLUMNS.put_right(
    "a model's `predict` returns a frame with swapped columns", before="nothing said; 4 of 160 rows decided otherwise"
)
def _(w: World) -> Seen:
    models = [("near", lambda X: X[NEAR[::-1]]), MODELS[1]]
    return seen(ensemble(models).fit(w.X, w.Y), w)


@COLUMNS.put_right(
    "a policy returns a frame with swapped columns", before="nothing said; 3 of 160 rows decided otherwise"
)
def _(w: World) -> Seen:
    return seen(ensemble(policies=[("plan", lambda X: X[PLAN[::-1]])]).fit(w.X, w.Y), w)


@COLUMNS.put_right(
    'the columns of a pattern, `Columns("near_*")`, are in another order in X',
    before="nothing said; promised 5.73 instead of 5.84",
)
def _(w: World) -> Seen:
    X = w.X[[*NEAR[::-1], *w.X.columns.difference(NEAR)]]
    return seen(ensemble().fit(X, w.Y), w)


class ByPosition:
    """A model that was trained on an array: it knows columns by their places."""

    def predict(self, X: Any) -> Any:
        return np.asarray(X)[:, :3]


@COLUMNS.put_right(
    "columns of X are in another order in `decide`, and a model goes by position",
    before="nothing said; promised 5.80 instead of 5.84",
)
def _(w: World) -> Seen:
    fitted = ensemble([("places", ByPosition()), MODELS[1]]).fit(w.X[[*NEAR, *FAR, *PLAN]], w.Y)
    return seen(fitted, w, fitted, w.X_new[[*FAR, *PLAN, *NEAR]])._replace(
        clean=numbers(fitted, w.X_new[[*NEAR, *FAR, *PLAN]])
    )


@COLUMNS.put_right(
    "X has a further column, in front, in `decide`", before="nothing said; promised 65.28 instead of 5.84"
)
def _(w: World) -> Seen:
    X, new = w.X[[*NEAR, *FAR, *PLAN]], w.X_new[[*NEAR, *FAR, *PLAN]]
    fitted = ensemble([("places", ByPosition()), MODELS[1]]).fit(X, w.Y)
    return Seen(numbers(fitted, w.X_new[["customer", *new.columns]]), numbers(fitted, new))


@COLUMNS.put_right(
    "label columns of a polars frame are swapped in `audit`", before="nothing said; earned 4.96 instead of 5.86"
)
def _(w: World) -> Seen:
    X, Y, X_new, Y_new = (pl.from_pandas(each) for each in (w.X, w.Y, w.X_new, w.Y_new))
    fitted = ensemble().fit(X, Y)
    return Seen(audited(fitted.audit(X_new, Y_new[SWAPPED])), audited(fitted.audit(X_new, Y_new)))


@COLUMNS.put_right(
    "label columns of a pyarrow table are swapped in `audit`", before="nothing said; earned 4.96 instead of 5.86"
)
def _(w: World) -> Seen:
    X, Y, X_new, Y_new = (pa.Table.from_pandas(each) for each in (w.X, w.Y, w.X_new, w.Y_new))
    fitted = ensemble().fit(X, Y.select(LABELS))
    return Seen(audited(fitted.audit(X_new, Y_new.select(SWAPPED))), audited(fitted.audit(X_new, Y_new.select(LABELS))))


@COLUMNS.put_right(
    "numbered label columns, `0, 1, 2`, are swapped in `audit`", before="nothing said; earned 4.96 instead of 5.86"
)
def _(w: World) -> Seen:
    fitted = ensemble().fit(w.X, w.Y.to_numpy())
    later = pd.DataFrame(w.Y_new.to_numpy())
    return Seen(audited(fitted.audit(w.X_new, later[[2, 1, 0]])), audited(fitted.audit(w.X_new, later)))


@COLUMNS.refused(
    "a list of columns, `Columns([...])`, is in another order than the labels",
    "List them in the labels' order",
    before="nothing said; 4 of 160 rows decided otherwise",
)
def _(w: World) -> Seen:
    return seen(ensemble([("near", oe.Columns(NEAR[::-1])), MODELS[1]]).fit(w.X, w.Y), w)


@COLUMNS.refused(
    "two models have their columns in different orders, and labels have no names",
    "Give Y as a frame",
    before="nothing said; 8 of 160 rows decided otherwise",
)
def _(w: World) -> Seen:
    models = [MODELS[0], ("far", lambda X: X[FAR[::-1]])]
    return seen(ensemble(models).fit(w.X, w.Y.to_numpy()), w)


@COLUMNS.refused(
    "labels of other names are given to `audit`", "but the labels are 'price_north'", before="nothing said"
)
def _(w: World) -> Seen:
    later = w.Y_new.set_axis(["margin", "weight", "volume"], axis=1)
    return Seen(audited(ensemble().fit(w.X, w.Y).audit(w.X_new, later)))


@COLUMNS.refused("a column of X is missing in `decide`", "X has no column 'near_south'", before="the same")
def _(w: World) -> Seen:
    return seen(ensemble([("near", oe.Columns(NEAR)), MODELS[1]]).fit(w.X, w.Y), w, X=w.X_new.drop(columns=NEAR[1]))


@COLUMNS.refused(
    "a column of a pattern is missing in `decide`",
    "found by 'near_\\*', but the labels are.*one of these columns for each label",
    before="refused by its shape alone",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y), w, X=w.X_new.drop(columns=NEAR[1]))


@COLUMNS.refused("X has a column twice", "it has 'near_west' 2 times. Rename or drop", before="refused")
def _(w: World) -> Seen:
    return seen(ensemble().fit(pd.concat([w.X, w.X[["near_west"]]], axis=1), w.Y), w)


@COLUMNS.refused(
    "X is an array in `decide`, and members are named columns", "X is an array.*which has none", before="the same"
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y), w, X=w.X_new.drop(columns="region").to_numpy())


@COLUMNS.refused(
    "X is a frame, and members are numbered columns", "Name its columns, or give X as an array", before="the same"
)
def _(w: World) -> Seen:
    return seen(ensemble([("near", oe.Columns([0, 1, 2]))]).fit(w.X, w.Y), w)


@COLUMNS.refused(
    "the name of a column is misspelt", "no column 'naer_north'. Did you mean 'near_north'", before="the same"
)
def _(w: World) -> Seen:
    return seen(ensemble([("near", oe.Columns(["naer_north", *NEAR[1:]]))]).fit(w.X, w.Y), w)


@COLUMNS.refused(
    "the labels have an id among them", r"must have shape \(500, 3\).*got shape \(500, 4\)", before="the same"
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y.assign(number=range(len(w.Y)))), w)


@COLUMNS.refused(
    "a model predicts one label of three",
    r"model 'near' must have shape \(500, 3\).*got shape \(500,\)",
    before="the same",
)
def _(w: World) -> Seen:
    return seen(ensemble([("near", lambda X: X["near_north"])]).fit(w.X, w.Y), w)


@COLUMNS.refused("predictions are transposed", r"got shape \(3, 500\)", before="the same")
def _(w: World) -> Seen:
    return seen(ensemble([("near", lambda X: X[NEAR].to_numpy().T)]).fit(w.X, w.Y), w)


@COLUMNS.refused(
    "a pattern finds a further column, `near_total`", "list those that are meant", before="refused by its shape alone"
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X.assign(near_total=0.0), w.Y), w)
