"""Training YAMLs as users write them: offsets and recompute lists in every form that MindFormers takes."""

import random
from collections.abc import Iterator
from pathlib import Path

from evenflow.export.train_yaml import apply_to_training_yaml
from evenflow.model import Plan
from evenflow.targets.frameworks.mindformers.reader import read_plan
from evenflow.targets.target import GivenSizes

TEMPLATE = (Path(__file__).resolve().parent / "qwen3.yaml").read_text(encoding="utf-8")


def all_forms(count: int = 80) -> Iterator[tuple[str, str, Plan]]:
    """Yield names, training YAMLs and the plans that evenflow reads in them, always the same."""
    for index in range(count):
        pick = random.Random(f"form {index}")
        text = _random_text(pick)
        yield f"form-{index:02}", text, read_plan(text, "train.yaml", GivenSizes()).plan


def _random_text(pick: random.Random) -> str:
    num_ranks, num_chunks = pick.randint(2, 5), pick.randint(1, 3)
    each = pick.randint(2, 5)
    rows = [[0] * num_ranks for _ in range(num_chunks)]
    for _ in range(pick.randint(0, 4)):  # layers that move from one cell to another
        giver, taker = (pick.choice(rows) for _ in range(2))
        rank = pick.randrange(num_ranks)
        if giver[rank] > 1 - each:
            giver[rank] -= 1
            taker[pick.randrange(num_ranks)] += 1
    offset: object = rows
    if pick.random() < 0.3:  # one row for all chunks
        offset = rows[0] if sum(rows[0]) == 0 else [0] * num_ranks
    elif pick.random() < 0.3:
        offset = 0
    return apply_to_training_yaml(
        TEMPLATE.replace("LAYERS", str(each * num_ranks * num_chunks)),
        file="qwen3",
        values={
            "model.model_config.offset": offset,
            "model.model_config.pp_interleave_num": num_chunks,
            "recompute_config.recompute": _counts(pick, num_chunks, num_ranks),
            "recompute_config.select_recompute": _select(pick, num_chunks, num_ranks),
            "recompute_config.select_comm_recompute": pick.choice([False, True]),
            "parallel_config.pipeline_stage": num_ranks,
            "parallel_config.micro_batch_num": num_ranks + pick.randint(0, 4),
            "parallel.pipeline_config.pipeline_interleave": num_chunks > 1,
        },
    )


def _select(pick: random.Random, num_chunks: int, num_ranks: int) -> object:
    """Return counts, patterns, or both; without patterns MindFormers takes no words in rows, and no larger counts."""
    counts = _counts(pick, num_chunks, num_ranks)
    small = [[pick.randint(0, 1) for _ in range(num_ranks)] for _ in range(num_chunks)]
    return pick.choice([True, False, small, [r"mlp\.mul"], {r"mlp\.mul": counts}, {r"mlp\.mul": counts}])


def _counts(pick: random.Random, num_chunks: int, num_ranks: int) -> object:
    def count() -> object:
        return pick.choice([True, False, *range(8)])

    def row() -> list[object]:
        return [count() for _ in range(num_ranks)]

    nested = [pick.choice([True, False, row(), row(), row()]) for _ in range(num_chunks)]
    nested[pick.randrange(num_chunks)] = row()  # a list of words alone is one for ranks
    return pick.choice([True, False, row(), nested, nested])
