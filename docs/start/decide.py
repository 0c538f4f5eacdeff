"""The same in Python."""

import numpy as np
import pandas as pd

import optensemble as oe
from optensemble import feasible

history, new, later = (pd.read_csv(f"{name}.csv") for name in ("history", "new", "later"))
prices = [f"price_{hour:02d}" for hour in range(24)]
models = [(name, oe.Columns(f"{name}_*")) for name in ("demand", "weather", "yesterday")]
limits = np.loadtxt("limits.csv", delimiter=",")
battery = feasible.Polytope(A_ub=limits, b_ub=[oe.Columns("free_*"), oe.Columns("room_*")], lower=-0.5, upper=0.5)

ensemble = oe.DecisionEnsemble(models=models, feasible=battery, subgroups="reserve")
ensemble.fit(history, history[prices], time_ordered=True)

print(ensemble.promise(new))
print(ensemble.audit(later, later[prices]).verdict)
written = pd.read_csv("decisions.csv").filter(like="action_")
print("the same decisions:", (ensemble.decide(new).to_numpy() == written.to_numpy()).all())

# ruff: noqa: T201
