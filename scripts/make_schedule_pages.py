"""Write docs/schedules: a page and a picture for each family of schedules, and the comparison of all of them.

Run it with ``make schedule-pages``. Every number comes from the simulator.
"""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from evenflow.baselines.equal_stages import equal_stages, peak_live
from evenflow.cli.text.schedule_text import number, schedule_svg
from evenflow.model import Communication, Sizes
from evenflow.schedule import FAMILIES, bubbles_by_formula, idle_by_formula, make_schedule
from evenflow.schedule.families import ALIAS_NOTES, ALIASES
from evenflow.schedule.family import ScheduleFamily
from evenflow.simulate import Simulation, simulate

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "schedules"
FORWARD_NS, BACKWARD_NS = 1_000_000, 2_000_000

_ONLY = "only simulation"
"""What a table says where there is no formula."""

SIZES = {"naive": (4, 1, 4), "interleaved-remainder-last": (4, 2, 9)}
"""Ranks, chunks and microbatches of families whose picture needs other sizes than the usual ones."""

SPLIT_FAMILIES = (
    ("zb-h1", 1, 1), ("zb-h2", 1, 1), ("zbv", 2, 1), ("v-half", 2, 1), ("v-min", 2, 1), ("dualpipe-v", 2, 1)
)  # fmt: skip
"""Name, chunks and sequence splits of each family with split backwards, for the tables."""

CHOICES = {
    "many more microbatches than ranks, and little memory": "[1f1b](1f1b.md)",
    "few microbatches for the number of ranks": "[interleaved](interleaved.md); more chunks idle less, and send more "
    "messages",
    "the same and fast links, and interleaved does not fit": "[interleaved-less-memory](interleaved-less-memory.md): "
    "as short with free messages, longer with slow ones",
    "an engine that splits backwards": "[zbv](zbv.md): the memory of 1f1b, and less idle time than interleaved with as "
    "many chunks; with one chunk per rank, [zb-h1](zb-h1.md)",
    "an engine with whole backwards, and memory decides": "[1f1b-v](1f1b-v.md): two thirds of 1f1b's activations, and "
    "less idle time",
    "split backwards, and memory decides": "[v-half](v-half.md) where times do not differ much: half the activations "
    "of 1f1b plus one; [v-min](v-min.md) where they are nearly equal: a third plus one",
    "the same with one chunk per rank, short weight gradients, and memory to spare": "[zb-h2](zb-h2.md)",
    "messages that can only be hidden behind a forward and a backward at the same time": "[dualpipe-v](dualpipe-v.md)",
    "experts whose exchanges take long, and an engine that runs a forward beside a backward": "[interleaved-overlap]"
    "(interleaved-overlap.md), [1f1b-overlap](1f1b-overlap.md) with one chunk per rank, "
    "[dualpipe-v-overlap](dualpipe-v-overlap.md), or [zbv-overlap](zbv-overlap.md) where that does not fit",
    "slow links between ranks, and memory to spare": "[eager-1f1b](eager-1f1b.md)",
    "long sequences": "[1f1b](1f1b.md) or interleaved with `--sequence-splits` (Seq1F1B): parts count as microbatches "
    "and keep less",
    "small activations, or a framework that runs nothing else": "[f-then-b](f-then-b.md)",
    "no schedule yet, and want something to compare with": "[naive](naive.md)",
}

