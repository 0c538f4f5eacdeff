"""The same as the commands of its page, from Python."""

import numpy as np
import pandas as pd

import optensemble as oe
from optensemble import feasible

history, new, later = (pd.read_csv(f"{name}.csv") for name in ("history", "new", "later"))
sites = ["pier", "beach", "ferry", "market", "castle", "station", "lake", "summit", "lift", "meadow"]
takings = [f"takings_{site}" for site in sites]
models = [(name, oe.Columns(f"{name}_*")) for name in ("bookings", "weather", "last_year")]
regions, large = np.repeat(np.eye(3), [3, 3, 4], axis=1), [1, 0, 0, 1, 0, 1, 0, 0, 1, 0]
limits = [4, 2, 2, 2, oe.Columns("helpers")]
kiosks = feasible.MixedInteger(A_ub=[np.ones(10), *regions, large], b_ub=limits, upper=oe.Columns("keeper_*"))

ensemble = oe.DecisionEnsemble(models=models, feasible=kiosks, sense="max", subgroups="kind")
ensemble.fit(history, history[takings], time_ordered=True)
actions = ensemble.decide(new)
print("first day:", [site for site, opens in zip(sites, actions.iloc[0], strict=True) if opens])
print("promised:", ensemble.promise(new))
print("audit:", ensemble.audit(later, later[takings]).verdict)
np.savetxt("actions.csv", actions, delimiter=",")
