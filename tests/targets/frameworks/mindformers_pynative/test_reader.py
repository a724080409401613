import re

import pytest

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.targets.baseline_sets import in_offered_kinds
from evenflow.targets.frameworks.mindformers_pynative.reader import is_configuration, read_plan
from evenflow.targets.target import Baseline, GivenSizes

USERS = """
model: {num_hidden_layers: 12}
parallelism:
  tensor_parallel: 2
  pipeline_parallel: 2
  pipeline_parallel_interleave_num: 2
  pipeline_parallel_layers_per_stage: STAGES
  pipeline_parallel_schedule: "1f1b"
recompute: {mode: MODE, full_recompute_layer: FULL, select_module: SELECT}
"""


def read(
    *,
    stages: str = '["0-2,7-9", "3-6,10-11"]',
    mode: str = "None",
    full: str = "null",
    select: str = "null",
    more: str = "",
) -> Baseline:
    text = USERS.replace("STAGES", stages).replace("MODE", mode).replace("FULL", full).replace("SELECT", select)
    return read_plan(text + more, "my.yaml", GivenSizes(num_microbatches=4))


def test_a_configuration_is_a_plan():
    assert read() == Baseline(plan=Plan(schedule="interleaved", num_microbatches=4, layers=((3, 4), (3, 2))))
    assert read(stages="auto").plan.layers == ((3, 3), (3, 3))


def test_full_wins_over_select():
    recompute = read(mode="select", full="[0, '3-4']", select="{self_attention: ['0-1', '3-6']}").plan.recompute
    assert recompute == {"full": ((1, 2), (0, 0)), "full_attn": ((1, 2), (0, 0))}


@pytest.mark.parametrize(("mode", "kinds"), [("None", set()), ("full", {"full"}), ("select", {"full", "full_attn"})])
def test_the_mode_says_what_acts(mode: str, kinds: set[str]):
    assert set(read(mode=mode, full="['0']", select="{self_attention: ['1']}").plan.recompute) == kinds


def test_what_is_assumed_is_said():
    inner = read(mode="full", full="['1', '12']")
    assert inner.plan.recompute == {"full": ((1, 0), (0, 0))}
    assert inner.notes == (
        "layers that recompute are counted as the first of their stage",
        "layers from 12 on, which predict further tokens, are not in the plan",
    )
    unknown = read(mode="select", select="{mlp.router: ['0'], mlp: ['0']}")
    assert unknown.plan.recompute == {"select": ((1, 0), (0, 0))}
    assert unknown.notes == ("select recompute is of the operators mlp.router, mlp",)


def test_modules_are_sets_where_layers_offer_them_and_else_select():
    one = read(mode="select", select="{mlp: ['0']}")
    assert one.plan.recompute == {"mlp+moe": ((1, 0), (0, 0))}
    assert in_offered_kinds(one, ("mlp+moe", "select")) == one
    stands = in_offered_kinds(one, ("select",))
    assert (stands.plan.recompute, stands.unknown) == ({"select": ((1, 0), (0, 0))}, ())
    assert stands.notes == ("select recompute is of the operators mlp, moe",)
    assert in_offered_kinds(one, ("full",)).unknown == ("my.yaml, line 9: recompute.select_module",)
    several = read(mode="select", select="{self_attention: ['0-1'], mlp: ['0', '3'], mlp.shared_experts: ['0', '4']}")
    assert several.plan.recompute == {
        "mlp+moe+full_attn": ((1, 0), (0, 0)),
        "full_attn": ((1, 0), (0, 0)),
        "mlp+moe": ((0, 1), (0, 0)),
        "shared_experts": ((0, 1), (0, 0)),
    }
    assert several.notes == ()
    assert in_offered_kinds(several, ("select",)).unknown == ("my.yaml, line 9: recompute.select_module",)


def test_keys_that_are_not_read_are_named():
    baseline = read(more="recompute_comm: {enable: True, select_module: {a: ['0']}}\nswap: {enable: False}\n")
    assert baseline.unknown == ("my.yaml, line 10: recompute_comm",)
    text = USERS.replace("STAGES", "auto").replace("tensor_parallel: 2", "pipeline_parallel_other: True")
    text = (
        text.replace("mode: MODE", "mode: full, exclude_op: {a: ['0']}")
        .replace("FULL", "['0']")
        .replace("SELECT", "{}")
    )
    assert read_plan(text, "x", GivenSizes(num_microbatches=4)).unknown == (
        "x, line 4: parallelism.pipeline_parallel_other",
        "x, line 9: recompute.exclude_op",
    )