NOTES = {
    "f-then-b": """\
### Several chunks

With `--chunks 2` or more all microbatches pass one chunk before the next begins: looped breadth-first. For m ≥ p it
idles as little as interleaved 1F1B, and keeps all m microbatches. Weights that are sharded over data-parallel ranks are
gathered once per step and direction.
""",
    "1f1b": """\
### How much it saves

1F1B takes as long as F-then-B and keeps p − r instead of m microbatches on rank r. For m ≥ p the fullest rank saves
1 − p / m of its activations, and the average over ranks is 1 − (p + 1) / (2 m): the often quoted 37.5 % for 4 ranks
and 4 microbatches, where the fullest rank saves nothing.

### Where the bubbles are

The bubbles before and after the steady phase of rank r are (p − r − 1) b and (p − r − 1) f. The other way round, as in
some descriptions, agrees for f = b only.
""",
    "interleaved": """\
### Any number of microbatches

Microbatches that do not fill a group of p join the first group, and the bubble stays that of a number that p divides;
[remainder last](interleaved-remainder-last.md) is the published order.

### Group size

`--group-size N` takes groups of N ≥ p microbatches. With equal stages and free messages the step stays the same; what
changes is how much is kept, which the first group g decides, and how long a message may take before it delays anyone:
groups a little larger than p hide messages. A remainder of at least p is a last group of its own, as in Megatron-LM
with `--microbatch-group-size-per-virtual-pipeline-stage N`; a smaller one, which Megatron-LM refuses, joins the first
group. Where p does not divide m, another N often keeps less: for m = 4 p − 1 the usual first group has 2 p − 1
microbatches, and one of ⌈m / 3⌉ fills the pipeline as well. `--group-size best` tries every N that makes another
order ([how much it saves](../benchmarks.md#group-sizes-group_size)).
""",
    "interleaved-less-memory": """\
### Groups smaller than the ranks

This order also finishes with groups of p/2 microbatches or more, where `--group-size` asks for them. Ranks then wait
between chunks, and keep less ([table](../benchmarks.md#group-sizes-group_size)). Smaller groups could leave ranks
waiting for each other in a circle.
""",
    "1f1b-v": """\
### Other times

The order is made for backwards of twice a forward's time, in which no two of a rank fall together. `evenflow plan
--schedule 1f1b-v` also makes orders of the same block for the times, messages and memory of a plan.
""",
    "zb-h2": """\
### What it gains

With f = i = w it takes as long as [zb-h1](zb-h1.md), since a step ends with its last rank; the paper fills the waiting
of the others with the next step, which a single synchronous step cannot do. ZB-H2 gains where input gradients take
longer than forwards, or where weight gradients are short.
""",
    "zbv": """\
### Fewer microbatches

If f = i = w, no rank waits between its own actions from 2 p − 1 microbatches on; from p on the step is equally short.
""",
    "v-half": """\
### Unequal times

The steady phase keeps up with any times for which w + 2 i ≥ 2 f and w + 2 f ≥ 2 i; then the bubble does not grow with
the number of microbatches. Otherwise every microbatch adds to it.

### Shortest within its memory

With f = i = w and messages that take no time, no order of two chunks on a V is shorter that holds at most 2 (p//2 + 1)
activations of a chunk on any rank, until the weight gradient: so an exhaustive search over all orders says for up to 4
ranks with up to 12 microbatches, 5 ranks with up to 4, and 6 to 8 ranks with up to 3. It is not known of others. Where
a plan under this schedule is called optimal, that is over all cells and all recomputation under this order of work.
""",
    "v-min": """\
### Unequal times

Every unit of a microbatch is needed by the next rank at once, so times that are not equal make ranks wait for each
microbatch, and the bubble grows with their number. Take [v-half](v-half.md) then.

### Shortest within its memory

With f = i = w and messages that take no time, no order of two chunks on a V is shorter that holds at most
2 ((p + 4)//3) activations of a chunk on any rank, until the weight gradient: so an exhaustive search over all orders
says for up to 4 ranks with up to 12 microbatches, and 5 to 8 ranks with up to 3. With 5 ranks and 4 microbatches it is
not so: 37 units, where the shortest order within that memory takes 35. It is not known of others. Where a plan under
this schedule is called optimal, that is over all cells and all recomputation under this order of work.
""",
    "dualpipe-v": """\
### Pairs

Where DualPipe runs a forward and a backward at the same time, to hide messages, this order runs them one after the
other, and the numbers here do not include what such a pair gains.

### DualPipe

DualPipe itself sends half of the microbatches each way: rank r of p holds the stages r and p − 1 − r, so that there are
two copies of the parameters. Ranks r and p − 1 − r do the same at the same times, so it is DualPipe-V on p / 2 ranks
with m / 2 microbatches, twice: the same step and the same memory, but for one message in the middle that DualPipe-V
spares. Plan that, with twice as many data-parallel replicas.

### Fewer than two microbatches per rank

The published phases need 2 p microbatches. With fewer, the order is that for 2 p without those that do not exist; it
idles more, and [zbv](zbv.md) is shorter.
""",
}


def pages() -> dict[str, str]:
    """Return the text of each file of the folder by its name."""
    files = {"which.md": _comparison()}
    for name, family in FAMILIES.own.items():
        files[f"{name}.md"], files[f"{name}.svg"] = _page(name, family)
    return files


