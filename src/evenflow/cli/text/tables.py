"""Aligned tables, and the lines around them."""

from collections.abc import Collection, Sequence

from evenflow.model import NONE, Communication
from evenflow.simulate import Simulation
from evenflow.units import MEGABYTE, megabytes, milliseconds

BAR_WIDTH = 10


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[int] = ()) -> str:
    """Return a table with two spaces between columns; columns in `left` are flush left, the others flush right."""
    table = [header, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]

    def line(row: Sequence[str]) -> str:
        parts = (
            text.ljust(width) if column in left else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(parts).rstrip()

    return "\n".join(line(row) for row in table)


def headline(simulation: Simulation) -> str:
    """Return model, sizes and schedule of a plan."""
    plan = simulation.plan
    sizes = [
        f"{_counted(plan.num_ranks, 'rank')} x {_counted(plan.num_chunks, 'chunk')}",
        _counted(plan.num_microbatches, "microbatch"),
    ]
    if plan.sequence_splits > 1:
        sizes.append(f"sequences in {plan.sequence_splits} parts")
    groups = "" if plan.group_size is None else f" in groups of {plan.group_size}"
    cut = f"{_counted(plan.num_layers, 'layer')} on {', '.join(sizes)}"
    return f"{simulation.network.name}: {cut}, {plan.schedule}{groups}"


def plan_table(simulation: Simulation, memory_limit_bytes: int | None) -> str:
    """Return for each rank layers and recompute counts by chunk, time of a microbatch, peak memory, idle share."""
    plan, costs = simulation.plan, simulation.costs
    kinds = [kind for kind in simulation.network.kinds if kind != NONE and any(map(any, plan.recompute.get(kind, ())))]
    has_memory = simulation.network.has_memory
    header = ["rank", "layers", *kinds, "ms/microbatch", *(["peak MB"] if has_memory else [])]
    left = {len(header)} if has_memory and memory_limit_bytes else set()
    header += ["of limit", "idle %"] if left else ["idle %"]
    stage_table = simulation.timeline.schedule.stage_table
    stage_ns = (costs.forward_ns + costs.backward_ns)[stage_table] * plan.sequence_splits
    rows = []
    for rank in range(plan.num_ranks):
        row = [str(rank), _by_chunk([chunk[rank] for chunk in plan.layers])]
        row += [_by_chunk([chunk[rank] for chunk in plan.recompute[kind]]) for kind in kinds]
        row.append(f"{milliseconds(int(stage_ns[:, rank].sum())):,.3f}")
        if has_memory:
            peak = simulation.peak_memory_bytes[rank]
            row.append(f"{megabytes(peak):,.1f}")
            if memory_limit_bytes:
                row.append(limit_bar(peak, memory_limit_bytes))
        row.append(f"{100 * simulation.idle[rank].total_ns / simulation.makespan_ns:.1f}")
        rows.append(row)
    return aligned(header, rows, left=left)


def limit_bar(peak_bytes: int, limit_bytes: int) -> str:
    """Return how full a rank is: ``████████░░  81.4 %``."""
    filled = min(BAR_WIDTH, BAR_WIDTH * peak_bytes // limit_bytes)
    over = "  OVER" if peak_bytes > limit_bytes else ""
    return f"{'█' * filled}{'░' * (BAR_WIDTH - filled)} {100 * peak_bytes / limit_bytes:5.1f} %{over}"


def bubble_table(simulation: Simulation) -> str:
    """Return lost time by cause: of the pipeline as a fraction of the model's time, of each rank as % of the step."""
    bubbles, communicates = simulation.bubbles, simulation.communication is not None
    causes = ["fill/drain", "imbalance", "recompute", *(["p2p"] if communicates else [])]
    whole = [bubbles.ideal, bubbles.imbalance, bubbles.recompute, *([bubbles.communication] if communicates else [])]
    rows = [["bubble", *(_signed(value, 4) for value in (bubbles.real, *whole))]]
    digits = len(str(simulation.plan.num_ranks - 1))
    for rank, idle in enumerate(simulation.idle):
        parts = [idle.total_ns, idle.fill_drain_ns, idle.imbalance_ns, idle.recompute_ns]
        parts += [idle.communication_ns] if communicates else []
        rows.append(
            [f"rank {rank:>{digits}} idle %", *(_signed(100 * part / simulation.makespan_ns, 1) for part in parts)]
        )
    return aligned(["", "all", *causes], rows, left={0})


def memory_note(simulation: Simulation, memory_limit_bytes: int | None) -> str:
    """Return one sentence on the memory limit."""
    if not simulation.network.has_memory:
        return "memory: the layer file has no memory data, so no limit is checked"
    peak = max(simulation.peak_memory_bytes)
    where = f"peak {megabytes(peak):,.1f} MB on rank {simulation.peak_memory_bytes.index(peak)}"
    if memory_limit_bytes is None:
        return f"memory: {where}; no limit was given (--memory), so none is checked"
    limit = f"the limit of {megabytes(memory_limit_bytes):,.1f} MB"
    if simulation.fits(memory_limit_bytes):
        return f"memory: {where}, within {limit}"
    over = [rank for rank, held in enumerate(simulation.peak_memory_bytes) if held > memory_limit_bytes]
    return f"memory: {where}; over {limit} on {'rank' if len(over) == 1 else 'ranks'} {rank_ranges(over)}"


def rank_ranges(ranks: Sequence[int]) -> str:
    """Return ascending ranks with runs of them shortened: ``0-3, 7``."""
    starts = [rank for rank in ranks if rank - 1 not in ranks]
    ends = [rank for rank in ranks if rank + 1 not in ranks]
    pairs = zip(starts, ends, strict=True)
    return ", ".join(str(start) if start == end else f"{start}-{end}" for start, end in pairs)


def message_note(message: Communication | None) -> str:
    """Return one sentence on what a message costs; empty where messages are free."""
    if message is None:
        return ""
    return (
        f"messages between ranks: {message.latency_ns / 1000:,.3f} us latency + "
        f"{message.transfer_ns / 1000:,.3f} us transfer"
    )


def round_up_megabytes(size_bytes: int) -> int:
    """Return whole megabytes that hold `size_bytes`, for a limit that a user can type."""
    return -(-size_bytes // MEGABYTE)


def _by_chunk(values: Sequence[int]) -> str:
    return " ".join(str(value) for value in values)


def _signed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:.{digits}f}"  # adding zero turns -0.0 into 0.0


def _counted(count: int, noun: str) -> str:
    plural = "es" if noun.endswith("ch") else "s"
    return f"{count} {noun}{'' if count == 1 else plural}"
