"""Group sizes of interleaved schedules: what another than the usual one saves in memory, and in time under messages."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.table import aligned
from evenflow.baselines.equal_stages import equal_stages, peak_live
from evenflow.model import Communication, Sizes
from evenflow.profiles.layer_file import read_layer_file
from evenflow.schedule import different_group_sizes, group_sizes, make_schedule
from evenflow.simulate import build_graph, run
from evenflow.solve import plan_best
from evenflow.units import MEGABYTE, milliseconds

FAMILIES = ("interleaved", "interleaved-less-memory")
SIZES = tuple(
    Sizes(num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches)
    for ranks, chunks, microbatches in product((4, 8), (2, 3, 4), range(8, 64))
)
"""336 sizes: every number of microbatches from 8 to 63 on 4 and 8 ranks with 2 to 4 chunks."""
FORWARD_NS, BACKWARD_NS = 1000, 2000
LATENCIES_NS = (10, 20, 50, 100, 200)
"""Latencies of a message, 1 % to 20 % of a forward of one stage."""
SMALL = Sizes(num_ranks=8, num_chunks=2, num_microbatches=48)
LAYERS = Path(__file__).resolve().parents[1] / "examples" / "llama2_70b.json"
PLANNED = ((4, 2, 11), (4, 2, 19), (8, 2, 23), (8, 2, 31))
"""Ranks, chunks and microbatches that the 70B example is planned for."""
LIMIT_BYTES = 56 * 1024 * MEGABYTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What another group size saves at one size, as a fraction of the usual one's; nothing where none is better."""

    sizes: Sizes
    memory: float
    """Activations of the fullest rank, with the same step on equal stages and free messages."""
    memory_megatron: float
    """The same with the sizes that Megatron-LM takes alone."""
    time: dict[int, float]
    """Step, by the latency of a message in ns."""


def savings(family: str) -> Iterator[Saving]:
    """Yield what another group size saves at each of the sizes."""
    for sizes in SIZES:
        ranks, count = sizes.num_ranks, sizes.num_microbatches
        live, megatron, steps = [], [], []
        for group in different_group_sizes(family, sizes):
            groups = group_sizes(num_microbatches=count, group=group or ranks, fill=ranks)
            if group is not None and (group < ranks or groups[0] > 2 * ranks):
                continue  # with bubbles of its own; or with more activations than the usual size ever has
            order = make_schedule(family, **asdict(sizes), group_size=group)
            ahead = 2 if family == "interleaved" else 1
            held = min(sizes.num_chunks * count, (sizes.num_chunks - 1) * groups[0] + ahead * (ranks - 1) + 1)
            live.append(held)
            megatron.append(held if group is None or not 0 < count % group < ranks else live[0])
            graph = build_graph(order)
            durations = np.tile(np.array([FORWARD_NS, BACKWARD_NS, 0, 0], dtype=np.int64), sizes.num_cells)
            steps.append([run(graph, durations, Communication(latency_ns=each)).makespan_ns for each in LATENCIES_NS])
        shortest = np.array(steps).min(axis=0)
        yield Saving(
            sizes=sizes,
            memory=1 - min(live) / live[0],
            memory_megatron=1 - min(megatron) / live[0],
            time={each: 1 - shortest[place] / steps[0][place] for place, each in enumerate(LATENCIES_NS)},
        )


def report_savings() -> str:
    """Return the table of what another group size saves."""
    rows = []
    for family in FAMILIES:
        every = list(savings(family))
        columns = {
            "memory": [each.memory for each in every],
            "memory, sizes of Megatron-LM": [each.memory_megatron for each in every],
        }
        columns |= {
            f"step, latency {each / 10:g} % of a forward": [saving.time[each] for saving in every]
            for each in LATENCIES_NS
        }
        for name, values in columns.items():
            better = [value for value in values if value > 0]
            mean = sum(better) / max(1, len(better))
            rows.append(
                [
                    f"{family}, {name}",
                    f"{len(better)}/{len(values)}",
                    f"{100 * max(values):.1f} %",
                    f"{100 * mean:.1f} %",
                ]
            )
    return aligned(["saved", "sizes", "most", "mean of these"], rows)


def report_small_groups() -> str:
    """Return the table of groups smaller than the ranks, which only the less-memory order can have."""
    rows = []
    family, usual = FAMILIES[1], 0
    for group in range(SMALL.num_ranks, SMALL.num_ranks // 2 - 1, -1):
        simulation = equal_stages(
            make_schedule(family, **asdict(SMALL), group_size=group), forward_ns=FORWARD_NS, backward_ns=BACKWARD_NS
        )
        usual = usual or simulation.makespan_ns
        live = max(peak_live(simulation))
        rows.append([str(group), f"{100 * (simulation.makespan_ns / usual - 1):+.1f} %", f"{float(live):.1f}"])
    return aligned(["group", "step", "fullest rank"], rows)


def report_plans(time_limit_s: float) -> str:
    """Return the table of plans of the 70B example with the usual and with the best group size."""
    network = read_layer_file(LAYERS)
    rows = []
    for ranks, chunks, microbatches in PLANNED:
        best = plan_best(
            network,
            num_ranks=ranks,
            num_microbatches=microbatches,
            num_chunks=(chunks,),
            families=("interleaved",),
            memory_limit_bytes=LIMIT_BYTES,
            group_sizes="every",
            time_limit_s=time_limit_s,
        )
        usual = next(each for each in best.candidates if each.group_size is None)
        assert best.best is not None
        row = [f"{ranks} x {chunks} x {microbatches}", str(len(best.candidates))]
        row += [f"{milliseconds(each.makespan_ns):,.1f}" if each.makespan_ns else "none" for each in (usual, best.best)]
        if usual.makespan_ns and best.best.makespan_ns:
            row.append(f"{100 * (1 - best.best.makespan_ns / usual.makespan_ns):.2f} %")
        else:
            row.append("")
        rows.append([*row, str(best.best.group_size or "ranks"), f"{100 * (best.gap or 0):.2f} %"])
    header = ["ranks x chunks x microbatches", "sizes", "usual ms", "best ms", "shorter", "group", "gap over all"]
    return aligned(header, rows)


def report(time_limit_s: float) -> str:
    """Return all tables."""
    return "\n\n".join([report_savings(), report_small_groups(), report_plans(time_limit_s)])
