from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.profiles.yaml_values import load_document
from evenflow.targets.frameworks.megatron_bridge.target import TARGET
from evenflow.targets.megatron_family.layout import parse_layout
from evenflow.targets.target import Baseline, GivenSizes
from tests.targets.pages import page_of
from tests.targets.shell import bash_words, shell_words
from tests.targets.strategies import canonical, plans
from tests.thoroughness import examples

INTERLEAVED = Plan(
    schedule="interleaved",
    num_microbatches=8,
    layers=((3, 4, 4, 4), (4, 4, 4, 1)),
    recompute={"full": ((2, 2, 2, 2), (2, 2, 2, 1))},
)
USER_FILE = """\
# overrides for 64 devices
model:
  seq_length: 4096   # tokens
  num_layers: 28
  pipeline_model_parallel_size: 2
  pipeline_model_parallel_layout: [[embedding, decoder], [decoder, mtp, loss]]
  num_layers_in_first_pipeline_stage: 13
  recompute_granularity: selective
  recompute_modules: [core_attn]

train:
  global_batch_size: 16
"""


@pytest.mark.processes
def test_the_fields_of_a_plan_with_chunks() -> None:
    yaml, overrides = TARGET.write(INTERLEAVED, "0.3").pieces
    assert yaml.text == (
        "model:\n"
        "  pipeline_model_parallel_size: 4\n"
        '  pipeline_model_parallel_layout: "Et*3|(t*4|)*6,tL"\n'
        "  microbatch_group_size_per_vp_stage: null\n"
        "  virtual_pipeline_model_parallel_size: 2\n"
        '  recompute_granularity: "full"\n'
        '  recompute_method: "block"\n'
        "  recompute_num_layers: 2\n"
    )
    assert bash_words(overrides.text) == [
        "model.pipeline_model_parallel_size=4",
        "model.pipeline_model_parallel_layout='Et*3|(t*4|)*6,tL'",
        "model.microbatch_group_size_per_vp_stage=null",
        "model.virtual_pipeline_model_parallel_size=2",
        "model.recompute_granularity=full",
        "model.recompute_method=block",
        "model.recompute_num_layers=2",
    ]


def test_a_users_file_gets_the_plan_and_keeps_everything_else() -> None:
    assert TARGET.apply is not None
    assert TARGET.apply(USER_FILE, "user.yaml", INTERLEAVED) == (
        "# overrides for 64 devices\n"
        "model:\n"
        "  seq_length: 4096   # tokens\n"
        "  num_layers: 28\n"
        "  pipeline_model_parallel_size: 4\n"
        '  pipeline_model_parallel_layout: "Et*3|(t*4|)*6,tmL"\n'
        "  num_layers_in_first_pipeline_stage: null\n"
        '  recompute_granularity: "full"\n'
        "  recompute_modules: [core_attn]\n"
        "  virtual_pipeline_model_parallel_size: 2\n"
        '  recompute_method: "block"\n'
        "  recompute_num_layers: 2\n"
        "  microbatch_group_size_per_vp_stage: null\n"
        "\n"
        "train:\n"
        "  global_batch_size: 16\n"
    )


SELECTIVE = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 2),), recompute={"select": ((3, 2),)})
NOTHING = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 2),))


def under_set(modules: str) -> Plan:
    return replace(NOTHING, recompute={modules: NOTHING.layers})


def test_a_list_of_modules_becomes_that_of_the_plan_and_stays_where_it_is_the_same() -> None:
    assert TARGET.apply is not None
    text = "model:\n  recompute_granularity: selective\n  recompute_modules: [moe_act, layernorm]  # mine\n"
    assert TARGET.apply(text, "user.yaml", under_set("layernorm+moe_act")).startswith(text)
    assert '  recompute_modules: ["layernorm"]  # mine\n' in TARGET.apply(text, "user.yaml", under_set("layernorm"))
    assert '  recompute_modules: ["core_attn"]  # mine\n' in TARGET.apply(text, "user.yaml", SELECTIVE)
    assert 'recompute_modules: ["core_attn"]' in TARGET.apply("model: {}\n", "user.yaml", SELECTIVE)
    nothing = TARGET.apply(text, "user.yaml", NOTHING)
    assert "recompute_granularity: null" in nothing
    assert 'recompute_granularity: "full"' in TARGET.apply(text, "user.yaml", INTERLEAVED)


