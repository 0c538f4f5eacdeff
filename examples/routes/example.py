"""The same as the commands of its page, from Python."""

import numpy as np
import pandas as pd

import optensemble as oe
from optensemble import feasible

history, new, later = (pd.read_csv(f"{name}.csv") for name in ("history", "new", "later"))
streets = pd.read_csv("streets.csv", header=None).to_numpy()
minutes = [f"minutes_{tail}-{head}" for tail, head in streets]
models = [(name, oe.Columns(f"{name}_*")) for name in ("timetable", "sensors")]
policies = [("dispatcher", oe.Columns("drove_*"))]
ends = {"source": oe.Columns("from"), "target": oe.Columns("to")}
town = feasible.ShortestPath(streets, **ends, closed=oe.Columns("closed_*"), directed=False)

terms = {"sense": "min", "subgroups": "works", "context": None}  # as in the job file, which names no context
ensemble = oe.DecisionEnsemble(models=models, policies=policies, feasible=town, **terms)
ensemble.fit(history, history[minutes])
actions = ensemble.decide(new)
print("first trip:", *town.for_rows(new).of_row(0).path(actions.to_numpy()[0]))
print("promised:", ensemble.promise(new))
print("audit:", ensemble.audit(later, later[minutes]).verdict)
np.savetxt("actions.csv", actions, delimiter=",")
