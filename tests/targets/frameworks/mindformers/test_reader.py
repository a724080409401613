"""Training YAMLs read into plans: all forms of offsets and lists, what was written comes back, bad ones are refused."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import BOTH, COMM, FULL, SELECT, Plan, cells
from evenflow.targets.frameworks.mindformers.block import fragment
from evenflow.targets.frameworks.mindformers.reader import is_training_yaml, read_plan
from evenflow.targets.frameworks.mindformers.training_yaml import apply_plan
from evenflow.targets.target import GivenSizes
from tests.thoroughness import examples

NONE_GIVEN = GivenSizes()
USERS = """
model:
  model_config: {num_hidden_layers: 9, offset: OFFSET, pp_interleave_num: 2}
recompute_config:
  recompute: RECOMPUTE
  select_recompute: SELECT
  select_comm_recompute: False
  mp_comm_recompute: True
parallel_config: {pipeline_stage: 2, micro_batch_num: 4, model_parallel: 8}
parallel:
  pipeline_config: {pipeline_interleave: True, pipeline_scheduler: "1f1b"}
"""


def users(*, offset: str = "[[0, 1], [0, 0]]", recompute: str = "False", select: str = "False") -> str:
    return USERS.replace("OFFSET", offset).replace("RECOMPUTE", recompute).replace("SELECT", select)


def read(text: str, sizes: GivenSizes = NONE_GIVEN) -> Plan:
    return read_plan(text, "train.yaml", sizes).plan


def test_a_training_yaml_is_a_plan():
    assert read(users(recompute="[[1, 0], [0, 2]]", select="[[2, 1], [0, 2]]")) == Plan(
        schedule="interleaved",
        num_microbatches=4,
        layers=((2, 3), (2, 2)),
        recompute={"full": ((1, 0), (0, 2)), "select": ((1, 1), (0, 0))},
    )


@pytest.mark.parametrize(
    ("offset", "layers"),
    [
        ("[[0, 1], [0, 0]]", ((2, 3), (2, 2))),
        ("[[-2, 1], [1, 1]]", ((0, 3), (3, 3))),
    ],
)
def test_offsets(offset: str, layers: tuple[tuple[int, ...], ...]):
    assert read(users(offset=offset)).layers == layers


def test_a_flat_offset_is_for_every_chunk():
    text = users(offset="[1, -1]").replace("hidden_layers: 9", "hidden_layers: 8")
    assert read(text).layers == ((3, 1), (3, 1))
    assert read(text.replace("[1, -1]", "0")).layers == ((2, 2), (2, 2))
    assert read(text.replace("offset: [1, -1],", "")).layers == ((2, 2), (2, 2))


@pytest.mark.parametrize(
    ("form", "full"),
    [
        ("True", ((2, 3), (2, 2))),
        ("[3, 2]", ((2, 1), (1, 1))),  # dealt out over the chunks in turn
        ("[True, 0]", ((2, 0), (2, 0))),
        ("[9, 4]", ((2, 2), (2, 2))),  # at most its layers
        ("[[9, 1], False]", ((2, 1), (0, 0))),
        ("[True, [0, True]]", ((2, 3), (0, 2))),
    ],
)
def test_forms_of_a_list(form: str, full: tuple[tuple[int, ...], ...]):
    if form == "[True, [0, True]]":  # a row may be one word
        assert read(users(recompute=form)).recompute == {"full": full}
    else:
        assert read(users(recompute=form)).recompute == {"full": full}
        assert read(users(select=form)).recompute == {"select": full}


def test_patterns_of_operators_are_named():
    baseline = read_plan(users(select='{"mlp.mul": [[1, 0], [0, 0]]}'), "train.yaml", NONE_GIVEN)
    assert baseline.plan.recompute == {"select": ((1, 0), (0, 0))}
    assert any("mlp.mul" in note for note in baseline.notes)
    assert read(users(select='["mlp.mul"]')).recompute == {"select": ((2, 3), (2, 2))}
    with pytest.raises(InputError, match="select_recompute must have the same counts for every pattern"):
        read(users(select="{a: True, b: False}"))


def test_without_interleaving_there_is_one_chunk():
    text = users(offset="[0, 1]").replace("pipeline_interleave: True", "pipeline_interleave: False")
    baseline = read_plan(text, "train.yaml", NONE_GIVEN)
    assert baseline.plan == Plan(schedule="1f1b", num_microbatches=4, layers=((4, 5),))
    assert any("pp_interleave_num is not used" in note for note in baseline.notes)


def test_keys_that_are_not_read_are_named():
    text = users().replace("mp_comm_recompute", "select_recompute_exclude").replace("model_parallel", "micro_batch_new")
    assert read_plan(text, "train.yaml", NONE_GIVEN).unknown == (
        "train.yaml, line 9: parallel_config.micro_batch_new",
        "train.yaml, line 8: recompute_config.select_recompute_exclude",
    )
    assert read_plan(users(), "train.yaml", NONE_GIVEN).unknown == ()


def test_sizes_that_are_not_there_are_taken_from_the_user():
    text = users().replace("pipeline_stage: 2, micro_batch_num: 4, ", "").replace("num_hidden_layers: 9, ", "")
    sizes = GivenSizes(num_layers=9, num_ranks=2, num_microbatches=4)
    assert read(text, sizes) == read(users())
    with pytest.raises(InputError, match=r"must have the field 'micro_batch_num'.*--microbatches"):
        read(text, replace(sizes, num_microbatches=None))


def test_what_mindformers_refuses_is_said():
    (note,) = (
        note
        for note in read_plan(users().replace("micro_batch_num: 4", "micro_batch_num: 1"), "x", NONE_GIVEN).notes
        if "refuses" in note
    )
    assert "microbatches must be at least the number of ranks (2)" in note


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (users(offset="[[1, 1], [0, 0]]"), "offset must sum to 1"),
        (users(offset="[[-3, 4], [0, 0]]"), "offset, chunk 0, rank 0 must be -2 or more"),
        (users(offset="1"), "offset must be 0, a list of 2 integers"),
        (users(offset="[[0, 1]]"), "offset must be 0, a list of 2 integers"),
        (users(recompute="[[0, 1]]"), "recompute must be true, false, a count for each of the 2 ranks"),
        (users(recompute="[[0, -1], [0, 0]]"), "recompute must be true, false"),
        (users(recompute="[True]"), "recompute must be true, false, a count for each of the 2 ranks"),
        (users(select="much"), "select_recompute must be true, false"),
        (users().replace('"1f1b"', "zero_bubble_v"), "pipeline_scheduler must be 1f1b, gpipe"),
        (users().replace('"1f1b"', "[seqvpp]"), "pipeline_scheduler must be 1f1b, gpipe"),
        (
            users(recompute="[[0, 1], [0, 0]]") + "swap_config: {swap: True}",
            "recompute must be true, false or a list of numbers of layers",
        ),
        (users().replace("pipeline_stage: 2", "pipeline_stage: 100000000"), "the number of ranks must be"),
        (
            users().replace("hidden_layers: 9", "hidden_layers: 100000000"),
            "num_hidden_layers must be an integer from 1",
        ),
        ("[1]", "must be an object"),
        ("model: [", "cannot read train.yaml: not YAML"),
    ],
)
def test_bad_input_is_one_message(text: str, message: str):
    with pytest.raises(InputError, match=re.escape(message)):
        read(text)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    ranks, chunks = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    splits = draw(st.sampled_from([1, 1, 2]))
    layers = [[draw(st.integers(1, 5)) for _ in range(ranks)] for _ in range(chunks)]
    tables = {kind: [[0] * ranks for _ in range(chunks)] for kind in (FULL, BOTH, SELECT, COMM)}
    for chunk, row in enumerate(layers):
        for rank, count in enumerate(row):
            left = count
            for kind in (*((FULL,) if splits == 1 else ()), BOTH, draw(st.sampled_from([SELECT, COMM]))):
                tables[kind][chunk][rank] = draw(st.integers(0, left))
                left -= tables[kind][chunk][rank]
    schedule = "f-then-b" if splits == 1 and draw(st.booleans()) else "1f1b" if chunks == 1 else "interleaved"
    return Plan(
        schedule=schedule,
        num_microbatches=draw(st.integers(ranks, 9)),
        layers=cells(layers),
        recompute={kind: cells(table) for kind, table in tables.items() if any(map(any, table))},
        sequence_splits=splits,
    )


@settings(max_examples=examples(60))
@given(plan=plans())
def test_what_is_written_is_read_again(plan: Plan):
    sizes = GivenSizes(num_layers=plan.num_layers)
    assert read(fragment(plan), sizes) == plan
    text = users().replace("hidden_layers: 9", f"hidden_layers: {plan.num_layers}")
    applied = apply_plan(text, file="x", plan=plan)
    assert read(applied, sizes) == plan


def test_it_is_recognised():
    assert is_training_yaml(users(), "train.yaml")
    assert not is_training_yaml("parallelism: {pipeline_parallel: 2}", "x")
    assert not is_training_yaml("not: [yaml", "x")
    assert not is_training_yaml("just text", "x")