def test_modules_that_no_plan_knows_stay_where_they_can() -> None:
    assert TARGET.apply is not None
    text = "model:\n  recompute_granularity: selective\n  recompute_modules: [mhc]\n"
    applied = TARGET.apply(text, "user.yaml", NOTHING)
    assert applied.startswith(text)
    assert '  recompute_modules: ["mhc"]\n' in TARGET.apply(text.replace("[mhc", "[moe, mhc"), "user.yaml", NOTHING)
    assert '  recompute_modules: ["core_attn", "mhc"]\n' in TARGET.apply(text, "user.yaml", SELECTIVE)
    assert 'recompute_granularity: "full"' in TARGET.apply(text, "user.yaml", INTERLEAVED)
    assert '["core_attn"]' in TARGET.apply(text.replace(": selective", ": null"), "user.yaml", SELECTIVE)


MOVING = "layernorm+offload_core_attn+offload_attn_proj"


@pytest.mark.processes
def test_modules_that_move_are_fields_and_need_an_environment() -> None:
    written = TARGET.write(under_set(MOVING), "0.3")
    yaml, overrides = written.pieces
    assert yaml.text.endswith(
        '  recompute_granularity: "selective"\n'
        "  recompute_method: null\n"
        "  recompute_num_layers: null\n"
        '  recompute_modules: ["layernorm"]\n'
        "  fine_grained_activation_offloading: true\n"
        '  offload_modules: ["core_attn", "attn_proj"]\n'
    )
    assert bash_words(overrides.text)[-2:] == [
        "model.fine_grained_activation_offloading=true",
        "model.offload_modules=[core_attn,attn_proj]",
    ]
    assert written.environment == {"NVTE_CPU_OFFLOAD_V1": "1"}
    assert any("issue 7398" in note for note in written.notes)
    for plan in (NOTHING, SELECTIVE, INTERLEAVED, under_set("layernorm")):
        written = TARGET.write(plan, "0.3")
        assert not any("offload" in piece.text for piece in written.pieces)
        assert not written.environment


def test_a_file_that_moves_modules_does_as_the_plan_says() -> None:
    assert TARGET.apply is not None
    text = (
        "model:\n"
        "  fine_grained_activation_offloading: true\n"
        "  offload_modules: [expert_fc1]\n"
        "  activation_offload_fraction: 0.5\n"
        "  delta_offload_bytes_across_pp_ranks: 1000\n"
    )
    stays = TARGET.apply(text, "user.yaml", SELECTIVE)
    assert stays.startswith(text.replace(": true", ": false"))
    off = text.replace(": true", ": false")
    assert TARGET.apply(off, "user.yaml", SELECTIVE).startswith(off)
    moved = TARGET.apply(text, "user.yaml", under_set(MOVING))
    assert moved.startswith(
        "model:\n"
        "  fine_grained_activation_offloading: true\n"
        '  offload_modules: ["core_attn", "attn_proj"]\n'
        "  activation_offload_fraction: 1.0\n"
        "  delta_offload_bytes_across_pp_ranks: 0\n"
    )
    assert read(moved, GivenSizes(num_microbatches=8)).unknown == ()
    assert "activation_offload_fraction" not in TARGET.apply("model: {}\n", "user.yaml", under_set(MOVING))


FILES = st.fixed_dictionaries(
    {},
    optional={
        "recompute_granularity": st.sampled_from(["full", "selective", "null"]),
        "recompute_modules": st.sampled_from(["[core_attn]", "[mlp]", "[mlp, core_attn]", "[mhc, moe]", "null", "[]"]),
        "recompute_method": st.sampled_from(["block", "uniform", "null"]),
        "recompute_num_layers": st.sampled_from(["1", "4", "null"]),
        "virtual_pipeline_model_parallel_size": st.sampled_from(["1", "3", "null"]),
        "num_layers_in_last_pipeline_stage": st.sampled_from(["1", "null"]),
        "account_for_loss_in_pipeline_split": st.sampled_from(["true", "false"]),
        "pipeline_model_parallel_layout": st.sampled_from(["Ett|L", "null", "[[embedding, decoder], [loss]]"]),
        "microbatch_group_size_per_vp_stage": st.sampled_from(["7", "null"]),
        "fine_grained_activation_offloading": st.sampled_from(["true", "false", "null"]),
        "offload_modules": st.sampled_from(["[core_attn]", "[expert_fc1, attn_norm]", "null"]),
        "activation_offload_fraction": st.sampled_from(["0.25", "1.0", "null"]),
    },
)


@settings(max_examples=examples(40))
@given(plan=plans(TARGET.abilities("0.3")), entries=FILES)
def test_a_file_has_the_plan_whatever_was_in_it(plan: Plan, entries: dict[str, str]) -> None:
    assert TARGET.apply is not None
    text = "model:\n" + "".join(f"  {key}: {value}\n" for key, value in entries.items()) + "  hidden_size: 64\n"
    applied = TARGET.apply(text, "user.yaml", plan)
    assert canonical(read(applied, GivenSizes(num_microbatches=plan.num_microbatches)).plan) == canonical(plan)
    assert TARGET.apply(applied, "user.yaml", plan) == applied


