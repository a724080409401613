from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import FULL, SELECT, Plan, cells
from evenflow.targets.baseline_sets import in_offered_kinds
from evenflow.targets.frameworks.mindformers_pynative.target import TARGET
from evenflow.targets.frameworks.mindformers_pynative.values import PATHS, apply_plan
from evenflow.targets.refusal import refusal
from evenflow.targets.target import GivenSizes
from tests.thoroughness import examples

PLAN = Plan(
    schedule="interleaved",
    num_microbatches=4,
    layers=((3, 4), (3, 2)),
    recompute={"full": ((1, 0), (3, 2)), "select": ((1, 2), (0, 0))},
)


def test_a_whole_fragment():
    written = TARGET.write(PLAN, "2.0.0")
    assert (
        written.pieces[0].text
        == """parallelism:
  pipeline_parallel: 2
  pipeline_parallel_interleave_num: 2
  pipeline_parallel_layers_per_stage: ["0-2,7-9", "3-6,10-11"]
  pipeline_parallel_schedule: "interleaved_1f1b"
recompute:
  mode: "select"
  full_recompute_layer: ["0", "7-11"]
  select_module:
    self_attention: ["1", "3-4"]
"""
    )
    assert written.notes[0].startswith("set training.global_batch_size to 4 x data-parallel ranks")
    assert written.notes[1].startswith("select_module names self_attention")


def test_ways_that_are_not_needed_are_not_written():
    full = Plan(schedule="1f1b", num_microbatches=4, layers=((1, 2),), recompute={"full": ((0, 1),)})
    assert TARGET.write(full, "2.0.0").pieces[0].text.endswith('mode: "full"\n  full_recompute_layer: ["1"]\n')
    bare = Plan(schedule="f-then-b", num_microbatches=4, layers=((1, 2),))
    text = TARGET.write(bare, "2.0.0").pieces[0].text
    assert text.endswith('recompute:\n  mode: "None"\n')
    assert 'pipeline_parallel_schedule: "gpipe"' in text


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan(schedule="1f1b", num_microbatches=4, layers=((0, 3),)), "must be above zero in every cell"),
        (
            Plan(schedule="1f1b", num_microbatches=4, layers=((2, 3),), recompute={"comm": ((1, 0),)}),
            "kinds full, select, full_attn, shared_experts for MindFormers PyNative, got 'comm'",
        ),
        (Plan(schedule="interleaved", num_microbatches=5, layers=((1, 1), (1, 1))), "group size must be a size"),
        (Plan(schedule="f-then-b", num_microbatches=4, layers=((1, 1), (1, 1))), "chunks must be 1 under f-then-b"),
        (Plan(schedule="zbv", num_microbatches=4, layers=((1, 1), (1, 1))), "schedule must be one of"),
    ],
)
def test_what_it_cannot_run(plan: Plan, message: str):
    reason = refusal(plan, TARGET.abilities("2.0.0"), title=TARGET.title)
    assert reason is not None
    assert message in str(reason)
    assert not TARGET.can_run(plan)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    ranks, chunks = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    layers = [[draw(st.integers(1, 5)) for _ in range(ranks)] for _ in range(chunks)]
    left = [list(row) for row in layers]
    tables = {}
    for kind in (FULL, *draw(st.sampled_from([(SELECT,), tuple(PATHS)]))):
        tables[kind] = [[draw(st.integers(0, count)) for count in row] for row in left]
        left = [[a - b for a, b in zip(*rows, strict=True)] for rows in zip(left, tables[kind], strict=True)]
    return Plan(
        schedule="interleaved" if chunks > 1 else draw(st.sampled_from(["1f1b", "f-then-b"])),
        num_microbatches=ranks * draw(st.integers(1, 3)),
        layers=cells(layers),
        recompute={kind: cells(table) for kind, table in tables.items() if any(map(any, table))},
    )


@settings(max_examples=examples(80))
@given(plan=plans(), other=plans())
def test_what_is_written_is_read_again(plan: Plan, other: Plan):
    assert TARGET.can_run(plan)
    assert TARGET.read is not None
    text = TARGET.write(plan, "2.0.0").pieces[0].text
    assert TARGET.recognise(text, "x")
    given_sizes = GivenSizes(num_microbatches=plan.num_microbatches)
    offered = (FULL, *([SELECT] if SELECT in plan.used_kinds else PATHS))
    baseline = in_offered_kinds(TARGET.read(text, "x", given_sizes), offered)
    assert baseline.plan == plan
    assert baseline.unknown == ()
    assert baseline.notes == ()
    users = TARGET.write(other, "2.0.0").pieces[0].text
    applied = TARGET.read(apply_plan(users, "x", plan), "x", given_sizes)
    assert in_offered_kinds(applied, offered).plan == plan


