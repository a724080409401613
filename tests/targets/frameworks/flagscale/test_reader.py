from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.targets.frameworks.flagscale.reader import read_sections
from evenflow.targets.target import GivenSizes

FIVE = """\
system:
  pipeline_model_parallel_size: 5
  hetero:
    enable_hetero: true
    hetero_pipeline_layer_split: [5, 7, 7, 7, 6]
"""


EIGHT = GivenSizes(num_microbatches=8)


def plan_of(text: str, sizes: GivenSizes = EIGHT) -> Plan:
    return read_sections(text, "train.yaml", sizes).plan


def full_of(text: str) -> tuple[int, ...]:
    return plan_of(text).recompute["full"][0]


def test_the_split_of_heterogeneous_training() -> None:
    plan = plan_of(FIVE)
    assert plan.layers == ((5, 7, 7, 7, 6),)
    assert plan.schedule == "1f1b"
    assert plan.num_microbatches == 8


def test_the_split_means_nothing_where_training_is_not_heterogeneous() -> None:
    text = FIVE.replace("enable_hetero: true", "enable_hetero: false") + "model:\n  num_layers: 40\n"
    assert plan_of(text).layers == ((8, 8, 8, 8, 8),)


def test_settings_of_megatron_are_read_wherever_they_stand() -> None:
    text = (
        "system:\n  parallel:\n    pipeline_model_parallel_size: 2\n    num_layers_per_virtual_pipeline_stage: 4\n"
        "model:\n  num_layers: 16\n  micro_batch_size: 1\n  global_batch_size: 8\n  data_parallel_size: 2\n"
    )
    plan = plan_of(text, GivenSizes())
    assert plan.layers == ((4, 4), (4, 4))
    assert plan.num_microbatches == 4


ROWS = """\
  recompute_granularity: "full"
  recompute_method: "uniform"
  recompute_num_layers: 1
  recompute_granularity_per_stage_micro_batch:
    - "1, 30, 1"
    - "3, 30, 0"
    - "1, 20, 1, 10, 1"
"""


def test_rows_as_the_documentation_has_them() -> None:
    plan = plan_of(FIVE + ROWS, GivenSizes())
    assert plan.num_microbatches == 30
    assert plan.recompute["full"] == ((5, 0, 0, 0, 6),)


def test_numbers_and_methods_of_the_stages_win_over_those_of_all() -> None:
    text = (FIVE + ROWS).replace("30, 0", "30, 1")
    text += "  recompute_num_layers_per_stage_micro_batch: [[1, 30, 2], [4, 30, 3]]\n"
    assert plan_of(text, GivenSizes()).recompute["full"] == ((5, 7, 7, 7, 6),)
    text += "  recompute_method_per_stage_micro_batch: [[2, 30, 1], [1, 30, 0], [2, 30, 1]]\n"
    assert plan_of(text, GivenSizes()).recompute["full"] == ((2, 3, 7, 3, 3),)


def test_numbers_alone_do_not_turn_recomputation_on() -> None:
    assert full_of(FIVE + "  recompute_num_layers_per_stage_micro_batch: [[5, 8, 2]]\n") == (0, 0, 0, 0, 0)


def test_what_is_selective_stays_so_unless_the_stages_say_otherwise() -> None:
    text = FIVE + "  recompute_granularity: selective\n"
    numbers = "  recompute_num_layers_per_stage_micro_batch: [[5, 8, 2]]\n"
    assert plan_of(text + numbers).recompute["select"] == ((5, 7, 7, 7, 6),)
    assert "select" not in plan_of(text + "  recompute_granularity_per_stage_micro_batch: [[5, 8, 0]]\n").recompute


