"""The fit of a DecisionEnsemble: functions of the rows; the estimator keeps what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.deferred import pd
from optensemble._core.engine import Engine
from optensemble._core.hashing import Hashes
from optensemble._core.progress import Progress, Stage
from optensemble._core.sums import Sums
from optensemble._core.threads import one_blas_thread
from optensemble.evaluation.audit_inputs import AuditInputs
from optensemble.evaluation.lemmas_out_of_fold import (
    CellPass,
    CellSums,
    LemmaSums,
    Measured,
    Played,
    audited_cells,
    verify,
)
from optensemble.evaluation.payoff_record import Record
from optensemble.evaluation.payoff_totals import TIME_BINS, PairTotals, pair_sample
from optensemble.evaluation.possible_payoffs import LabelRange
from optensemble.evaluation.promise import Promise
from optensemble.members.absence import absence_notes, require_present
from optensemble.members.blocks import ArrayBlocks, Block, Chunk
from optensemble.members.fit_inputs import require_size, require_weights
from optensemble.members.sources import SourceBlocks
from optensemble.stacking.arms import ENSEMBLE, ENSEMBLE_NAME, last_of
from optensemble.stacking.cells import Counts, RowCells, make_layout
from optensemble.stacking.contest import (
    ArmSums,
    ChoicePass,
    Contest,
    FoldChoices,
    known_forecasts,
    learn_choices,
    list_candidates,
    look_at_choices,
    play_contest,
)
from optensemble.stacking.corrections import Corrections, PatchCells, Run, learn_corrections, make_forecaster
from optensemble.stacking.filling import PairPass, look_at_pairs
from optensemble.stacking.final_policy import FinalPolicy, PolicyPass, title_all
from optensemble.stacking.forecaster import AVERAGE, CORRECTED, MEAN, RIDGE, STACK
from optensemble.stacking.leaderboard import (
    Competition,
    PayoffScale,
    PayoffSums,
    Standing,
    WeightedUnits,
    find_winner,
    winner_bias,
)
from optensemble.stacking.linear import LinearFit, learn_linear, learn_patterns
from optensemble.stacking.moments import Basis, FirstLook, FirstPass, look_first, model_scores
from optensemble.stacking.out_of_fold import OutOfFold
from optensemble.stacking.patch import MOST_ROUNDS, Selection
from optensemble.stats.blocks import UnitSums, part_of
from optensemble.stats.row_design import EXACT_ROWS, RowDesign
from optensemble.stats.row_sample import RowSample


@dataclass(frozen=True)
class DecisionFit:
    """Everything that a fit of a DecisionEnsemble learns.

    Attributes
    ----------
    policy
        What decides.
    names
        The candidates that may be followed: members, then forecasts.
    winner
        The name of what decides.
    standings
        The leaderboard, the best first.
    left_out
        The forecasts that were not kept, and why.
    notes
        What was left out, in words.
    finding
        Whether anything beats deciding by the mean label, in words.
    guarantees
        The lemmas, measured out of fold.
    record, advantage
        The out-of-fold record of payoffs, and of the advantage over the mean member.
    marks
        The fingerprints of the rows, or of very many rows of a sample; none where rows are alike by chance.
    prints
        The fingerprints of all rows, alike or not; none of very many rows.
    scores
        The share of the labels' variance that each model explains.
    absent
        The number of rows in which each member is absent.
    """

    policy: FinalPolicy
    names: list[str]
    winner: str
    standings: list[Standing]
    left_out: dict[str, str]
    notes: list[str]
    finding: str
    guarantees: pd.DataFrame
    record: Record
    advantage: Record
    marks: Hashes
    prints: Hashes
    scores: list[float]
    absent: list[int]


class DecisionData(NamedTuple):
    """What a fit learns from: how its rows are read, how they depend on each other, and the first of them.

    ``first`` says what members there are and what they are about; ``seed`` is for the resampling of units, ``n_jobs``
    for the threads of what is not learned from blocks; ``cross_fitted`` are the members that were fitted here, and
    ``single`` the fingerprints of rows that are then alike by nature.
    """

    blocks: ArrayBlocks | SourceBlocks
    design: RowDesign
    first: Block
    seed: int | None
    n_jobs: int | None = None
    cross_fitted: Sequence[str] = ()
    single: Hashes | None = None

    def with_absences(self, members: list[int], names: list[str]) -> DecisionData:
        """Return the same where the absence of some members is an event to be unbiased on."""
        blocks = self.blocks.with_absences(members, names)
        return self._replace(blocks=blocks, first=blocks.first)

    def settled(self, design: RowDesign) -> DecisionData:
        """Return the same with a design that will not change any more."""
        return self._replace(design=design, blocks=self.blocks.arranged(design))


def learn_decision(members: list[str], data: DecisionData, engine: Engine, progress: Progress) -> DecisionFit:
    """Learn to decide from rows that members were not trained on, in a few passes over them."""
    titles = title_all(members)
    with one_blas_thread():
        with Stage(progress, "cross-fitting", 2 * data.blocks.count) as step:
            data, first, basis, codes = _look_first(members, data, engine, step)
            outputs, design = data.first.outputs, data.design
            linear = learn_linear(first.moments, basis, outputs)
            linear = learn_patterns(linear, first.moments, basis, outputs.models, codes)
            data = data.settled(design)
        cells = PatchCells.of(outputs, first.counts)
        with Stage(progress, "patching", (3 + MOST_ROUNDS) * data.blocks.count) as step:
            run: Run = lambda function, state: engine.run(function, data.blocks, state, step)  # noqa: E731
            context = outputs.context is not None
            options = {"context": context, "cross_fitted": bool(data.cross_fitted)}
            corrections = learn_corrections(linear, cells, design, run, **options, n_jobs=data.n_jobs)
        with Stage(progress, "choosing", data.blocks.count) as step:
            state = ChoicePass(design, corrections.out_of_fold, pending=bool(corrections.pending))
            looked = engine.run(look_at_choices, data.blocks, state, step)
            arms = looked.outcomes[0]
            if corrections.pending:
                corrections = corrections.judged(looked.gain)
                arms = looked.outcomes[0 if corrections.tests[-1].passed else 1]
            choices = learn_choices(arms, outputs.models)
        with Stage(progress, "verifying", 2 * data.blocks.count) as step:
            learned = _Learned(
                *(members, titles, linear, cells.select(arms.own), cells.subgroups, corrections, choices, arms),
                scores=model_scores(first.moments, basis, outputs.models),
            )
            return _conclude(learned, data, first, engine, step)


def _look_first(
    members: list[str], data: DecisionData, engine: Engine, step: Callable[[int], None]
) -> tuple[DecisionData, FirstLook, Basis, Indices | None]:
    """Make the first pass; once more if rows are there several times, which then stay together, or members absent."""
    basis, design = Basis.of(data.first, data.design.rows), data.design
    first = engine.run(look_first, data.blocks, FirstPass(design, basis), step)
    require_size(float(first.moments.label_size))
    require_weights(first.moments.gram[:, -1, -1], design.rows)
    repeated = None
    if design.clusters is None and not design.time_ordered:
        repeated = first.marks.cluster(design, data.single)
    absent = np.flatnonzero(first.moments.absent)
    if repeated is None and not len(absent):
        return data, first, basis, None
    data, patterns = data if repeated is None else data._replace(design=repeated), None
    if len(absent):
        require_present(members, first.moments.absent.tolist(), design.rows)
        data = data.with_absences(absent.tolist(), members)
        centre = basis.centre.reshape(len(members), -1)
        pairs = engine.run(look_at_pairs, data.blocks, PairPass(data.design, centre))
        basis, patterns = Basis.of(data.first, data.design.rows, pairs.filling(centre)), pairs.patterns.common()
    return data, engine.run(look_first, data.blocks, FirstPass(data.design, basis, patterns), step), basis, patterns


class _Learned(NamedTuple):
    """What the passes so far have learned."""

    members: list[str]
    titles: dict[str, str]
    linear: LinearFit
    selection: Selection
    subgroups: Indices
    corrections: Corrections
    choices: FoldChoices
    arms: ArmSums
    scores: list[float]


@dataclass(frozen=True)
class PayoffPass:
    """The last pass: all candidates out of fold, and the record of what decides."""

    design: RowDesign
    policy: FinalPolicy
    out_of_fold: OutOfFold
    choices: FoldChoices
    cells: CellPass
    scale: PayoffScale
    gaps: bool = False
    """Whether members are absent in some rows."""


@dataclass(frozen=True)
class PayoffLook(Sums):
    """What the last pass found: payoffs of all candidates, evidence for the lemmas, and the record."""

    payoffs: PayoffSums
    lemmas: LemmaSums
    cells: CellSums
    record: RecordSums


@dataclass(frozen=True)
class RecordSums(Sums):
    """The record of what decides: rows, totals where rows are very many, and how often each candidate is followed.

    The columns of ``sample`` are self-assessed and realised payoff, the same beyond the mean member, fold, cluster if
    there are any, whether a member is absent if some are, and weight if rows have weights. ``gap`` is by how much more
    was promised than realised.
    """

    sample: RowSample
    record: PairTotals | None
    advantage: PairTotals | None
    followed: Counts
    gap: UnitSums


def look_at_payoffs(block: Block, state: PayoffPass) -> PayoffLook:
    """Pass 5: what every candidate earns, how consistent the last forecast is, and the record if the ensemble wins."""
    found = list[_ChunkSums]()

    def residuals() -> Iterator[tuple[npt.NDArray[Any], ...]]:
        for chunk in block.chunks(state.design):
            cells = RowCells(chunk.outputs)
            contest = play_contest(chunk, state.out_of_fold, state.choices, cells)
            forecast = contest.taken.forecasts[last_of(contest.taken.forecasts)]
            found.append(_chunk_sums(chunk, contest, forecast, state))
            residual, weights = chunk.labels - forecast, () if chunk.weights is None else (chunk.weights,)
            yield cells.columns, residual, state.cells.unit_of(chunk.rows, chunk.units), *weights

    top = state.out_of_fold.reach(len(make_layout(block.outputs).events))
    cells = CellSums.gather(residuals(), block.labels.shape[1], top, state.cells)
    sums = reduce(add, found)
    return PayoffLook(sums.payoffs, sums.lemmas, cells, sums.record)


@dataclass(frozen=True)
class _ChunkSums(Sums):
    payoffs: PayoffSums
    lemmas: LemmaSums
    record: RecordSums


def _chunk_sums(chunk: Chunk, contest: Contest, forecast: Floats, state: PayoffPass) -> _ChunkSums:
    own = 1 + state.policy.members + state.policy.forecasts.index(last_of(contest.taken.forecasts))
    lemmas = LemmaSums(
        gap=UnitSums.of((contest.assessed[own] - contest.realised[own])[None], chunk.units, chunk.weights),
        lowest=-float(chunk.labels.min(initial=np.inf)),
        highest=float(chunk.labels.max(initial=-np.inf)),
        forecast_size=float(np.abs(forecast).max(initial=0.0)),
    )
    rows = WeightedUnits(chunk.rows, chunk.units, chunk.weights)
    payoffs = PayoffSums.of(contest.realised, contest.assessed, rows, state.scale)
    return _ChunkSums(payoffs, lemmas, _record_sums(contest.taken, chunk, state))


def look_at_winner(block: Block, state: PayoffPass) -> RecordSums:
    """Make the record of a candidate that beat the ensemble."""
    found = []
    for chunk in block.chunks(state.design):
        batch = state.out_of_fold.batch(chunk, RowCells(chunk.outputs))
        found.append(_record_sums(state.policy.follow_winner(chunk.outputs, batch), chunk, state))
    return reduce(add, found)


def _record_sums(done: PolicyPass, chunk: Chunk, state: PayoffPass) -> RecordSums:
    labels, units, design = chunk.labels, chunk.units, state.design
    assessed, realised = done.decisions.assessed, done.outputs.omega.value(done.decisions.actions, labels)
    ahead, gained = done.beyond_members(labels)
    belongs = [chunk.fold] if units.cluster is None else [chunk.fold, units.cluster]
    weighted = [] if chunk.weights is None else [chunk.weights]
    incomplete = [done.outputs.incomplete.astype(np.float64)] if state.gaps else []
    columns = np.stack([assessed, realised, ahead, gained, *belongs, *incomplete, *weighted], axis=1)
    record = advantage = None
    if design.rows > EXACT_ROWS:
        bins = (part_of(chunk.rows, design.rows, TIME_BINS), TIME_BINS) if design.time_ordered else None
        clusters = None if units.cluster is None else (units.cluster, units.clusters)
        places = (chunk.fold, design.folds, bins, clusters, chunk.weights)
        record = PairTotals.of(assessed, realised, state.scale.centre, *places)
        advantage = PairTotals.of(ahead, gained, 0.0, *places)
    candidates = state.policy.members + len(state.policy.forecasts)
    followed = np.bincount(done.decisions.chosen, chunk.weights, minlength=candidates)
    gap = UnitSums.of((assessed - realised)[None], units, chunk.weights)
    return RecordSums(pair_sample(chunk.rows, columns, design.rows), record, advantage, followed, gap)


def _conclude(
    learned: _Learned, data: DecisionData, first: FirstLook, engine: Engine, step: Callable[[int], None]
) -> DecisionFit:
    """Make the last pass; return who won, what may be promised, and the evidence for both."""
    outputs, corrections, design = data.first.outputs, learned.corrections, data.design
    members, titles, rows, absent = learned.members, learned.titles, design.rows, first.moments.absent.tolist()
    known = known_forecasts(_forecast_names(corrections, outputs.models))
    names = [*members, *(titles[name] for name in known)]
    layout = make_layout(outputs)
    forecaster = make_forecaster(learned.linear, corrections, layout)
    policy = FinalPolicy(len(members), known, forecaster, learned.choices.whole, ENSEMBLE)
    candidates = list_candidates([*names, titles[ENSEMBLE_NAME]], outputs, known, data.cross_fitted)
    kept = learned.selection.kept if corrections.log else learned.subgroups
    centre = learned.arms.total / (rows * learned.arms.choice.assessed.shape[1])
    state = PayoffPass(
        design=design,
        policy=policy,
        out_of_fold=corrections.out_of_fold,
        choices=learned.choices,
        cells=CellPass(kept, layout.count, design),
        scale=PayoffScale(rows, centre, float(learned.arms.size)),
        gaps=any(absent),
    )
    looked = engine.run(look_at_payoffs, data.blocks, state, step)
    sums, summed = looked.payoffs, looked.record
    policy = replace(policy, winner=find_winner(candidates, sums))
    if policy.winner != ENSEMBLE:
        summed = engine.run(look_at_winner, data.blocks, replace(state, policy=policy), step)
    labels = LabelRange(-looked.lemmas.lowest, looked.lemmas.highest).signed(outputs.sign)
    mean, own = (len(members) + known.index(name) for name in (MEAN, _last_name(corrections)))
    possible = labels.anywhere(outputs.omega)
    competition = Competition(candidates, policy.winner, sums, centre, outputs.sign, mean, possible)
    standings = competition.standings(dict(enumerate((summed.followed / sums.payoffs.rows).tolist())))
    left_out = {titles[name]: why for name, why in corrections.left_out.items()}
    curse = winner_bias(candidates, sums, data.seed)
    record, advantage = _records(summed, data, curse, sums.payoffs.rows, gaps=state.gaps)
    evidence = Measured(
        *(looked.lemmas, looked.cells, kept, learned.subgroups, bool(corrections.log)),
        decider=_played(competition, policy.winner, summed.gap, members),
        own=_played(competition, own, looked.lemmas.gap, members),
    )
    return DecisionFit(
        policy=policy,
        names=names,
        winner=candidates[policy.winner].name,
        standings=standings,
        left_out=left_out,
        notes=[
            *(f"{name} was left out: {why}" for name, why in left_out.items()),
            *learned.selection.notes,
            *absence_notes(members, absent, rows),
        ],
        finding=competition.finding(standings),
        guarantees=verify(evidence, outputs),
        record=replace(record, labels=labels),
        advantage=advantage,
        marks=first.marks.hashes if first.marks.telling else first.marks.hashes[:0],
        prints=first.marks.hashes if data.design.rows <= EXACT_ROWS else first.marks.hashes[:0],
        scores=learned.scores,
        absent=absent,
    )


def _played(competition: Competition, number: int, gap: UnitSums, members: list[str]) -> Played:
    """Return a candidate beside its promise and beside the other members."""
    leads = {name: competition.lead(each, number) for each, name in enumerate(members) if each != number}
    return Played(competition.candidates[number].name, gap, leads)


def _forecast_names(corrections: Corrections, models: int) -> list[str]:
    baselines = [MEAN, STACK, *([RIDGE] if corrections.out_of_fold.ridged else []), *([AVERAGE] if models else [])]
    return [*baselines, *corrections.kept]


def _last_name(corrections: Corrections) -> str:
    return last_of(_forecast_names(corrections, 0))


def _records(found: RecordSums, data: DecisionData, curse: float, total: float, *, gaps: bool) -> tuple[Record, Record]:
    """Return the record of payoffs and that of the advantage over the mean member, in the user's sense.

    The weights of a record, which sum to ``total``, are about 1: its rows are counted as they are.
    """
    sign, design, whole = data.first.outputs.sign, data.design, found.record is None
    rows, columns = found.sample.in_order()
    weighted = data.first.weights is not None
    record = Record(
        assessed=sign * columns[0],
        realised=sign * columns[1],
        sign=sign,
        time_ordered=design.time_ordered,
        clusters=columns[5].astype(np.int64) if whole and design.clusters is not None else None,
        curse=curse,
        folds=columns[4].astype(np.int64) if whole else None,
        rows=None if whole else rows,
        totals=None if found.record is None else found.record.signed(sign).scaled(design.rows / total),
        weights=columns[-1] * (design.rows / total) if weighted else None,
        unit=design.rows / total if weighted else 1.0,
        incomplete=columns[-2 if weighted else -1] > 0 if gaps and whole else None,
    )
    totals = None if found.advantage is None else found.advantage.signed(sign).scaled(design.rows / total)
    return record, replace(record, assessed=sign * columns[2], realised=sign * columns[3], totals=totals)


def audit_inputs(
    done: PolicyPass,
    policy: FinalPolicy,
    labels: Floats,
    *,
    promised: Floats,
    interval: Promise,
    names: tuple[list[str], list[str]],
) -> AuditInputs:
    """Return what an audit looks at: the pass, with ``names`` of all candidates and of the members among them."""
    outputs, sign = done.outputs, done.outputs.sign
    arms = [*outputs.actions, *(done.played[name] for name in policy.forecasts)]
    earned = [sign * outputs.omega.value(actions, labels) for actions in arms]
    # baselines are what anyone would try, not the ensemble's own parts, nor what decides everywhere: that is itself
    elaborate = {policy.members + policy.forecasts.index(name) for name in CORRECTED if name in done.played}
    own, blind = {*elaborate, policy.winner}, policy.members + policy.forecasts.index(MEAN)
    return AuditInputs(
        promised=promised,
        realised=sign * outputs.omega.value(done.decisions.actions, labels),
        interval=interval,
        names=list(names[0]),
        chosen=done.decisions.chosen,
        arms=np.stack(earned),
        rivals={name: earned[at] for at, name in enumerate(names[0]) if at not in own},
        residuals=sign * (labels - done.decisions.forecast),
        partitions=audited_cells(done, *names),
        sign=sign,
        blind=None if policy.winner == blind else earned[blind],
    )