def test_a_file_that_says_the_plan_already_stays_as_it_is() -> None:
    assert TARGET.apply is not None
    once = TARGET.apply(USER_FILE, "user.yaml", INTERLEAVED)
    other_words = once.replace('"Et*3|(t*4|)*6,tmL"', "Ettt|(tttt|)*6tmL  # mine").replace('"full"', "full")
    assert TARGET.apply(other_words, "user.yaml", INTERLEAVED) == other_words


def test_the_section_around_everything_of_older_scripts() -> None:
    assert TARGET.apply is not None
    old = "ConfigContainer:\n  model:\n    seq_length: 8\n"
    new = TARGET.apply(old, "user.yaml", INTERLEAVED)
    assert new.startswith(f"{old}    pipeline_model_parallel_size: 4\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "model:\n  num_layers: 27\n",
            r"user\.yaml, line 2: model\.num_layers must be the number of layers of the plan \(28\)",
        ),
        ("model: 3\n", r"user\.yaml: model must be an object of named fields, got 'int'"),
        ("model:\n  pipeline_model_parallel_layout: Etx\n", r"user\.yaml, line 2: model\.pipeline_model_parallel_lay"),
        ("- 1\n", r"user\.yaml must be an object"),
        ("model: {", r"user\.yaml"),
    ],
)
def test_a_file_that_cannot_take_the_plan_is_refused(text: str, message: str) -> None:
    assert TARGET.apply is not None
    with pytest.raises(InputError, match=message):
        TARGET.apply(text, "user.yaml", INTERLEAVED)


FOUR = GivenSizes(num_microbatches=4)


def read(text: str, given: GivenSizes = FOUR) -> Baseline:
    assert TARGET.read is not None
    return TARGET.read(text, "user.yaml", given)


def test_the_plan_of_a_users_file() -> None:
    found = read(
        USER_FILE.replace("num_layers: 28", "num_layers: 2").replace("  num_layers_in_first_pipeline_stage: 13\n", ""),
        GivenSizes(num_microbatches=4),
    )
    assert found.plan == Plan(schedule="1f1b", num_microbatches=4, layers=((1, 1),), recompute={"select": ((1, 1),)})
    assert found.unknown == ()
    assert any("microbatch_group_size_per_vp_stage" in note and "recipe" in note for note in found.notes)


def test_what_the_file_does_not_understand_is_named() -> None:
    key = "overlap_dispatch_backward_with_experts_wgrad"
    text = f"model:\n  num_layers: 4\n  pipeline_model_parallel_size: 2\n  {key}: true\n"
    found = read(text)
    assert found.unknown == (f"user.yaml, line 4: {key}",)


TWO_CHUNKS = "model:\n  pipeline_model_parallel_size: 2\n  pipeline_model_parallel_layout: Et|t|t|tL\n"


def test_what_runs_beside_what_decides_over_the_model() -> None:
    assert read(TWO_CHUNKS).plan.schedule == "interleaved"
    assert any("comm_overlap.overlap_moe_expert_parallel_comm" in note for note in read(TWO_CHUNKS).notes)
    on = TWO_CHUNKS + "comm_overlap:\n  overlap_moe_expert_parallel_comm: true\n  delay_wgrad_compute: true\n"
    assert read(on).plan.schedule == "interleaved-overlap"
    assert read(on).plan.delays_weights
    assert read(on).unknown == ()
    assert not any("comm_overlap" in note for note in read(on).notes)
    off = (
        TWO_CHUNKS
        + "  overlap_moe_expert_parallel_comm: true\ncomm_overlap: {overlap_moe_expert_parallel_comm: false}\n"
    )
    assert read(off).plan.schedule == "interleaved"


def test_pairs_are_switched_on_and_off_where_they_stand() -> None:
    assert TARGET.apply is not None
    on = TWO_CHUNKS + "comm_overlap:\n  overlap_moe_expert_parallel_comm: true # faster\n  delay_wgrad_compute: true\n"
    found = read(on, FOUR).plan
    assert TARGET.apply(on, "user.yaml", found).endswith(on[len(TWO_CHUNKS) :])
    plain = TARGET.apply(on, "user.yaml", replace(found, schedule="interleaved", delays_weights=None))
    assert "overlap_moe_expert_parallel_comm: false # faster" in plain
    assert "delay_wgrad_compute: false" in plain
    assert read(TARGET.apply(plain, "user.yaml", found), FOUR).plan == found


