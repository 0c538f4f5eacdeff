"""Forecasts that anyone would try, without what an ensemble adds to them."""

from __future__ import annotations

from optensemble._core.engine import Engine, Local
from optensemble._core.threads import one_blas_thread
from optensemble.members.blocks import ArrayBlocks
from optensemble.stacking.forecaster import Forecaster
from optensemble.stacking.linear import learn_linear
from optensemble.stacking.moments import Basis, FirstPass, look_first
from optensemble.stats.row_design import RowDesign


def learn_baselines(blocks: ArrayBlocks, design: RowDesign, engine: Engine = Local()) -> Forecaster:  # noqa: B008
    """Fit only what anyone would try: mean, stack and ridge."""
    with one_blas_thread():
        first = blocks.first
        basis = Basis.of(first, design.rows)
        linear = learn_linear(engine.run(look_first, blocks, FirstPass(design, basis)).moments, basis, first.outputs)
    return Forecaster(linear.mean, linear.scale, linear.stack, linear.ridge, filling=linear.filling)