@given(values=st.lists(st.integers(0, 7), min_size=1, max_size=12), as_text=st.booleans(), split=st.integers(1, 7))
def test_rows_are_so_many_stages_with_a_value(values: list[int], as_text: bool, split: int) -> None:
    """Equal neighbours in one row; microbatches in one part or in two."""
    parts = [[8]] if split == 7 else [[split, 8 - split]]
    rows = [
        [len(list(equal)), *(entry for count in parts[0] for entry in (count, value))]
        for value, equal in groupby(values)
    ]
    written = [str(row) if as_text else row for row in rows]
    on = [[len(values), 8, 1]]
    text = (
        f"system:\n  pipeline_model_parallel_size: {len(values)}\n  hetero:\n    enable_hetero: true\n"
        f"    hetero_pipeline_layer_split: {[7] * len(values)}\n"
        f"  recompute_granularity_per_stage_micro_batch: {on}\n"
        f"  recompute_method_per_stage_micro_batch: {on}\n"
        f"  recompute_num_layers_per_stage_micro_batch: {written}\n"
    )
    assert full_of(text) == tuple(values)


SPOILED = {
    "microbatches that differ": ("[[1, 4, 1, 4, 0], [4, 8, 1]]", "same value in all microbatches"),
    "too few stages": ("[[4, 8, 1]]", "a value for each of the 5 ranks"),
    "other microbatches": ("[[5, 7, 1]]", "must be for the 8 microbatches"),
    "stages with different microbatches": ("[[1, 8, 1], [4, 9, 1]]", "must be for the 8 microbatches"),
    "no value": ("[[5, 8]]", "must be a list of rows"),
    "a value without microbatches": ("[[5, 8, 1, 0]]", "must be a list of rows"),
    "no stages": ("[[0, 8, 1]]", "must be a list of rows"),
    "a number": ("5", "must be a list of rows"),
    "words": ('["5, 8, one"]', "must be a list of rows"),
    "nothing": ("[]", "a value for each of the 5 ranks"),
    "a huge number of stages": ("[[999999999, 8, 1]]", "must be a list of rows"),
    "a long number": ('["1, 8, 99999999999999999999"]', "must be a list of rows"),
}


@pytest.mark.parametrize(("rows", "words"), SPOILED.values(), ids=list(SPOILED))
def test_rows_that_are_no_plan_are_refused_by_name(rows: str, words: str) -> None:
    key = "recompute_granularity_per_stage_micro_batch"
    with pytest.raises(InputError, match=words) as raised:
        plan_of(f"{FIVE}  {key}: {rows}\n")
    assert key in str(raised.value)
    assert raised.value.place.startswith("train.yaml")


@pytest.mark.parametrize("split", ["[5, 7, 7, 7, 0]", "[5, 7]", "5", "[5, 7, 7, 7, many]", "[]", "[99999, 7, 7, 7, 6]"])
def test_a_spoiled_split_is_refused(split: str) -> None:
    with pytest.raises(InputError, match=r"^train\.yaml, line 5: hetero_pipeline_layer_split"):
        plan_of(FIVE.replace("[5, 7, 7, 7, 6]", split))


def test_rows_with_chunks_are_refused() -> None:
    text = (
        "system:\n  pipeline_model_parallel_size: 2\n  num_layers_per_virtual_pipeline_stage: 4\n"
        "  recompute_granularity_per_stage_micro_batch: [[2, 8, 1]]\nmodel:\n  num_layers: 16\n"
    )
    with pytest.raises(InputError, match="with one chunk"):
        plan_of(text)


@pytest.mark.parametrize("line", ["schedules_method: dualpipev", "enable_zero_bubble: true"])
def test_orders_that_no_family_has_are_refused(line: str) -> None:
    with pytest.raises(InputError, match=r"line 6: \w+ must not be given: its order of work is FlagScale's own"):
        plan_of(f"{FIVE}  {line}\n")
    assert plan_of(f"{FIVE}  {line.partition(':')[0]}: null\n").schedule == "1f1b"


def test_settings_that_are_not_understood_are_named_with_their_lines() -> None:
    found = read_sections(FIVE + "  recompute_of_tomorrow: 3\n", "train.yaml", EIGHT)
    assert found.unknown == ("train.yaml, line 6: recompute_of_tomorrow",)
