"""The same as the commands of the README, from Python."""

import numpy as np
import pandas as pd

import optensemble as oe
from optensemble import feasible

history, new, later = (pd.read_csv(f"{name}.csv") for name in ("history", "new", "later"))
streets = pd.read_csv("streets.csv", header=None).to_numpy()
names = ["-".join(street) for street in streets]
minutes = [f"minutes_{name}" for name in names]
models = [(model, oe.Columns([f"{model}_{name}" for name in names])) for model in ("timetable", "sensors")]
policies = [("dispatcher", oe.Columns([f"drove_{name}" for name in names]))]
town = feasible.ShortestPath(streets, source="A1", target="D4")

ensemble = oe.DecisionEnsemble(models=models, policies=policies, feasible=town, sense="min")
ensemble.fit(history, history[minutes])
actions = ensemble.decide(new)
print("first trip:", *town.path(actions[0]))
print("promised:", ensemble.promise(new))
print("audit:", ensemble.audit(later, later[minutes]).verdict)
np.savetxt("actions.csv", actions, delimiter=",")