def test_swap_is_refused_with_a_pipeline_as_mindformers_does():
    with pytest.raises(InputError, match="enable must be off with a pipeline"):
        read(more="swap: {enable: True, layer_swap: [{layers: ['0']}]}\n")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stages": '["0-2,7-9", "3-5,10-11"]'}, "must begin with layer 6 in chunk 1 of rank 0"),
        ({"stages": '["0-2,7-9", "3-6,10-12"]'}, "must hold the 12 layers of the model, and hold 13"),
        ({"stages": '["0-2,7-9"]'}, "must be auto, or a text for each of the 2 ranks"),
        ({"stages": '["0-2", "3-11"]'}, "must be auto, or a text for each of the 2 ranks"),
        ({"stages": '["2-0,7-9", "3-6,10-11"]'}, "must begin with layer 0"),
        ({"stages": "null"}, "must be auto, or a text"),
        ({"mode": "some"}, "recompute.mode must be None, full or select"),
        ({"full": "['3', '1']"}, "full_recompute_layer must be a list of layers such as '5' or '0-3'"),
        ({"full": "['0-99999999999999']"}, "full_recompute_layer must be a list"),
        ({"full": "all"}, "full_recompute_layer must be a list"),
        ({"select": "['3']"}, "select_module must be a list of layers for each module"),
        ({"select": "{a: ['1'], b: ['2']}"}, "select_module must have the same layers for every module"),
    ],
)
def test_bad_input_is_one_message(changes: dict[str, str], message: str):
    with pytest.raises(InputError, match=re.escape(message)):
        read(**changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parallelism: {pipeline_parallel: 1000000}", "must be an integer"),
        (
            "{model: {n_layer: 2}, parallelism: {pipeline_parallel_schedule: interleaved_1f1b}}",
            "must be 1f1b, gpipe with 1 chunks",
        ),
        ("parallelism: {pipeline_parallel: 2}", "must have num_hidden_layers; add it, or give --layers"),
        ("{parallelism: {pipeline_parallel: 2}, model: {num_hidden_layers: 3}}", "cannot be equally divided"),
        ("parallelism: 3", "must be an object"),
        ("{", "not YAML"),
    ],
)
def test_bad_files_are_one_message(text: str, message: str):
    with pytest.raises(InputError, match=re.escape(message)):
        read_plan(text, "x", GivenSizes(num_microbatches=4))


def test_the_number_of_microbatches_is_given():
    with pytest.raises(InputError, match="--microbatches must be given, since x leaves it to global_batch_size"):
        read_plan("parallelism: {}", "x", GivenSizes())


def test_it_is_recognised():
    assert is_configuration(USERS, "x")
    assert not is_configuration("parallel_config: {pipeline_stage: 2}", "x")
    assert not is_configuration("{", "x")


PAIRS = """\
model: {num_hidden_layers: LAYERS, MORE}
parallelism:
  pipeline_parallel: 2
  pipeline_parallel_interleave_num: 2
  pipeline_parallel_overlap_b_f: True
  pipeline_parallel_enable_dxdw_split: SPLIT
  pipeline_parallel_layers_per_stage: STAGES
"""


def paired(stages: str, *, layers: int = 12, more: str = "first_k_dense_replace: 0", splits: bool = False) -> Baseline:
    values = {"LAYERS": str(layers), "MORE": more, "SPLIT": str(splits), "STAGES": stages}
    text = PAIRS
    for name, value in values.items():
        text = text.replace(name, value)
    return read_plan(text, "my.yaml", GivenSizes(num_microbatches=8))


def test_forwards_beside_backwards_need_equally_many_layers_with_experts() -> None:
    even = paired('["0-3,6-9", "4-5,10-11"]')
    assert even.plan == Plan(
        schedule="interleaved-overlap", num_microbatches=8, layers=((4, 2), (4, 2)), delays_weights=False
    )
    assert (even.unknown, even.notes) == ((), ())
    with pytest.raises(InputError, match="or forwards wait for ever; rank 1 has 2, 3"):
        paired('["0-3,6-8", "4-5,9-11"]', more="first_k_dense_replace: 1")  # of the first four, three have experts
    dense = paired('["0-3,6-8", "4-5,9-10"]', layers=11, more="first_k_dense_replace: 1")
    assert dense.plan.layers == ((4, 2), (3, 2))
    assert dense.notes == ("layers without experts are taken to pair as the others do",)


def test_pairs_that_are_not_understood_are_named() -> None:
    even = '["0-3,6-9", "4-5,10-11"]'
    assert paired(even, splits=True).unknown == ("my.yaml, line 6: parallelism.pipeline_parallel_enable_dxdw_split",)
    alternating = paired(even, more="moe_layer_freq: 2")
    assert alternating.plan.schedule == "interleaved"
    assert alternating.unknown == ("my.yaml, line 5: parallelism.pipeline_parallel_overlap_b_f",)
    text = "model: {num_hidden_layers: 4}\nparallelism: {pipeline_parallel: 2, pipeline_parallel_overlap_b_f: True}\n"
    alone = read_plan(text, "my.yaml", GivenSizes(num_microbatches=8))
    assert alone.plan.schedule == "1f1b"
    assert alone.notes == ("with one chunk for each rank, pipeline_parallel_overlap_b_f changes nothing",)


@pytest.mark.parametrize("key", ["num_nextn_predict_layers", "mtp_num_layers"])
def test_blocks_that_predict_further_tokens_count_with_the_last_chunk(key: str) -> None:
    found = paired('["0-2,5-7", "3-4,8"]', layers=9, more=f"first_k_dense_replace: 0, {key}: 1")
    assert found.plan.layers == ((3, 2), (3, 1))
    with pytest.raises(InputError, match="rank 1 has 2, 1"):
        paired('["0-2,5-7", "3-4,8"]', layers=9)
    with pytest.raises(InputError, match="rank 1 has 2, 3"):
        paired('["0-2,5-7", "3-4,8-9"]', layers=10, more=f"{key}: 1")
