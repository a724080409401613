"""Plans that the check writes: random ones of every form, those of the guide, and those of the solver."""

import random
from collections.abc import Iterator
from pathlib import Path

import evenflow
from evenflow.model import BOTH, COMM, FULL, SELECT, Plan, cells
from evenflow.profiles.memory.dry_run_guide import find_dry_runs

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def all_plans() -> Iterator[tuple[str, Plan]]:
    """Yield names and plans, always the same."""
    for index in range(200):
        chunks, splits, f_then_b = 1 + index % 4, 2 if index % 5 == 4 else 1, index % 7 == 6
        schedule = "f-then-b" if f_then_b and splits == 1 else "1f1b" if chunks == 1 else "interleaved"
        plan = random_plan(random.Random(index), num_chunks=chunks, schedule=schedule, sequence_splits=splits)
        yield f"random-{index:03}", plan
    for num_ranks, num_layers, kinds in [(16, 96, (SELECT, COMM, BOTH)), (4, 80, (FULL,)), (8, 61, (FULL, SELECT))]:
        rounds = find_dry_runs(num_ranks, num_layers, kinds).rounds
        for index, plan in enumerate(rounds):
            yield f"guide-{num_ranks}-{num_layers}-round-{index + 1}", plan
    for name, memory_gb, num_ranks, num_chunks, num_microbatches in [
        ("llama2_70b", 56, 8, 2, 32),
        ("llama2_175b", 55, 16, 3, 16),
        ("llama2_175b", 60, 16, 1, 16),
    ]:
        outcome = evenflow.plan(
            evenflow.read_layer_file(EXAMPLES / f"{name}.json"),
            num_ranks=num_ranks,
            num_chunks=num_chunks,
            num_microbatches=num_microbatches,
            memory_limit_bytes=memory_gb * 2**30,
            allow_empty=False,
            time_limit_s=5,
        )
        assert outcome.plan is not None, f"{name} has no plan in 5 s"
        yield f"solver-{name}-{num_ranks}x{num_chunks}", outcome.plan


def random_plan(pick: random.Random, *, num_chunks: int, schedule: str, sequence_splits: int) -> Plan:
    """Make a plan with uneven layers and random recompute counts that MindFormers can express."""
    num_ranks = pick.randint(2, 6)
    layers = [[pick.randint(1, 6) for _ in range(num_ranks)] for _ in range(num_chunks)]
    for chunk, rank in ((0, 0), (-1, -1)):  # the two stages that may be empty
        layers[chunk][rank] -= pick.randint(0, layers[chunk][rank])
    offered = (BOTH,) if sequence_splits > 1 else (FULL, BOTH)
    tables = {kind: [[0] * num_ranks for _ in range(num_chunks)] for kind in (FULL, BOTH, SELECT, COMM)}
    for chunk, row in enumerate(layers):
        for rank, count in enumerate(row):
            left = count
            for kind in (*offered, pick.choice([SELECT, COMM])):
                tables[kind][chunk][rank] = pick.randint(0, left)
                left -= tables[kind][chunk][rank]
    return Plan(
        schedule=schedule,
        num_microbatches=num_ranks + pick.randint(0, 9),
        layers=cells(layers),
        recompute={kind: cells(table) for kind, table in tables.items() if any(map(any, table))},
        sequence_splits=sequence_splits,
    )