def test_overrides_have_pairs_in_their_own_section() -> None:
    assert TARGET.apply is not None
    script = (
        "torchrun run.py model.pipeline_model_parallel_size=2 'model.pipeline_model_parallel_layout=\"Et|t|t|tL\"'\n"
    )
    plan = replace(read(TWO_CHUNKS).plan, schedule="interleaved-overlap")
    on = TARGET.apply(script, "run.sh", plan)
    assert " comm_overlap.overlap_moe_expert_parallel_comm=true" in on
    assert TARGET.read is not None
    assert TARGET.read(on, "run.sh", FOUR).plan.schedule == "interleaved-overlap"
    off = TARGET.apply(on, "run.sh", replace(plan, schedule="interleaved"))
    assert " comm_overlap.overlap_moe_expert_parallel_comm=false" in off
    assert TARGET.read(off, "run.sh", FOUR).plan.schedule == "interleaved"


def test_microbatches_need_the_batches_and_the_devices() -> None:
    text = (
        "model: {num_layers: 4, pipeline_model_parallel_size: 2}\ntrain: {global_batch_size: 8, micro_batch_size: 2}\n"
    )
    with pytest.raises(InputError, match=r"world_size must be given, for the number of microbatches"):
        read(text, GivenSizes())
    assert read(text).plan.num_microbatches == 4


@pytest.mark.parametrize("batch", ["", ", global_batch_size: null"])
def test_a_microbatch_alone_does_not_tell_the_batch_which_the_recipe_has(batch: str) -> None:
    text = f"model: {{num_layers: 4, pipeline_model_parallel_size: 2}}\ntrain: {{micro_batch_size: 2{batch}}}\n"
    assert read(text).plan.num_microbatches == 4
    with pytest.raises(InputError, match="for the number of microbatches"):
        read(text, GivenSizes())


@pytest.mark.parametrize(
    ("text", "file", "is_ours"),
    [
        (USER_FILE, "user.yaml", True),
        ("ConfigContainer:\n  model:\n    pipeline_model_parallel_size: 2\n", "a.yaml", True),
        ("model:\n  hidden_size: 3\n", "a.yaml", False),
        ("modules:\n  a:\n    overrides:\n      pipeline_model_parallel_size: 2\nmodel:\n", "a.yaml", False),
        ("--pipeline-model-parallel-size 4", "run.sh", False),
        ("", "a.yaml", False),
    ],
)
def test_its_files_are_recognised(text: str, file: str, is_ours: bool) -> None:
    assert TARGET.recognise(text, file) is is_ours


@given(plan=plans(TARGET.abilities("0.3")))
def test_a_written_plan_is_read_back(plan: Plan) -> None:
    yaml = TARGET.write(plan, "0.3").pieces[0].text
    assert TARGET.recognise(yaml, "overrides.yaml")
    found = read(yaml, GivenSizes(num_microbatches=plan.num_microbatches))
    assert canonical(found.plan) == canonical(plan)
    assert found.unknown == ()


@settings(max_examples=examples(30))
@given(plan=plans(TARGET.abilities("0.3")))
def test_a_plan_in_a_users_file_is_read_back(plan: Plan) -> None:
    assert TARGET.apply is not None
    mine = "model:\n  seq_length: 4096\n  num_layers_in_last_pipeline_stage: 2\ntrain: {}\n"
    found = read(TARGET.apply(mine, "user.yaml", plan), GivenSizes(num_microbatches=plan.num_microbatches))
    assert canonical(found.plan) == canonical(plan)


WORDS = {"None": "null", "True": "true"}


@pytest.mark.processes
@given(plan=plans(TARGET.abilities("0.3")))
def test_yaml_and_overrides_say_the_same_plan(plan: Plan) -> None:
    yaml, overrides = TARGET.write(plan, "0.3").pieces
    document = load_document(yaml.text, file="overrides.yaml").value
    assert isinstance(document, dict)
    said = dict(word.split("=", 1) for word in shell_words(overrides.text))
    assert {name: value.strip("'") for name, value in said.items()} == {
        f"{section}.{name}": f"[{','.join(value)}]" if isinstance(value, list) else WORDS.get(str(value), str(value))
        for section, values in document.items()
        for name, value in values.items()
    }
    model = document["model"]
    layout = parse_layout(model["pipeline_model_parallel_layout"], place="layout")
    assert layout.cells(model["pipeline_model_parallel_size"], place="layout") == plan.layers
    assert (model["virtual_pipeline_model_parallel_size"] or 1) == plan.num_chunks


def test_the_page_shows_what_is_written() -> None:
    for version in TARGET.versions:
        for piece in TARGET.write(INTERLEAVED, version).pieces:
            assert piece.text in page_of(TARGET)
