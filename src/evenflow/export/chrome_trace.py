"""Timelines as a Chrome trace in JSON [Trace Event Format], which Perfetto opens: one process for each rank.

A rank has a thread with its actions, with the recomputation inside a backward, one with its idle time by cause, and a
counter of its memory; where layers exchange tokens between experts, one for that too, which in a pair runs beside the
work; where anything moves to the host, one for the copies in each direction too, and where encoders
work beside the pipeline, one for what they do. A step then begins with their first work, which may be before that of
the pipeline. The causes of a gap stand one after the other; only their lengths mean something.

Of a step with very many actions it may have the first and the last alone.

The actions of one microbatch are a chain of arrows along their dependencies: a flow whose name is `bind_id`, which
comes in and goes out. Several steps, such as the plans of a comparison, are groups of processes on one time axis.

Actions have an event where they begin and one where they end: of complete events (`X`) that begin at once Perfetto
takes the longest first, and would turn around an arrow that leaves an action which takes no time.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from evenflow.language import _
from evenflow.model import Plan
from evenflow.schedule import NUM_OPS, Op, Schedule
from evenflow.simulate import EncodedStep, ExchangeTimes, IdleGaps, Simulation, StageCosts, Timeline, memory_curve
from evenflow.simulate.costs import Integers

CATEGORIES = {Op.F: "forward", Op.B: "backward", Op.I: "input gradient", Op.W: "weight gradient"}
_NAMES = tuple(op.name for op in Op)
RECOMPUTE = "recompute"
"""Category of the slice at the beginning of a backward in which layers recompute."""
IDLE = "idle"
"""Category of the slices of idle time."""
_PAGE = 10_000
"""Events that become one text; millions as values of their own would take several times the memory."""
_WORK, _CAUSES = 1, 2
_COPIES = (3, "to host"), (4, "from host")
"""Threads of a rank."""
COPY = "copy"
"""Category of the slices of copies."""
_ENCODERS, _EXCHANGES = 5, 6
EXCHANGE = "exchange"
"""Category of the slices of exchanges of tokens."""
ENCODER = "encoder"
"""Category of the slices of what encoders do, and the name of their thread."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TracedStep:
    """One step of a trace, with as much as is known of it beside its timeline."""

    name: str = ""
    """What the step is among several, such as "measured"."""
    timeline: Timeline
    plan: Plan | None = None
    """The plan whose layers the stages hold."""
    recompute_ns: Integers | None = None
    """Time of the recomputation at the beginning of every action, shape [num_actions]."""
    costs: StageCosts | None = None
    """What the stages hold; None where memory is not known."""
    memory_limit_bytes: int | None = None
    causes: IdleGaps | None = None
    """Idle time by cause; None where it is not known, as of a measured step."""
    exchanges: ExchangeTimes | None = None
    """When tokens travel between experts; None where that is not known."""
    encoded: EncodedStep | None = None
    """What encoders do beside the pipeline; the timeline begins as much later as they need before it."""

    @classmethod
    def of(cls, simulation: Simulation, *, name: str = "", memory_limit_bytes: int | None = None) -> "TracedStep":
        """Return the step of a plan that was simulated."""
        encoded = simulation.encoded
        return cls(
            name=name,
            timeline=_later(simulation.timeline, 0 if encoded is None else encoded.before_ns),
            plan=simulation.plan,
            recompute_ns=simulation.recompute_ns,
            costs=simulation.costs if simulation.network.has_memory else None,
            memory_limit_bytes=memory_limit_bytes,
            causes=simulation.idle_gaps,
            exchanges=simulation.exchange_times,
            encoded=encoded,
        )


def _later(timeline: Timeline, late_ns: int) -> Timeline:
    """Return a timeline that begins so much later."""
    times = {
        name: getattr(timeline, name) for name in ("start_ns", "end_ns", "makespan_ns", "copy_start_ns", "copy_end_ns")
    }
    return replace(timeline, **{name: value + late_ns for name, value in times.items() if value is not None})


