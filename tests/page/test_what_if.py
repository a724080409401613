"""What the page says of a plan that is changed there is what the simulator says of it, exactly."""

import json
import random
import subprocess
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenflow.errors import InputError
from evenflow.model import (
    Communication,
    EndBlock,
    Layer,
    LayerRun,
    Mode,
    Network,
    Plan,
    RankTraits,
    StageRule,
    check_cut,
    with_segments,
)
from evenflow.profiles.plan_file import parse_plan
from evenflow.report.what_if import what_if_of
from evenflow.schedule import FAMILIES, Action, Op, Schedule, make_schedule
from evenflow.schedule.of_plan import order_lines
from evenflow.simulate import Simulation, gaps_ns, memory_changes, simulate
from tests.networks import alone_together, equal_network
from tests.paths import ROOT
from tests.strategies import is_ready

pytestmark = pytest.mark.page

PLANS = 1000
WITHOUT_PAIRS = tuple(name for name, family in FAMILIES.items() if not family.has_pairs)
ORDERED = (
    "naive", "1f1b", "eager-1f1b", "f-then-b", "interleaved", "interleaved-less-memory",
    "1f1b-v", "zb-h1", "zb-h2", "zbv", "v-half", "v-min", "dualpipe-v",
)  # fmt: skip
"""Families whose orders the page makes for other numbers of microbatches."""
WEB = ROOT / "web"


def layer(pick: random.Random, kinds: list[str], name: str) -> Layer:
    forward_ns, backward_ns = pick.randint(20, 10**9), pick.randint(20, 2 * 10**9)

    def mode(more_ns: int) -> Mode:
        working = pick.choice((0, pick.randint(0, 10**9)))
        return Mode(activation_bytes=pick.randint(0, 10**10), backward_ns=backward_ns + more_ns, working_bytes=working)

    return Layer(
        name=name,
        forward_ns=forward_ns,
        parameter_bytes=pick.randint(0, 10**11),
        modes={"none": mode(0)} | {kind: mode(pick.randint(0, forward_ns)) for kind in kinds},
        stated_weight_ns=pick.choice((None, pick.randint(0, backward_ns))),
        stated_until_weight_bytes=pick.choice((None, pick.randint(0, 10**10))),
        boundary_bytes=pick.choice((None, pick.randint(0, 10**8))),
    )


def end_block(pick: random.Random) -> EndBlock:
    if pick.random() < 0.3:
        return EndBlock()
    times = [pick.randint(20, 10**9) for _ in range(2)]
    sizes = [pick.randint(0, 10**10) for _ in range(3)]
    return EndBlock(
        forward_ns=times[0],
        backward_ns=times[1],
        parameter_bytes=sizes[0],
        activation_bytes=sizes[1],
        working_bytes=sizes[2],
    )


def network(pick: random.Random, num_ranks: int) -> Network:
    kinds = pick.sample(["full", "both", "select", "comm", "own"], pick.randint(0, 4))
    runs = tuple(
        LayerRun(layer=layer(pick, kinds, f"layer {number}"), count=pick.randint(1, 6))
        for number in range(pick.randint(1, 5))
    )
    traits = tuple(
        RankTraits(
            speed=pick.choice((1.0, 0.5, 0.83)), reserved_bytes=pick.choice((0, 10**9)), link_ns=pick.choice((0, 10**6))
        )
        for _ in range(num_ranks)
    )
    plain = Network(
        name="drawn",
        runs=runs,
        head=replace(end_block(pick), boundary_bytes=pick.choice((None, 10**7))),
        tail=end_block(pick),
        constant_bytes=pick.randint(0, 10**9),
        ranks=pick.choice(((), traits)),
    )
    lengths = [length for length in (0, 2, 3) if length <= plain.num_layers]
    in_segments = "full" in kinds and pick.random() < 0.4
    return with_segments(plain, pick.sample(lengths, pick.randint(1, len(lengths)))) if in_segments else plain


def cells(pick: random.Random, network: Network, schedule: Schedule) -> Plan:
    """Any cut of a network, with any recompute counts."""
    units = network.split_sequence(schedule.sequence_splits)
    cuts = sorted(pick.randint(0, network.num_layers) for _ in range(schedule.num_stages - 1))
    sizes = [end - first for first, end in pairwise([0, *cuts, network.num_layers])]
    tables = {kind: np.zeros(schedule.stage_table.shape, dtype=int) for kind in units.kinds[:-1]}
    layers = np.array(sizes)[schedule.stage_table]
    left = layers.copy()
    for table in tables.values():
        for place, most in np.ndenumerate(left):
            table[place] = pick.randint(0, most)
        left -= table
    recompute = {kind: tuple(map(tuple, table.tolist())) for kind, table in tables.items()}
    return Plan(
        schedule=schedule.name,
        num_microbatches=schedule.num_microbatches,
        layers=tuple(map(tuple, layers.tolist())),
        recompute={} if schedule.is_forward_only else recompute,
        sequence_splits=schedule.sequence_splits,
        group_size=schedule.group_size,
        order=order_lines(schedule),
    )


