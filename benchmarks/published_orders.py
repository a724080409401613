"""Our orders against those of the zero-bubble authors' own schedulers: random stages, the same memory.

Both are simulated with the same times. What theirs take is kept in `peer_orders.json`, so the comparison needs nothing
of theirs; with a checkout of their repository it is measured again.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import peer_schedulers
from benchmarks.random_settings import SEED, RandomSetting, random_settings
from benchmarks.table import aligned
from evenflow.schedule import make_schedule
from evenflow.simulate import simulate, stage_costs
from evenflow.solve.order.made_orders import family_orders
from evenflow.solve.order.order_search import load_kernels, search_order
from evenflow.solve.work import make_work

DATA = Path(__file__).with_name("peer_orders.json")
OURS = {"zb": ("zb-h1", "zb-h2"), "zbv": ("zbv",), "v-half": ("v-half",), "v-min": ("v-min",), "1f1b-v": ("1f1b-v",)}
"""Our families for each of their schedulers."""
TOLERANCE = 0.001
"""A loss of no more than this share counts as small."""
_WAYS = ("family, equal times", "family, these times", "search")


@dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """What the order of their scheduler takes."""

    makespan_ns: int
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A setting with the makespans of both sides."""

    scheduler: str
    number: int
    limit_factor: float | None
    theirs_ns: int
    equal_ns: int | None
    """Best order of the families as they are for equal times; None where none fits."""
    made_ns: int
    """Best order of the families made for these times."""
    found_ns: int
    """Best order that the search found."""

    @property
    def group(self) -> str:
        """The scheduler, and whether it had less memory than 1F1B needs."""
        return f"{self.scheduler}, < p" if self.limit_factor is not None and self.limit_factor < 1 else self.scheduler

    def excess(self, way: str) -> float | None:
        """Return by which share ours is longer than theirs, negative where it is shorter."""
        ours = dict(zip(_WAYS, (self.equal_ns, self.made_ns, self.found_ns), strict=True))[way]
        return None if ours is None else ours / self.theirs_ns - 1


def measure_theirs(settings: Iterable[RandomSetting], *, checkout: Path) -> dict[str, Any]:
    """Run their schedulers from a checkout of their repository and simulate the orders."""
    peer_schedulers.load_peers(checkout)
    rows = []
    for setting in settings:
        order = peer_schedulers.peer_order(setting)
        plan = setting.plan(OURS[setting.scheduler][0])
        simulation = simulate(setting.network, plan, schedule=order, communication=setting.communication)
        peak = max(simulation.peak_memory_bytes)
        if setting.limit_bytes is not None and peak > setting.limit_bytes:
            raise RuntimeError(f"{setting.network.name}: their order exceeds the memory that it was given")
        rows.append([setting.scheduler, setting.number, simulation.makespan_ns, peak])
    return {
        "source": f"orders of the schedulers of {peer_schedulers.SOURCE} (megatron/core/pipeline_parallel/zerobubble/"
        "scheduler: zb.py, zbv.py, zbv_greedy.py, v1f1b.py) for benchmarks/random_settings.py, simulated by evenflow; "
        "made by python -m benchmarks zero-bubble --peer CHECKOUT",
        "seed": SEED,
        "columns": ["scheduler", "number", "makespan_ns", "peak_bytes"],
        "rows": rows,
    }


def read_theirs(data: Mapping[str, Any]) -> dict[tuple[str, int], Theirs]:
    """Return what their orders take, by scheduler and number of the setting."""
    return {
        (scheduler, number): Theirs(makespan_ns=makespan, peak_bytes=peak)
        for scheduler, number, makespan, peak in data["rows"]
    }


def store(checkout: Path) -> None:
    """Measure all their orders and write the file beside this one."""
    data = measure_theirs(random_settings(), checkout=checkout)
    rows = ",\n  ".join(json.dumps(row) for row in data.pop("rows"))
    head = json.dumps(data, indent=1).removesuffix("\n}")
    DATA.write_text(f'{head},\n "rows": [\n  {rows}\n ]\n}}\n', encoding="utf-8")


def stored() -> dict[tuple[str, int], Theirs]:
    """Return what their orders take, from the file beside this one."""
    return read_theirs(json.loads(DATA.read_text(encoding="utf-8")))