def chrome_trace(steps: Sequence[TracedStep], *, most_actions: int | None = None) -> str:
    """Return the trace of `steps` as text; the same steps always give the same text.

    Times are in microseconds with three digits behind the point: to the nanosecond. With `most_actions` in all, every
    step with more than its share of them has its first and its last actions, and a mark where others are left out.
    """
    # One event in a line, and an end that leaves room for the mark of what evenflow writes.
    most = None if most_actions is None else most_actions // len(steps)
    events, pages = _events(steps, most), ['{\n  "displayTimeUnit": "ns",\n  "traceEvents": [']
    while page := ",\n".join(islice(events, _PAGE)):
        pages += [",\n" if len(pages) > 1 else "\n", page]
    return "".join([*pages, "\n]\n}\n"])


@dataclass(frozen=True, eq=False, kw_only=True)
class _Part:
    """What a trace has of a step: all, or what is first and last."""

    in_time: Integers
    """Places in the graph's sequence of the actions that it has, in order of their starts; causes before effects."""
    is_in: NDArray[np.bool_]
    """Whether it has an action, and the end of a rank, shape [num_actions + num_ranks]."""
    num_left_out: int
    hole_ns: tuple[int, int]
    """When the last of the first actions starts, and the first of the last ones."""

    @classmethod
    def of(cls, timeline: Timeline, most: int | None) -> "_Part":
        schedule, sequence = timeline.schedule, timeline.graph.of_actions.sequence
        starts_ns = timeline.start_ns[sequence]
        in_time = np.argsort(starts_ns, kind="stable")
        num_left_out = 0 if most is None else max(0, schedule.num_actions - most)
        if not num_left_out:
            whole = np.ones(schedule.num_actions + schedule.num_ranks, dtype=bool)
            return cls(in_time=in_time, is_in=whole, num_left_out=0, hole_ns=(timeline.makespan_ns, 0))
        num_first = (schedule.num_actions - num_left_out + 1) // 2
        first, last = in_time[:num_first], in_time[num_first + num_left_out :]
        is_in = np.zeros(schedule.num_actions + schedule.num_ranks, dtype=bool)
        is_in[sequence[first]] = is_in[sequence[last]] = is_in[schedule.num_actions :] = True
        begins_ns = int(starts_ns[first].max(initial=0))
        ends_ns = int(starts_ns[last].min(initial=timeline.makespan_ns))
        return cls(
            in_time=np.concatenate((first, last)),
            is_in=is_in,
            num_left_out=num_left_out,
            hole_ns=(begins_ns, ends_ns),
        )


def _events(steps: Sequence[TracedStep], most: int | None) -> Iterator[str]:
    first_process = first_flow = 1
    for step in steps:
        schedule, part = step.timeline.schedule, _Part.of(step.timeline, most)
        yield from _processes(step, first_process)
        yield from _hole(part, first_process)
        yield from _actions(step, part, first_process, first_flow)
        yield from _idle(step, part, first_process)
        yield from _copies(step, part, first_process)
        yield from _encoders(step, part, first_process)
        yield from _exchanges(step, part, first_process)
        yield from _memory(step, part, first_process)
        first_process += schedule.num_ranks
        first_flow += schedule.num_units


def _hole(part: _Part, first_process: int) -> Iterator[str]:
    """Yield a mark where actions are left out."""
    if part.num_left_out:
        begins_ns, ends_ns = part.hole_ns
        words = _("{count:,} actions are left out, to {end} us", count=part.num_left_out, end=_us(ends_ns))
        name = json.dumps(words)
        yield f'{{"ph":"i","s":"p","pid":{first_process},"tid":{_WORK},"ts":{_us(begins_ns)},"name":{name}}}'


