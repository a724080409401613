"""Keys for list scheduling: the action with the smallest key goes first.

Keys have the shape [3, num_stages, num_units], for the n-th forward, gradient and weight gradient of each stage.
"""

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule import Schedule
from evenflow.simulate import Integers, build_graph, run
from evenflow.solve.work import Work

Keys = NDArray[np.float64]
KINDS = np.array([0, 1, 1, 2])
"""Row of keys (forward, gradient, weight gradient) by operation."""


def template_keys(work: Work, draw: np.random.Generator) -> Keys:
    """Return the times at which actions would begin if microbatches, or groups of them, started a period apart.

    Each then takes its way through the stages with detours drawn at random. The period is the load of the busiest rank
    for one microbatch. Longer detours before gradients let ranks run more forwards ahead; in a group each chunk runs
    all its microbatches before the next one does.
    """
    costs, (num_chunks, num_ranks) = work.costs, work.stage_table.shape
    period = float((costs.forward_ns + costs.backward_ns)[work.stage_table].sum(axis=0).max())
    forward_way = np.cumsum(costs.forward_ns + work.sent_ns) - costs.forward_ns
    gradient = costs.backward_ns - (costs.weight_ns if work.may_split else 0)
    gradient_way = np.cumsum((gradient + work.sent_ns)[::-1])[::-1] - gradient
    chunks = work.stage_chunks
    group = int(draw.choice([1, 1, num_ranks, max(1, num_ranks // 2), work.num_units]))
    groups, places = np.divmod(np.arange(work.num_units), group)
    slots = groups * group * period + places * period / (num_chunks if group > 1 else 1)
    between_chunks = (group - 1) * period / num_chunks
    stretches = draw.uniform(0.0, 2.5, size=2)
    detour = draw.uniform(-1.0, 2.0) * num_ranks * period / 2
    behind = draw.choice([0.0, 1.0, num_ranks, work.num_units]) * draw.uniform(0.0, 2.0) * period
    forwards = stretches[0] * forward_way + chunks * between_chunks
    gradients = forward_way[-1] + detour + stretches[1] * gradient_way + (num_chunks - 1 - chunks) * between_chunks
    ways = np.stack((forwards, gradients, gradients + behind))
    return np.asarray(ways[:, :, np.newaxis] + slots)


def disturbed_keys(work: Work, schedule: Schedule, draw: np.random.Generator) -> Keys:
    """Return a mixture of the earliest and latest starts of all actions under `schedule`, disturbed at random."""
    early, late = _starts(work, schedule)
    mixture = draw.choice([0.0, 1.0, draw.uniform()])
    times = (1 - mixture) * early + mixture * late
    strength = draw.choice([0.0, 0.3, 1.0, 3.0]) * work.costs.durations.mean()
    times = times + strength * draw.standard_normal(len(times))
    gradients = np.argsort(work.gradient_units)
    places = np.stack((np.arange(work.num_units), gradients, gradients))
    keys = np.zeros((3, work.num_stages, work.num_units))
    kinds = KINDS[schedule.ops]
    keys[kinds, schedule.stages, places[kinds, schedule.units]] = times
    return keys


def _starts(work: Work, schedule: Schedule) -> tuple[Integers, Integers]:
    """Return the earliest and latest starts of all actions with which the step takes no longer."""
    graph, durations = build_graph(schedule), work.costs.durations
    timeline = run(graph, durations, work.messages)
    latest_ends = np.full(len(graph.sequence) + 1, timeline.makespan_ns, dtype=np.int64)
    lengths = durations[graph.classes]
    messages = graph.message_times(work.messages)
    for index in range(len(graph.sequence) - 1, -1, -1):
        start = latest_ends[index + 1] - lengths[index]
        before, needed = graph.rank_predecessors[index], graph.dependencies[index]
        latest_ends[before] = min(latest_ends[before], start)
        latest_ends[needed] = min(latest_ends[needed], start - messages[index])
    late = np.empty_like(timeline.start_ns)
    late[graph.sequence] = latest_ends[1:] - lengths
    return timeline.start_ns, late
