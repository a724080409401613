import re
from dataclasses import replace
from typing import Any

import pytest

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.targets.frameworks.mindformers.training_yaml import apply_plan
from evenflow.targets.frameworks.mindformers.values import environment, training_values, why_not, without_environment


def test_a_v_has_no_lists():
    plan = Plan(schedule="zbv", num_microbatches=4, layers=((2, 2), (2, 2)))
    with pytest.raises(InputError, match=r"schedule must be one of 1f1b, .*'zbv'"):
        training_values(plan)


def test_another_order_than_the_frameworks_is_refused():
    split = Plan(schedule="zb-h1", num_microbatches=4, layers=((3, 3),))
    with pytest.raises(InputError, match=r"got 'zb-h1'"):
        training_values(split)


def test_what_mindformers_cannot_say_is_refused():
    mixed = Plan(
        schedule="1f1b", num_microbatches=4, layers=((3, 3),), recompute={"select": ((1, 1),), "comm": ((0, 1),)}
    )
    with pytest.raises(InputError, match=r"chunk 0, rank 1.*one cell"):
        training_values(mixed)
    named = Plan(schedule="1f1b", num_microbatches=4, layers=((3, 3),), recompute={"mine": ((1, 0),)})
    with pytest.raises(InputError, match="got 'mine'"):
        training_values(named)


def test_training_values_of_one_chunk_switch_interleaving_off():
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((3, 4),), recompute={"select": ((1, 0),)})
    assert training_values(plan) == {
        "model.model_config.offset": [[0, 1]],
        "model.model_config.pp_interleave_num": 1,
        "recompute_config.recompute": [[0, 0]],
        "recompute_config.select_recompute": [[1, 0]],
        "recompute_config.select_comm_recompute": [[0, 0]],
        "parallel_config.pipeline_stage": 2,
        "parallel_config.micro_batch_num": 4,
        "parallel_config.seq_split_num": 1,
        "parallel.pipeline_config.pipeline_interleave": False,
        "parallel.pipeline_config.pipeline_scheduler": "1f1b",
    }


@pytest.mark.parametrize(
    ("schedule", "num_chunks", "splits", "scheduler", "interleave"),
    [
        ("interleaved", 2, 1, "1f1b", True),
        ("interleaved-less-memory", 2, 1, "1f1b", True),
        ("interleaved", 1, 1, "1f1b", False),
        ("f-then-b", 1, 1, "gpipe", True),
        ("1f1b", 1, 2, "seqpipe", True),
        ("interleaved", 2, 4, "seqvpp", True),
    ],
)
def test_schedulers(schedule: str, num_chunks: int, splits: int, scheduler: str, interleave: bool):
    plan = Plan(schedule=schedule, num_microbatches=2, layers=((1, 1),) * num_chunks, sequence_splits=splits)
    values = training_values(plan)
    assert why_not(plan) is None
    assert values["parallel.pipeline_config.pipeline_scheduler"] == scheduler
    assert values["parallel.pipeline_config.pipeline_interleave"] is interleave
    assert values["parallel_config.seq_split_num"] == splits


def test_only_the_first_and_last_stage_may_be_empty():
    ends = Plan(schedule="interleaved", num_microbatches=2, layers=((0, 3), (1, 0)))
    assert training_values(ends)["model.model_config.offset"] == [[-1, 2], [0, -1]]
    assert why_not(ends) is None


def test_split_sequences_take_no_list_of_full_recomputation():
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((1, 1),), sequence_splits=2)
    assert training_values(plan)["recompute_config.recompute"] is False


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_microbatches": 1}, r"microbatches must be at least the number of ranks \(2\) for MindFormers, got 1"),
        ({"layers": ((3, 3), (0, 3))}, "layers, chunk 1, rank 0 must be above zero"),
        (
            {"sequence_splits": 2, "recompute": {"full": ((1, 0), (0, 0))}},
            "recompute must be of the kinds both, select, comm, .*sequences are split, got .full",
        ),
        ({"sequence_splits": 2, "schedule": "f-then-b"}, "schedule must be a 1F1B order"),
    ],
)
def test_what_mindformers_would_refuse_later_is_refused_now(changes: dict[str, Any], message: str):
    plan = replace(Plan(schedule="interleaved", num_microbatches=2, layers=((3, 3), (3, 3))), **changes)
    reason = why_not(plan)
    assert reason is not None
    assert re.search(message, str(reason))
    with pytest.raises(InputError, match=message):
        apply_plan("model: {}", file="train.yaml", plan=plan)


@pytest.mark.parametrize("chunks", [1, 2])
def test_the_less_memory_order_needs_a_variable_where_it_is_an_order_of_its_own(chunks: int):
    plan = Plan(schedule="interleaved-less-memory", num_microbatches=2, layers=((3, 3),) * chunks)
    assert environment(plan) == ({} if chunks == 1 else {"ENABLE_LESS_MEM_VPP": "1"})
    assert without_environment(plan).schedule == ("interleaved-less-memory" if chunks == 1 else "interleaved")
    default = Plan(schedule="interleaved", num_microbatches=2, layers=((3, 3),) * chunks)
    assert environment(default) == {}
    assert without_environment(default) == default


def test_an_order_of_its_own_is_refused():
    plan = Plan(schedule="search", num_microbatches=1, layers=((1,),), order=("0F0,0B0",))
    with pytest.raises(InputError, match=r"order must be a family's order for MindFormers, .*'search'"):
        training_values(plan)


def test_only_the_usual_groups_are_run():
    plan = Plan(schedule="interleaved", num_microbatches=9, layers=((1, 1, 1), (1, 1, 1)))
    assert training_values(replace(plan, group_size=3)) == training_values(plan)
    with pytest.raises(InputError, match=r"group size must be 3 for MindFormers, .*got 4"):
        training_values(replace(plan, group_size=4))