def _processes(step: TracedStep, first_process: int) -> Iterator[str]:
    """Yield the names of processes and threads, and the places of the processes."""
    group = f"{step.name}: " if step.name else ""
    copies = _COPIES if step.timeline.has_copies else ()
    for rank in range(step.timeline.schedule.num_ranks):
        process = first_process + rank
        for about, arguments in (
            ("process_name", {"name": f"{group}rank {rank}"}),
            ("process_sort_index", {"sort_index": process}),
        ):
            yield _event(ph="M", pid=process, name=about, args=arguments)
        yield _event(ph="M", pid=process, tid=_WORK, name="thread_name", args={"name": "work"})
        if step.causes is not None:
            yield _event(ph="M", pid=process, tid=_CAUSES, name="thread_name", args={"name": "idle by cause"})
        for thread, name in copies:
            yield _event(ph="M", pid=process, tid=thread, name="thread_name", args={"name": name})
        if step.exchanges is not None:
            yield _event(ph="M", pid=process, tid=_EXCHANGES, name="thread_name", args={"name": "exchanges"})
        if step.encoded is not None:
            yield _event(ph="M", pid=process, tid=_ENCODERS, name="thread_name", args={"name": ENCODER})


def _actions(step: TracedStep, part: _Part, first_process: int, first_flow: int) -> Iterator[str]:
    """Yield begin and end of every action; causes stand before their effects, which matters where times are equal."""
    timeline = step.timeline
    schedule, graph = timeline.schedule, timeline.graph.of_actions
    in_time = part.in_time
    indices = graph.sequence[in_time]
    inputs = graph.inputs[indices]
    is_there, sends = np.zeros((2, schedule.num_actions), dtype=bool)
    is_there[indices] = True  # an arrow has both of its ends
    is_received = (inputs >= 0) & is_there[inputs]
    sends[inputs[is_received]] = True
    labels = _Words(schedule, step.plan)
    recomputed_ns = np.zeros(schedule.num_actions, dtype=np.int64) if step.recompute_ns is None else step.recompute_ns
    columns = (
        graph.action_classes[in_time],
        schedule.ranks[indices] + first_process,
        schedule.units[indices],
        timeline.start_ns[indices],
        timeline.end_ns[indices],
        recomputed_ns[indices],
        is_received,
        sends[indices],
    )
    for kind, process, unit, start_ns, end_ns, recompute_ns, receives, is_needed in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        position = f'"pid":{process},"tid":{_WORK},"ts":'
        flow = f'"bind_id":"{first_flow + unit:#x}",' if receives or is_needed else ""
        flow += ('"flow_in":true,' if receives else "") + ('"flow_out":true,' if is_needed else "")
        yield f'{{"ph":"B",{position}{_us(start_ns)},{flow}{labels.of(kind, unit)}}}'
        if recompute_ns:
            yield f'{{"ph":"B",{position}{_us(start_ns)},"cat":"{RECOMPUTE}","name":"{RECOMPUTE}"}}'
            yield f'{{"ph":"E",{position}{_us(start_ns + recompute_ns)}}}'
        yield f'{{"ph":"E",{position}{_us(end_ns)}}}'


class _Words:
    """Name, category and arguments of actions, of which all but the microbatch is the same for a stage."""

    def __init__(self, schedule: Schedule, plan: Plan | None) -> None:
        self._splits = schedule.sequence_splits
        layers: list[dict[str, str]] = [{}] * schedule.num_stages if plan is None else _layers(schedule, plan)
        self._rest, self._of_copies = list[str](), list[str]()
        for stage, (chunk, held) in enumerate(zip(schedule.stage_chunks.tolist(), layers, strict=True)):
            of_chunk = f" chunk {chunk}" if schedule.num_chunks > 1 else ""
            about: dict[str, object] = {"stage": stage, "chunk": chunk, **held}
            self._rest += [f'{of_chunk}","cat":"{CATEGORIES[op]}","args":{json.dumps(about)[:-1]}' for op in Op]
            self._of_copies.append(f'{of_chunk}","cat":"{COPY}","args":{json.dumps(about)[:-1]}')

    def of(self, kind: int, unit: int) -> str:
        """Return the fields of an action of a class of `Graph`."""
        return self._fields(_NAMES[kind % NUM_OPS], self._rest[kind], unit)

    def of_copy(self, stage: int, unit: int) -> str:
        """Return the fields of a copy of what a stage keeps."""
        return self._fields(f"{COPY} ", self._of_copies[stage], unit)

    def _fields(self, name: str, rest: str, unit: int) -> str:
        if self._splits == 1:
            return f'"name":"{name}{unit}{rest}, "microbatch": {unit}}}'
        microbatch, part = divmod(unit, self._splits)
        return f'"name":"{name}{microbatch} part {part}{rest}, "microbatch": {microbatch}, "part": {part}}}'