def any_order(pick: random.Random) -> Schedule:
    """An order that no family has, on any placement of stages; some are of forwards alone."""
    num_ranks, num_chunks, num_microbatches = pick.randint(1, 4), pick.randint(1, 3), pick.randint(1, 5)
    placement = [rank for rank in range(num_ranks) for _ in range(num_chunks)]
    pick.shuffle(placement)
    backwards = pick.choice(([(Op.B,)], [(Op.I, Op.W)], [(Op.B,), (Op.I, Op.W)], [()]))
    waiting = [
        Action(stage, op, unit)
        for stage in range(len(placement))
        for unit in range(num_microbatches)
        for op in (Op.F, *pick.choice(backwards))
    ]
    done: set[Action] = set()
    orders: list[list[Action]] = [[] for _ in range(num_ranks)]
    while waiting:
        action = pick.choice([action for action in waiting if is_ready(action, len(placement), done)])
        waiting.remove(action)
        done.add(action)
        orders[placement[action.stage]].append(action)
    return Schedule.from_actions(
        name="own", num_stages=len(placement), num_microbatches=num_microbatches, stage_ranks=placement, orders=orders
    )


def family_order(pick: random.Random, family: str, **sizes: int) -> Schedule:
    kind = FAMILIES[family]
    sizes.setdefault("num_ranks", pick.randint(1, 6))
    sizes.setdefault("num_chunks", kind.num_chunks or pick.randint(1, 4))
    sizes.setdefault("sequence_splits", pick.choice((1, 1, 2, 3)) if kind.can_split else 1)
    while True:
        try:
            return make_schedule(
                family,
                num_microbatches=pick.randint(1, 12),
                group_size=pick.choice((None, pick.randint(1, 8))) if kind.has_groups else None,
                **sizes,
            )
        except InputError:  # sizes that the family does not have
            continue


def drawn(seed: int) -> tuple[Simulation, Simulation]:
    """A plan, and another of the same network, where the page can with other microbatches."""
    pick = random.Random(seed)
    schedule = any_order(pick) if pick.random() < 0.15 else family_order(pick, pick.choice(WITHOUT_PAIRS))
    model = network(pick, schedule.num_ranks)
    messages = pick.choice(
        (
            None,
            Communication(latency_ns=pick.randint(0, 10**8), transfer_ns=pick.randint(0, 10**8)),
            Communication(latency_ns=pick.randint(0, 10**8), bytes_per_s=pick.randint(1, 10**10)),
        )
    )
    first = simulate(model, cells(pick, model, schedule), communication=messages)
    if schedule.name in ORDERED and pick.random() < 0.7:
        least = schedule.group_size or 1
        sizes = asdict(schedule.sizes) | {"num_microbatches": pick.randint(least, least + pick.choice((15, 15, 60)))}
        schedule = make_schedule(schedule.name, **sizes, group_size=schedule.group_size)
    return first, simulate(model, cells(pick, model, schedule), communication=messages)


def asked(first: Simulation, second: Simulation) -> dict[str, Any]:
    """What the page has of the first plan, and the change that makes it the second."""
    schedule, timeline = first.timeline.schedule, first.timeline
    changed = what_if_of(second)
    plan = first.plan
    file: dict[str, Any] = {"schedule": plan.schedule, "sequence_splits": plan.sequence_splits}
    file |= {} if plan.group_size is None else {"group_size": plan.group_size}
    file |= {"order": plan.order} if plan.order else {}
    return {
        "head": {
            "ranks": schedule.num_ranks,
            "chunks": schedule.num_chunks,
            "microbatches": schedule.num_microbatches,
            "splits": schedule.sequence_splits,
            "stages": schedule.num_stages,
            "stage_rank": schedule.stage_ranks,
            "stage_chunk": schedule.stage_chunks.tolist(),
            "rank_starts": schedule.rank_starts,
            "limit_bytes": None,
            "peak_bytes": first.peak_memory_bytes,
            "what_if": what_if_of(first),
        },
        "op": schedule.ops.tolist(),
        "stage": schedule.stages.tolist(),
        "unit": schedule.units.tolist(),
        "start": timeline.start_ns.tolist(),
        "end": timeline.end_ns.tolist(),
        "file": json.dumps(file | {"status": "optimal", "makespan_ms": 1.0, "lower_bound_ms": 1.0}),
        "change": {"counts": changed["counts"], "microbatches": second.plan.num_microbatches, "limit": None},
    }