def _simulation(
    name: str,
    ranks: int,
    chunks: int,
    microbatches: int,
    *,
    splits: int = 1,
    per_rank: int = 0,
    parts: tuple[int, int, int] = (2, 2, 2),
) -> Simulation:
    """Simulate a family on equal stages; with `per_rank`, a microbatch takes that many forward times on a rank.

    `parts` are the times of forward, input and weight gradient in halves of a millisecond.
    """
    order = make_schedule(
        name, num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches, sequence_splits=splits
    )
    scale = Fraction(per_rank or chunks, chunks * splits)
    forward_ns, gradient_ns, weight_ns = (int(scale * FORWARD_NS * part / 2) for part in parts)
    return equal_stages(order, forward_ns=forward_ns, backward_ns=gradient_ns + weight_ns, weight_ns=weight_ns)


def _page(name: str, family: ScheduleFamily) -> tuple[str, str]:
    """Return the page and the picture of a family."""
    ranks, chunks, microbatches = SIZES.get(name, (4, family.num_chunks or (2 if "interleaved" in name else 1), 8))
    simulation = _simulation(name, ranks, chunks, microbatches)
    command = f"evenflow schedule show {name} --ranks {ranks} --microbatches {microbatches}"
    if chunks > 1 and family.num_chunks is None:
        command += f" --chunks {chunks}"
    rows = {
        "limits": family.limits,
        "live activations of rank r": family.memory,
        "[idle share](../algorithms.md#simulator)": family.bubble,
        "paper": family.paper,
        "also": ", ".join(f"`{alias}`: {ALIAS_NOTES[alias]}" for alias, owner in ALIASES.items() if owner == name),
    }
    facts = "\n".join(f"- {fact}: {text}" for fact, text in rows.items() if text)
    parts = [
        f"# {name}",
        f"The schedule `{name}`: {family.idea}. [Which when](which.md) compares it with the others.",
        f"With p ranks, v chunks per rank and m microbatches:\n\n{facts}",
        f"![{name}]({name}.svg)",
        f"```bash\n{command}\n```",
        *([NOTES[name].rstrip()] if name in NOTES else []),
    ]
    return "\n\n".join(parts) + "\n", schedule_svg(simulation)


def _comparison() -> str:
    """Return the page that compares all families."""
    return f"""\
# Which schedule when

This page says which schedule to take, and has what all of them idle and keep. `evenflow plan --schedule NAME` finds the
best cut and recomputation for one of them. Compare the step times of these plans and not idle shares alone: a schedule
that keeps less needs less recomputation.

{_choices()}

## Measured

There are 8 equal ranks. A microbatch takes a rank 4 ms forward and 8 ms backward, half of it for the weights; chunks of
a rank, or parts of a sequence, share this time. `idle` is the idle share of all ranks' time in percent, with free
messages and with messages that take 0.5 ms (for a part of a sequence, its share). `kept` is the peak of live
activations, on the fullest rank and on average, in what one microbatch keeps on a whole rank.

{_measured((8, 32))}

## Unequal times

The idle share in percent of the same ranks with 32 microbatches and free messages, by the ratio f : i : w of
forward, input gradient and weight gradient. Schedules with whole backwards idle the same for every ratio.

{_unequal(32)}

## By formula

The idle time of a rank in equal stages with free messages, of v chunks on p ranks; f, i and w are the times of one
stage, b = i + w. *Where* says whether the bubbles of each rank (their places and lengths) have a formula too. What only
simulation knows, every command simulates exactly.

{_formulas()}

## A remainder of microbatches

The idle share in percent on 4 ranks with 2 chunks. [interleaved](interleaved.md) merges a remainder into the first
group, [interleaved-remainder-last](interleaved-remainder-last.md) runs it last.

{_remainders()}
"""


def _choices() -> str:
    """Return the table of what to take when."""
    return "\n".join(["| you have | take |", "|---|---|", *(f"| {need} | {take} |" for need, take in CHOICES.items())])