def test_modules_of_the_user_stay():
    text = "recompute: {mode: select, select_module: {mlp: ['0-3']}}  # mine\n"
    applied = apply_plan(text, "x", PLAN)
    assert 'select_module: {mlp: ["1", "3-4"]}' in applied
    assert "# mine" in applied


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: {num_hidden_layers: 13}", r"x: model.num_hidden_layers must be .* the plan \(12\), got 13"),
    ],
)
def test_a_file_that_a_plan_does_not_fit_is_refused(text: str, message: str):
    with pytest.raises(InputError, match=message):
        apply_plan(text, "x", PLAN)


def test_a_plan_without_pairs_switches_them_off() -> None:
    text = "parallelism: {pipeline_parallel_overlap_b_f: True, pipeline_parallel_enable_dxdw_split: False}\n"
    applied = apply_plan(text, "x", PLAN)
    assert "pipeline_parallel_overlap_b_f: False" in applied or "pipeline_parallel_overlap_b_f: false" in applied
    assert "overlap_b_f" not in apply_plan("parallelism: {tensor_parallel: 2}\n", "x", PLAN)


PAIRED = Plan(
    schedule="interleaved-overlap",
    num_microbatches=8,
    layers=((4, 2), (4, 2)),
    recompute={"full": ((1, 0), (0, 2))},
    delays_weights=False,
)


def test_pairs_are_written_and_read_back() -> None:
    text = TARGET.write(PAIRED, "2.0.0").pieces[0].text
    assert "pipeline_parallel_overlap_b_f: true" in text
    assert 'pipeline_parallel_schedule: "interleaved_1f1b"' in text
    assert TARGET.read(text, "x", GivenSizes(num_microbatches=8)).plan == PAIRED
    users = "parallelism: {pipeline_parallel_overlap_b_f: False, pipeline_parallel_enable_dxdw_split: True}\n"
    applied = apply_plan(users + "model: {num_hidden_layers: 12}\n", "x", PAIRED)
    read = TARGET.read(applied, "x", GivenSizes(num_microbatches=8))
    assert (read.plan, read.unknown) == (PAIRED, ())


def test_pairs_of_dense_layers_first_are_read_back_beside_the_model() -> None:
    plan = Plan(schedule="interleaved-overlap", num_microbatches=8, layers=((3, 2), (2, 2)), delays_weights=False)
    text = "model: {num_hidden_layers: 9, first_k_dense_replace: 1}\nparallelism: {}\nrecompute: {mode: None}\n"
    assert TARGET.read(apply_plan(text, "x", plan), "x", GivenSizes(num_microbatches=8)).plan == plan


@pytest.mark.parametrize(
    ("layers", "is_run"),
    [
        (((4, 2), (4, 2)), True),
        (((5, 2), (4, 2)), True),
        (((3, 2), (4, 2)), False),
        (((4, 3), (4, 2)), False),
        (((4, 2), (4, 3)), False),
        (((4, 2), (4, 2), (3, 2)), False),
    ],
)
def test_chunks_of_a_rank_must_be_equal(layers: tuple[tuple[int, ...], ...], is_run: bool) -> None:
    plan = Plan(schedule="interleaved-overlap", num_microbatches=8, layers=layers, delays_weights=False)
    found = refusal(plan, TARGET.abilities("2.0.0"), title=TARGET.title)
    assert (found is None) == is_run
    assert is_run or "must be equally many in all chunks of a rank for MindFormers PyNative" in str(found)


def test_delayed_weight_gradients_are_refused_beside_pairs() -> None:
    plan = replace(PAIRED, delays_weights=True)
    found = refusal(plan, TARGET.abilities("2.0.0"), title=TARGET.title)
    assert "must be false for MindFormers PyNative, which does not delay weight gradients" in str(found)


def test_a_model_whose_layers_do_not_fit_pairs_is_refused() -> None:
    plan = replace(PAIRED, layers=((5, 2), (4, 2)), recompute={})
    text = "model: {num_hidden_layers: 13, first_k_dense_replace: DENSE}\nparallelism: {}\n"
    assert "overlap_b_f: true" in apply_plan(text.replace("DENSE", "1"), "x", plan)
    with pytest.raises(InputError, match="rank 0 has 5, 4"):
        apply_plan(text.replace("DENSE", "0"), "x", plan)
    assert TARGET.write(plan, "2.0.0").notes[-1].startswith("all layers but the first 1 must have experts")
    assert not any("experts" in note for note in TARGET.write(PAIRED, "2.0.0").notes)
