"""The same in Python."""

import pandas as pd

import optensemble as oe
from optensemble import feasible

history, new, later = (pd.read_csv(f"{name}.csv") for name in ("history", "new", "later"))
towns = ("north", "south", "west")
alpha, beta, plan = (oe.Columns([f"{name}_{town}" for town in towns]) for name in ("alpha", "beta", "plan"))
prices = [f"price_{town}" for town in towns]

shares = feasible.Polytope(A_eq=[[1, 1, 1]], b_eq=[1], upper=0.6)
ensemble = oe.DecisionEnsemble(models=[("alpha", alpha), ("beta", beta)], policies=[("plan", plan)], feasible=shares)
ensemble.fit(history, history[prices], time_ordered=True)

print(ensemble.promise(new))
print(ensemble.audit(later, later[prices]).verdict)
written = pd.read_csv("decisions.csv")[[f"action_{town}" for town in towns]]
print("the same decisions:", (ensemble.decide(new).to_numpy() == written.to_numpy()).all())

# ruff: noqa: T201