def _measured(sizes: Sequence[int]) -> str:
    """Return the table of measured shares and memory for these numbers of microbatches."""
    cases = [
        ("naive", 1, 1), ("f-then-b", 1, 1), ("1f1b", 1, 1), ("1f1b", 1, 4), ("eager-1f1b", 1, 1),
        ("interleaved-less-memory", 2, 1), ("interleaved-less-memory", 4, 1), ("interleaved", 2, 1),
        ("interleaved", 4, 1), ("1f1b-v", 2, 1), *SPLIT_FAMILIES,
    ]  # fmt: skip
    columns = [
        f"{microbatches} microbatches: {column}"
        for microbatches in sizes
        for column in ("idle", "with messages", "kept", "on average")
    ]
    lines = [f"| | {' | '.join(columns)} |", f"|---|{'--:|' * len(columns)}"]
    for name, chunks, splits in cases:
        title = name + (f", {chunks} chunks" if chunks > 1 else "") + (f", sequences in {splits} parts" * (splits > 1))
        cells = [_shares(name, chunks, splits, microbatches) for microbatches in sizes]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _shares(name: str, chunks: int, splits: int, microbatches: int) -> str:
    """Return the cells of one family and number of microbatches: both idle shares, and what is kept."""
    simulation = _simulation(name, 8, chunks, microbatches, splits=splits, per_rank=4)
    message = Communication(latency_ns=FORWARD_NS // (2 * splits))
    delayed = simulate(simulation.network, simulation.plan, communication=message)
    live = peak_live(simulation)
    kept = f"{number(max(live))} | {number(sum(live, Fraction(0)) / len(live))}"
    return f"{_percent(_idle(simulation))} | {_percent(_idle(delayed))} | {kept}"


def _unequal(microbatches: int) -> str:
    """Return the table of idle shares by the ratio of forward, input gradient and weight gradient."""
    ratios = {"1 : 1 : 1": (2, 2, 2), "2 : 2 : 1": (2, 2, 1), "4 : 5 : 3": (4, 5, 3), "3 : 2 : 2": (3, 2, 2),
              "1 : 2 : 1": (2, 4, 2)}  # fmt: skip
    lines = [f"| {microbatches} microbatches | {' | '.join(ratios)} |", f"|---|{'--:|' * len(ratios)}"]
    for name, chunks, _ in (("1f1b", 1, 1), ("interleaved", 2, 1), *SPLIT_FAMILIES):
        simulations = (_simulation(name, 8, chunks, microbatches, per_rank=4, parts=parts) for parts in ratios.values())
        lines.append(f"| {name} | {' | '.join(_percent(_idle(simulation)) for simulation in simulations)} |")
    return "\n".join(lines)


def _formulas() -> str:
    """Return the table of which idle times have a formula, for equal and other times."""
    lines = ["| 32 microbatches on 8 ranks | f = i = w | f : i : w = 4 : 5 : 3 | where, f = i = w | where, 4 : 5 : 3 |"]
    lines.append("|---|---|---|---|---|")
    for name, family in FAMILIES.own.items():
        chunks = family.num_chunks or max(family.fewest_chunks, 2 if name.startswith("interleaved") else 1)
        cases = {name: 32} | ({f"{name}, 33 microbatches": 33} if name == "interleaved-remainder-last" else {})
        for title, microbatches in cases.items():
            sizes = {"num_ranks": 8, "num_chunks": chunks, "num_microbatches": microbatches}
            idle, where = [], []
            for forward, gradient, weight in ((4, 4, 4), (4, 5, 3)):
                times = {"forward_ns": forward, "backward_ns": gradient + weight, "weight_ns": weight}
                found = idle_by_formula(name, Sizes(**sizes), **times)
                idle.append(_ONLY if found.idle_ns is None else f"`{found.words}`")
                known = [bubbles_by_formula(name, rank=rank, **sizes, **times) for rank in range(8)]
                where.append(_ONLY if None in known else "formula")
            lines.append(f"| {title} | {' | '.join(idle)} | {' | '.join(where)} |")
    return "\n".join(lines)


def _remainders() -> str:
    """Return the table of both ways to treat a remainder of microbatches."""
    lines = ["| microbatches | interleaved | remainder last, b = f | remainder last, b = 2 f |", "|--:|--:|--:|--:|"]
    for microbatches in range(4, 14):
        row = [str(microbatches), _percent(_idle(_simulation("interleaved", 4, 2, microbatches)))]
        for backward_ns in (FORWARD_NS, 2 * FORWARD_NS):
            sizes = {"num_ranks": 4, "num_chunks": 2, "num_microbatches": microbatches}
            order = make_schedule("interleaved-remainder-last", **sizes)
            row.append(_percent(_idle(equal_stages(order, forward_ns=FORWARD_NS, backward_ns=backward_ns))))
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _idle(simulation: Simulation) -> Fraction:
    """Return the idle share of all ranks' time."""
    timeline = simulation.timeline
    return 1 - Fraction(int(timeline.busy_ns.sum()), timeline.makespan_ns * timeline.schedule.num_ranks)


def _percent(share: Fraction) -> str:
    return f"{100 * float(share):.1f}"


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