def expected(second: Simulation) -> dict[str, Any]:
    timeline, schedule, costs = second.timeline, second.timeline.schedule, second.costs
    message = np.zeros(schedule.num_actions, dtype=int) if timeline.message_ns is None else timeline.message_ns
    return {
        "isExact": True,
        "isPossible": True,
        "isRead": True,
        "makespan": second.makespan_ns,
        "op": schedule.ops.tolist(),
        "stage": schedule.stages.tolist(),
        "unit": schedule.units.tolist(),
        "start": timeline.start_ns.tolist(),
        "end": timeline.end_ns.tolist(),
        "input": timeline.graph.inputs.tolist(),
        "message": message.tolist(),
        "gap": gaps_ns(timeline).tolist(),
        "recompute": second.recompute_ns.tolist(),
        "memory": memory_changes(schedule, costs).tolist(),
        "fixed": costs.static_bytes.tolist(),
        "working": costs.working_bytes.tolist(),
        "peaks": list(second.peak_memory_bytes),
    }


def in_node(plans: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """What the page's own code makes of plans, all of them in one process."""
    script = folder / "simulate_plans.mjs"
    build = [str(WEB / "node_modules" / ".bin" / "esbuild"), "checks/simulate_plans.ts", "--bundle", "--platform=node"]
    subprocess.run([*build, "--format=esm", f"--outfile={script}", "--log-level=warning"], cwd=WEB, check=True)
    done = subprocess.run(["node", str(script)], input=json.dumps(plans), stdout=subprocess.PIPE, check=True, text=True)
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def test_a_thousand_changed_plans_are_those_of_the_simulator(tmp_path: Path):
    begin = random.randrange(10**9)
    pairs = {seed: drawn(seed) for seed in range(begin, begin + PLANS)}
    answers = in_node([asked(*pair) for pair in pairs.values()], tmp_path)
    assert len(answers) == PLANS
    for (seed, (_first, second)), answer in zip(pairs.items(), answers, strict=True):
        wanted = expected(second)
        assert {key: answer[key] for key in wanted} == wanted, f"drawn({seed})"
        saved = parse_plan(answer["saved"], place="saved")
        used = {kind: second.plan.recompute[kind] for kind in second.plan.used_kinds}
        assert saved == replace(second.plan, recompute=used), f"drawn({seed})"
        assert "status" not in json.loads(answer["saved"])


def test_an_order_that_the_plan_file_does_not_say_is_refused():
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((1, 1),))
    others = (plan, replace(plan, schedule="of my own"))
    for other in others:
        order = make_schedule("f-then-b", num_ranks=2, num_chunks=1, num_microbatches=4)
        said = what_if_of(simulate(equal_network(2), other, schedule=order))
        assert "order that its file does not say" in str(said["why_not"])


def ruled(pick: random.Random) -> Network:
    """Layers some of which stay with the one before, or may be in some stages alone."""
    plain = network(pick, 1)
    rules = list(StageRule)
    layers = [
        replace(
            run.layer,
            cut_before=pick.random() < 0.6,
            stage_rules=frozenset(pick.sample(rules, pick.choice((0, 0, 0, 0, 1, 2)))),
        )
        for run in plain.runs
    ]
    runs = [replace(run, layer=layer) for run, layer in zip(plain.runs, alone_together(layers), strict=True)]
    return replace(plain, runs=tuple(runs), ranks=())


def kept_to(network: Network, plan: Plan, schedule: Schedule) -> bool:
    try:
        check_cut(network, plan.layers, schedule.stage_table)
    except InputError:
        return False
    return True


def test_cuts_that_break_a_rule_are_not_possible(tmp_path: Path):
    begin = random.randrange(10**9)
    questions, wanted = [], {}
    for seed in range(begin, begin + 300):
        pick = random.Random(seed)
        schedule = family_order(pick, pick.choice(("1f1b", "interleaved", "zbv")))
        model = ruled(pick)
        plan = cells(pick, model, schedule)
        free = simulate(model.without_rules(), plan)
        question = asked(free, free)
        question["head"]["what_if"]["layers"] |= {
            "begins": [run.layer.cut_before for run in model.runs],
            "rules": [sorted(run.layer.stage_rules) for run in model.runs],
        }
        questions.append(question)
        wanted[seed] = kept_to(model, plan, schedule)
    found = [answer["isPossible"] for answer in in_node(questions, tmp_path)]
    assert dict(zip(wanted, found, strict=True)) == wanted
    assert {True, False} == set(found)
