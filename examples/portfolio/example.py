"""The same as the commands of its page, from Python."""

import numpy as np
import pandas as pd

import optensemble as oe
from optensemble import feasible

history, new, later = (pd.read_csv(f"{name}.csv") for name in ("history", "new", "later"))
assets = ["bonds", "credit", "gold", "home", "property", "world"]
returns = [f"return_{asset}" for asset in assets]
models = [(name, oe.Columns(f"{name}_*")) for name in ("macro", "trend", "letter")]
shares = feasible.Knapsack(np.ones(6), capacity=1.0, upper=0.4)
traded = feasible.WithCost(shares, turnover=(oe.Columns("held_*"), 0.2))

ensemble = oe.DecisionEnsemble(models=models, feasible=traded, sense="max")
ensemble.fit(history, history[returns], time_ordered=True)
actions = ensemble.decide(new)
print("first week:", dict(zip(assets, actions.iloc[0].round(2).tolist(), strict=True)))
print("promised:", ensemble.promise(new))
print("audit:", ensemble.audit(later, later[returns]).verdict)
np.savetxt("actions.csv", actions, delimiter=",")