def _layers(schedule: Schedule, plan: Plan) -> list[dict[str, str]]:
    """Return for every stage which layers it has, and how many of them recompute under which kind."""
    by_stage: list[dict[str, str]] = []
    first = 0
    for chunk, rank in zip(schedule.stage_chunks.tolist(), schedule.stage_ranks, strict=True):
        count = plan.layers[chunk][rank]
        last = first + count - 1
        layers = f"{first} to {last}" if count > 1 else str(last) if count else "none"
        kinds = [(kind, plan.count(kind, chunk, rank)) for kind in plan.used_kinds]
        recompute = ", ".join(f"{kind} on {number}" for kind, number in kinds if number)
        by_stage.append({"layers": layers} | ({"recompute": recompute} if recompute else {}))
        first += count
    return by_stage


def _idle(step: TracedStep, part: _Part, first_process: int) -> Iterator[str]:
    """Yield the gaps of every rank, cut into their causes."""
    timeline, causes = step.timeline, step.causes
    if causes is None:
        return
    by_name = {
        "fill and drain": causes.fill_drain_ns,
        "imbalance": causes.imbalance_ns,
        "recompute": causes.recompute_ns,
        "communication": causes.communication_ns,
        "host copies": causes.host_copies_ns,
    }
    ends = np.concatenate((timeline.start_ns, np.full(timeline.schedule.num_ranks, timeline.makespan_ns)))
    processes = np.concatenate((timeline.schedule.ranks, np.arange(timeline.schedule.num_ranks))) + first_process
    rows = np.stack((processes, ends - causes.total_ns, *by_name.values()), axis=1)
    for process, gap_ns, *lengths_ns in rows[part.is_in & (causes.total_ns > 0)].tolist():
        start_ns = gap_ns
        for name, length_ns in zip(by_name, lengths_ns, strict=True):
            if length_ns:
                position = f'"pid":{process},"tid":{_CAUSES},"ts":'
                yield f'{{"ph":"B",{position}{_us(start_ns)},"name":"{name}","cat":"{IDLE}"}}'
                start_ns += length_ns
                yield f'{{"ph":"E",{position}{_us(start_ns)}}}'


def _copies(step: TracedStep, part: _Part, first_process: int) -> Iterator[str]:
    """Yield begin and end of every copy to the host and back that takes time, of the actions that the trace has."""
    timeline = step.timeline
    schedule, copied = timeline.schedule, timeline.graph.copied
    starts_ns, ends_ns = timeline.copy_start_ns, timeline.copy_end_ns
    if copied is None or starts_ns is None or ends_ns is None:
        return
    labels = _Words(schedule, step.plan)
    for (thread, _name), actions, starts, ends in zip(_COPIES, copied, starts_ns, ends_ns, strict=True):
        shown = np.flatnonzero(part.is_in[actions] & (ends > starts))
        shown = shown[np.argsort(starts[shown], kind="stable")]
        of_shown = actions[shown]
        processes = schedule.ranks[of_shown] + first_process
        columns = (processes, schedule.stages[of_shown], schedule.units[of_shown], starts[shown], ends[shown])
        for process, stage, unit, start_ns, end_ns in zip(*(column.tolist() for column in columns), strict=True):
            position = f'"pid":{process},"tid":{thread},"ts":'
            yield f'{{"ph":"B",{position}{_us(start_ns)},{labels.of_copy(stage, unit)}}}'
            yield f'{{"ph":"E",{position}{_us(end_ns)}}}'


