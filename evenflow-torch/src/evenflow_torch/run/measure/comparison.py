"""Predicted against measured: the plan's order simulated with calibrated costs, beside the steps of the ranks."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenflow.model import Communication, HostLink
from evenflow.schedule import NUM_OPS, Op, Schedule
from evenflow.simulate import StageCosts, Timeline, build_graph, peak_bytes, with_copies
from evenflow.simulate import run as run_on_paper
from evenflow_torch.run.values.run_result import ActionRow, Conditions, Overhead, RankResult, RunResult

_LEAST_RUNS = 5
"""Runs of which an interval can be made."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The measured steps of a run and their prediction."""

    predicted: Timeline
    measured: Timeline
    """Measured step of median length."""
    step_ns: tuple[int, ...]
    """Length of every measured step, from the first start to the last end."""
    costs: StageCosts
    """Calibrated costs; the time that the runtime takes for an action is part of the action's."""
    communication: Communication | None
    """Cost of a message, as it was measured; None: it takes no time."""
    durations: NDArray[np.int64]
    """What actions take by these costs, by class of the graph (see `durations_of`)."""
    measured_peak_bytes: tuple[int, ...]
    """Highest memory, by rank."""
    as_measured_ns: int
    """Length of the step that is simulated with what the actions took in the measured one, on average by stage."""
    interval_ns: tuple[int, int] | None
    """Between which 80 % of the steps are expected: by steps before the training (see `rehearse`), or else a step is as
    long as one run of the stages says, of those that were measured. None where there are too few."""
    is_rehearsed: bool
    """Whether that is by steps before the training."""

    @property
    def share_inside(self) -> float | None:
        """Share of the measured steps that are in the interval."""
        if self.interval_ns is None:
            return None
        least, most = self.interval_ns
        return sum(least <= step <= most for step in self.step_ns) / len(self.step_ns)

    @property
    def actions_off_ns(self) -> int:
        """How much shorter the prediction is than the measured step since actions took longer there than alone."""
        return self.as_measured_ns - self.predicted.makespan_ns

    @property
    def messages_off_ns(self) -> int:
        """How much shorter it is for what is between actions: messages, the runtime, and scatter of the actions."""
        return self.measured.makespan_ns - self.as_measured_ns

    def load_off_ns(self, conditions: Conditions | None) -> int | None:
        """Return the part of `actions_off_ns` that ranks waited for a processor, beyond what they did when measured.

        None where the load is not known.
        """
        if conditions is None or conditions.waiting is None or conditions.step_waiting is None:
            return None
        more = round((conditions.step_waiting - conditions.waiting) * self.measured.makespan_ns)
        least, most = sorted((0, self.actions_off_ns))
        return min(max(more, least), most)

    @cached_property
    def predicted_peak_bytes(self) -> tuple[int, ...]:
        """Highest memory by the simulation, by rank."""
        return tuple(int(peak) for peak in peak_bytes(self.predicted.schedule, self.costs))

    @property
    def error(self) -> float:
        """Relative error of the predicted step time: 0.01 means predicted 1 % too long."""
        return self.predicted.makespan_ns / self.measured.makespan_ns - 1


def compare(schedule: Schedule, result: RunResult, host_link: HostLink | None = None) -> Comparison:
    """Simulate `schedule` with the durations of `result`, and lay its measured steps beside it.

    `host_link` says when what layers keep on the host moves, if the plan does.
    """
    graph = build_graph(schedule)
    costs = costs_of(schedule, result.ranks, result.overhead, host_link)
    communication = Communication(latency_ns=result.message_ns)
    durations = durations_of(costs, result.overhead)
    steps = [
        _timeline(schedule, [rank.actions[step] for rank in result.ranks])
        for step in range(len(result.ranks[0].actions))
    ]
    middle = statistics.median_low([end.max() - start.min() for start, end in steps])
    start, end = next((start, end) for start, end in steps if end.max() - start.min() == middle)
    first = start.min()

    def simulated(costs: StageCosts) -> Timeline:
        whole = graph if costs.host_link is None else with_copies(graph, costs.host_link)
        return run_on_paper(whole, durations_of(costs, result.overhead), communication)

    whole = graph if costs.host_link is None else with_copies(graph, costs.host_link)
    in_steps = _with_actions(durations, schedule, end - start)
    rehearsed = result.rehearsals_ns
    of_runs = [
        simulated(costs_of(schedule, ranks, result.overhead, host_link)).makespan_ns for ranks in by_run(result.ranks)
    ]
    return Comparison(
        predicted=simulated(costs),
        as_measured_ns=run_on_paper(whole, in_steps, communication).makespan_ns,
        interval_ns=(min(rehearsed), max(rehearsed)) if rehearsed else interval_of(of_runs),
        is_rehearsed=bool(rehearsed),
        measured=Timeline(graph=graph, start_ns=start - first, end_ns=end - first, makespan_ns=int(middle)),
        step_ns=tuple(int(end.max() - start.min()) for start, end in steps),
        costs=costs,
        communication=communication,
        durations=durations,
        measured_peak_bytes=tuple(rank.peak_bytes for rank in result.ranks),
    )


