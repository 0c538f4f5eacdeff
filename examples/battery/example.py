"""The same as the commands of its page, from Python."""

import numpy as np
import pandas as pd

import optensemble as oe
from optensemble import feasible

history, new, later = (pd.read_csv(f"{name}.csv") for name in ("history", "new", "later"))
hours = [f"{hour:02d}" for hour in range(24)]
prices = [f"price_{hour}" for hour in hours]
models = [(name, oe.Columns(f"{name}_*")) for name in ("demand", "weather", "yesterday")]
A = np.loadtxt("limits.csv", delimiter=",")
battery = feasible.Polytope(A_ub=A, b_ub=[oe.Columns("free_*"), oe.Columns("room_*")], lower=-0.5, upper=0.5)

ensemble = oe.DecisionEnsemble(models=models, feasible=battery, sense="max", subgroups="reserve")
ensemble.fit(history, history[prices], time_ordered=True)
actions = ensemble.decide(new)
print("first day: sells at", *[hour for hour, sold in zip(hours, actions.iloc[0], strict=True) if sold > 0])
print("promised:", ensemble.promise(new))
print("audit:", ensemble.audit(later, later[prices]).verdict)
np.savetxt("actions.csv", actions, delimiter=",")