def _encoders(step: TracedStep, part: _Part, first_process: int) -> Iterator[str]:
    """Yield begin and end of what encoders do on every rank, but where actions are left out."""
    if step.encoded is None:
        return
    late = step.encoded.before_ns
    for name, done in zip(("forward", "backward"), step.encoded.sides, strict=False):  # or forwards alone
        starts, ends = done.start_ns + late, done.end_ns + late
        shown = np.flatnonzero((ends <= part.hole_ns[0]) | (starts >= part.hole_ns[1]))
        columns = (done.ranks[shown] + first_process, done.microbatches[shown], starts[shown], ends[shown])
        for process, microbatch, start_ns, end_ns in zip(*(column.tolist() for column in columns), strict=True):
            position = f'"pid":{process},"tid":{_ENCODERS},"ts":'
            about = f'"cat":"{ENCODER}","args":{{"microbatch": {microbatch}}}'
            yield f'{{"ph":"B",{position}{_us(start_ns)},"name":"{ENCODER} {name} {microbatch}",{about}}}'
            yield f'{{"ph":"E",{position}{_us(end_ns)}}}'


def _exchanges(step: TracedStep, part: _Part, first_process: int) -> Iterator[str]:
    """Yield begin and end of every exchange of tokens, of the actions that the trace has.

    A pair has both parts' from the begin of its forward on.
    """
    exchanges, schedule = step.exchanges, step.timeline.schedule
    if exchanges is None:
        return
    forwards, backwards = cache(exchanges.of_forward), cache(exchanges.of_backward)
    gradients, pairs = cache(partial(exchanges.of_backward, is_split=True)), cache(exchanges.of_pair)
    paired = set(schedule.paired.tolist()) if schedule.has_pairs else set[int]()
    ops, stages = schedule.ops.tolist(), schedule.stages.tolist()
    for rank in range(schedule.num_ranks):
        position = f'"pid":{first_process + rank},"tid":{_EXCHANGES},"ts":'
        for action in range(schedule.rank_starts[rank], schedule.rank_starts[rank + 1]):
            if not part.is_in[action] or action - 1 in paired or ops[action] == Op.W:
                continue
            stage = stages[action]
            if action in paired:
                spans = pairs(stage, stages[action + 1])
            else:
                spans = {Op.F: forwards, Op.B: backwards, Op.I: gradients}[Op(ops[action])](stage)
            begin_ns = int(step.timeline.start_ns[action])
            for span in sorted(spans):
                about = f'"cat":"{EXCHANGE}","args":{{"layer": {span.layer}}}'
                name = f"{span.name}, {span.direction}"
                yield f'{{"ph":"B",{position}{_us(begin_ns + span.start_ns)},"name":"{name}",{about}}}'
                yield f'{{"ph":"E",{position}{_us(begin_ns + span.end_ns)}}}'


def _memory(step: TracedStep, part: _Part, first_process: int) -> Iterator[str]:
    """Yield the bytes that every rank holds as they change, and the limit."""
    if step.costs is None:
        return
    for rank in range(step.timeline.schedule.num_ranks):
        process = first_process + rank
        times_ns, held = memory_curve(step.timeline, step.costs, rank)
        is_in = (times_ns <= part.hole_ns[0]) | (times_ns >= part.hole_ns[1])
        times_ns, held = times_ns[is_in], held[is_in]
        for time_ns, size in zip(times_ns.tolist(), held.tolist(), strict=True):
            yield f'{{"ph":"C","pid":{process},"ts":{_us(time_ns)},"name":"memory","args":{{"bytes":{size}}}}}'
        if step.memory_limit_bytes is not None:
            for time_ns in (0, step.timeline.makespan_ns):
                yield (
                    f'{{"ph":"C","pid":{process},"ts":{_us(time_ns)},"name":"memory limit",'
                    f'"args":{{"bytes":{step.memory_limit_bytes}}}}}'
                )


def _event(**fields: object) -> str:
    return json.dumps(fields, separators=(",", ":"))


def _us(time_ns: int) -> str:
    """Return nanoseconds as microseconds, exactly.

    >>> _us(12_345_678)
    '12345.678'
    """
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"