def by_run(ranks: Sequence[RankResult]) -> Iterator[list[RankResult]]:
    """Yield the ranks with the times of one run of their stages in the place of the medians, for every run."""
    counts = {len(runs) for rank in ranks for runs in rank.runs.values()}
    for place in range(min(counts, default=0)):
        yield [
            replace(
                rank,
                forward_ns={stage: runs[place][0] for stage, runs in rank.runs.items()},
                backward_ns={stage: runs[place][1] for stage, runs in rank.runs.items()},
                weight_ns={stage: runs[place][2] for stage, runs in rank.runs.items()},
            )
            for rank in ranks
        ]


def interval_of(steps: Sequence[int]) -> tuple[int, int] | None:
    """Return what 80 % of these are between, a tenth below and a tenth above; None of fewer than five.

    >>> interval_of(range(100, 201))
    (110, 190)
    """
    if len(steps) < _LEAST_RUNS:
        return None
    tenths = statistics.quantiles(steps, n=10, method="inclusive")
    return round(tenths[0]), round(tenths[-1])


def costs_of(
    schedule: Schedule, ranks: Sequence[RankResult], overhead: Overhead, host_link: HostLink | None = None
) -> StageCosts:
    """Return what the ranks measured, for the simulator; the runtime's own time is part of every action."""
    moves = host_link is not None and any(any(rank.offloaded_bytes.values()) for rank in ranks)

    def by_stage(name: str) -> NDArray[np.int64]:
        values = {stage: value for rank in ranks for stage, value in getattr(rank, name).items()}
        return np.array([values[stage] for stage in range(schedule.num_stages)], dtype=np.int64)

    weight = by_stage("weight_ns")
    is_split = weight > 0
    forward, backward = _messages(schedule, overhead)
    return StageCosts(
        num_ranks=schedule.num_ranks,
        forward_ns=by_stage("forward_ns") + forward,
        backward_ns=by_stage("backward_ns") + backward + overhead.action_ns * is_split,
        weight_ns=weight + overhead.action_ns * is_split,
        recompute_ns=np.zeros(schedule.num_stages, dtype=np.int64),  # part of the backward, not measured by itself
        activation_bytes=by_stage("activation_bytes"),
        until_weight_bytes=by_stage("until_weight_bytes"),
        static_bytes=np.array([rank.static_bytes for rank in ranks], dtype=np.int64),
        working_bytes=np.array([rank.working_bytes for rank in ranks], dtype=np.int64),
        host_link=host_link if moves else None,
        offloaded_bytes=by_stage("offloaded_bytes") if moves else None,
        copy_ns=by_stage("copy_ns") if moves else None,
    )


def durations_of(costs: StageCosts, overhead: Overhead) -> NDArray[np.int64]:
    """Return the durations of `costs_of` for the simulator, where a backward that is not split is one action."""
    table = costs.durations.copy()
    actions = table[: NUM_OPS * len(costs.weight_ns)]  # behind them stand copies
    actions[Op.B :: NUM_OPS] -= overhead.action_ns * (costs.weight_ns > 0)
    return table


def _with_actions(durations: NDArray[np.int64], schedule: Schedule, took_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return `durations` with the mean of what the actions of every class took; those of copies stay."""
    classes = NUM_OPS * np.asarray(schedule.stages) + np.asarray(schedule.ops)
    counts = np.bincount(classes, minlength=len(durations))
    sums = np.bincount(classes, weights=took_ns, minlength=len(durations))
    ran = counts > 0
    result = durations.copy()
    result[ran] = np.rint(sums[ran] / counts[ran])
    return result


def _messages(schedule: Schedule, overhead: Overhead) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the runtime's time for every stage's forward, and for its backward, messages included."""
    ranks = np.array(schedule.stage_ranks)
    is_message = np.concatenate(([False], ranks[1:] != ranks[:-1], [False]))
    below, above = is_message[:-1], is_message[1:]
    forward = overhead.action_ns + overhead.receive_ns * below + overhead.send_ns * above
    backward = overhead.action_ns + overhead.receive_ns * above + overhead.send_ns * below
    return forward, backward


def _timeline(schedule: Schedule, ranks: list[list[ActionRow]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return start and end of every action of the schedule, on the shared clock."""
    rows = np.array([row for rank in ranks for row in rank], dtype=np.int64)
    assert np.array_equal(rows[:, :3].T, (schedule.ops, schedule.stages, schedule.units)), "the order that was given"
    return rows[:, 3], rows[:, 4]