def compare_all(settings: Sequence[RandomSetting], *, seconds: float) -> list[Row]:
    """Make our orders for all settings; says on standard error how far it is."""
    theirs = stored()
    load_kernels()
    rows = []
    for setting in settings:
        row = compare(setting, theirs[setting.scheduler, setting.number], seconds=seconds)
        excess = row.excess("search")
        print(f"  {setting.network.name}: {100 * (excess or 0):+.3f} %", file=sys.stderr, flush=True)
        rows.append(row)
    return rows


def compare(setting: RandomSetting, theirs: Theirs, *, seconds: float) -> Row:
    """Make our orders for a setting in the memory of theirs; the search has `seconds`."""
    limit = theirs.peak_bytes if setting.limit_bytes is None else setting.limit_bytes
    names = OURS[setting.scheduler]
    plan = setting.plan(names[0])
    orders = [_equal(setting, name, limit) for name in names]
    found = search_order(
        plan,
        setting.network,
        memory_limit_bytes=limit,
        communication=setting.communication,
        split_backward=setting.scheduler != "1f1b-v",
        time_limit_s=seconds,
    )
    again = simulate(setting.network, plan, schedule=found.schedule, communication=setting.communication)
    if again.makespan_ns != found.makespan_ns or not again.fits(limit):
        raise RuntimeError(f"{setting.network.name}: the order is not what it is said to be")
    return Row(
        scheduler=setting.scheduler,
        number=setting.number,
        limit_factor=setting.limit_factor,
        theirs_ns=theirs.makespan_ns,
        equal_ns=min((each for each in orders if each is not None), default=None),
        made_ns=min(_made(setting, name, limit) for name in names),
        found_ns=found.makespan_ns,
    )


def _equal(setting: RandomSetting, name: str, limit_bytes: int) -> int | None:
    """Return the makespan of a family's order for equal times; None where it does not fit."""
    simulation = simulate(setting.network, setting.plan(name), communication=setting.communication)
    return simulation.makespan_ns if simulation.fits(limit_bytes) else None


def _made(setting: RandomSetting, name: str, limit_bytes: int) -> int:
    """Return the makespan of the family's best order for the times of the setting, simulated again."""
    plan = setting.plan(name)
    sizes = {"num_ranks": setting.num_ranks, "num_chunks": setting.num_chunks}
    order = make_schedule(name, num_microbatches=setting.num_microbatches, **sizes)
    work = make_work(
        stage_costs(setting.network, plan, order),
        order,
        memory_limit_bytes=limit_bytes,
        communication=setting.communication,
        split_backward=order.splits_backward,
    )
    best = min(family_orders(name, work), key=lambda found: found.makespan_ns)
    again = simulate(setting.network, plan, schedule=best.schedule, communication=setting.communication)
    if again.makespan_ns != best.makespan_ns or not again.fits(limit_bytes):
        raise RuntimeError(f"{setting.network.name}: the order of {name} is not what it is said to be")
    return again.makespan_ns


def report(rows: Sequence[Row]) -> str:
    """Return wins, ties and losses against each of their schedulers, for each way to an order."""
    header = ("against", "ours", "settings", "won", "tied", "lost", f"by > {100 * TOLERANCE:g} %", "no fit", "worst %",
              "mean %")  # fmt: skip
    groups = {name: [row for row in rows if row.group == name] for name in dict.fromkeys(row.group for row in rows)}
    groups["all"] = list(rows)
    lines = [
        [name, way, str(len(of)), *_counts([row.excess(way) for row in of])]
        for name, of in groups.items()
        for way in _WAYS
    ]
    return aligned(header, lines)


def _counts(excesses: Sequence[float | None]) -> Iterator[str]:
    known = [each for each in excesses if each is not None]
    yield str(sum(each < 0 for each in known))
    yield str(sum(each == 0 for each in known))
    yield str(sum(each > 0 for each in known))
    yield str(sum(each > TOLERANCE for each in known))
    yield str(len(excesses) - len(known))
    yield f"{100 * max(known):+.2f}" if known else "-"
    yield f"{100 * sum(known) / len(known):+.2f}" if known else "-"
