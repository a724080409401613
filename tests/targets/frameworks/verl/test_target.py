import pytest
from hypothesis import given

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.targets.frameworks.verl.target import TARGET
from evenflow.targets.megatron_family.layout import parse_layout
from evenflow.targets.target import GivenSizes
from tests.targets.pages import page_of
from tests.targets.shell import bash_words, shell_words
from tests.targets.strategies import canonical, plans

MEGATRON = "actor_rollout_ref.actor.megatron"
INTERLEAVED = Plan(
    schedule="interleaved",
    num_microbatches=8,
    layers=((3, 4, 4, 4), (4, 4, 4, 1)),
    recompute={"full": ((2, 2, 2, 2), (2, 2, 2, 1))},
)


def text_of(plan: Plan) -> str:
    (piece,) = TARGET.write(plan, "0.9").pieces
    assert piece.syntax == "shell"
    return piece.text


def test_the_overrides_of_a_plan_with_chunks() -> None:
    config = f"++{MEGATRON}.override_transformer_config"
    assert text_of(INTERLEAVED) == (
        "PIPELINE_ARGS=(\n"
        f"    {MEGATRON}.pipeline_model_parallel_size=4\n"
        f"    {MEGATRON}.virtual_pipeline_model_parallel_size=2\n"
        f"    \"{config}.pipeline_model_parallel_layout='Et*3|(t*4|)*6,tL'\"\n"
        f"    {config}.microbatch_group_size_per_vp_stage=null\n"
        f"    {config}.recompute_granularity=full\n"
        f"    {config}.recompute_method=block\n"
        f"    {config}.recompute_num_layers=2\n"
        ")\n"
    )


@pytest.mark.processes
def test_hydra_gets_the_inner_quotes_and_bash_takes_the_outer_ones() -> None:
    assert bash_words(text_of(INTERLEAVED))[2] == (
        f"++{MEGATRON}.override_transformer_config.pipeline_model_parallel_layout='Et*3|(t*4|)*6,tL'"
    )


@pytest.mark.processes
def test_no_recomputation_is_null() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 2),))
    assert bash_words(text_of(plan))[4:] == [
        f"++{MEGATRON}.override_transformer_config.recompute_{name}=null"
        for name in ("granularity", "method", "num_layers")
    ]


@pytest.mark.processes
def test_modules_are_a_list_for_hydra_and_no_pattern_for_bash() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 2),), recompute={"select": ((3, 2),)})
    assert bash_words(text_of(plan))[-1] == f"++{MEGATRON}.override_transformer_config.recompute_modules=[core_attn]"


@pytest.mark.processes
@given(plan=plans(TARGET.abilities("0.9")))
def test_every_plan_is_in_its_overrides(plan: Plan) -> None:
    said = dict(word.rpartition(".")[2].split("=", 1) for word in shell_words(text_of(plan)))
    quoted = said["pipeline_model_parallel_layout"]
    assert quoted[0] == quoted[-1] == "'"
    layout = parse_layout(quoted[1:-1], place="layout")
    assert layout.cells(int(said["pipeline_model_parallel_size"]), place="layout") == plan.layers
    chunks = said["virtual_pipeline_model_parallel_size"]
    assert (1 if chunks == "null" else int(chunks)) == plan.num_chunks
    group = said["microbatch_group_size_per_vp_stage"]
    assert (plan.num_ranks if group == "null" else int(group)) == (plan.group_size or plan.num_ranks)


SCRIPT = """\
LAYOUT=${LAYOUT:-"Et*6|(t*6|)*2,t*5L"}
ACTOR=(
    actor_rollout_ref.actor.optim.lr=1e-6
    actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=4
    actor_rollout_ref.actor.megatron.virtual_pipeline_model_parallel_size=null
    ++actor_rollout_ref.actor.megatron.override_transformer_config.recompute_method=uniform
    ++actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity=full
    +actor_rollout_ref.actor.megatron.override_transformer_config.recompute_num_layers=1
    +actor_rollout_ref.actor.megatron.override_transformer_config.cpu_offloading=True
    "++actor_rollout_ref.actor.megatron.override_transformer_config.pipeline_model_parallel_layout='${LAYOUT}'"
)
python3 -m verl.trainer.main_ppo "${ACTOR[@]}" trainer.nnodes=2
"""


def test_the_plan_of_a_script() -> None:
    assert TARGET.read is not None
    assert TARGET.recognise(SCRIPT, "run.sh")
    found = TARGET.read(SCRIPT, "run.sh", GivenSizes(num_microbatches=8))
    assert found.plan == Plan(
        schedule="1f1b", num_microbatches=8, layers=((6, 6, 6, 5),), recompute={"full": ((6, 6, 6, 5),)}
    )
    assert found.unknown == ("run.sh: cpu_offloading",)


ON_ASCEND = """\
CONFIG=actor_rollout_ref.actor.megatron.override_transformer_config
python3 -m verl.trainer.main_ppo \\
    actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=4 \\
    +$CONFIG.pipeline_num_transformer_layers="[[11],[13]*2,[11]]" \\
    +$CONFIG.num_layers_in_first_pipeline_stage=11
"""


def test_the_matrix_of_mindspeed_on_ascend() -> None:
    assert TARGET.read is not None
    found = TARGET.read(ON_ASCEND, "run.sh", GivenSizes(num_microbatches=8))
    assert found.plan == Plan(schedule="1f1b", num_microbatches=8, layers=((11, 13, 13, 11),))
    assert found.unknown == ()
    place = "run.sh: pipeline_num_transformer_layers"
    with pytest.raises(InputError, match=f"{place} must be for the 3 ranks, got 4"):
        TARGET.read(ON_ASCEND.replace("size=4", "size=3"), "run.sh", GivenSizes(num_microbatches=8))
    with pytest.raises(InputError, match=f"{place} must have a list for each rank"):
        TARGET.read(ON_ASCEND.replace("[11]]", "11]"), "run.sh", GivenSizes(num_microbatches=8))


def test_a_script_without_overrides_is_refused() -> None:
    assert TARGET.read is not None
    with pytest.raises(InputError, match=r"run\.sh must have overrides of actor_rollout_ref\.actor\.megatron"):
        TARGET.read("python3 -m verl.trainer.main_ppo a=3\n", "run.sh", GivenSizes())


@given(plan=plans(TARGET.abilities("0.9")))
def test_a_written_plan_is_read_back(plan: Plan) -> None:
    assert TARGET.read is not None
    script = text_of(plan) + 'python3 -m verl.trainer.main_ppo "${PIPELINE_ARGS[@]}"\n'
    found = TARGET.read(script, "run.sh", GivenSizes(num_microbatches=plan.num_microbatches))
    assert canonical(found.plan) == canonical(plan)
    assert found.unknown == ()


def test_the_page_shows_what_is_written() -> None:
    for version in TARGET.versions:
        for piece in TARGET.write(INTERLEAVED, version).pieces:
            assert piece.text in page_of(TARGET)


def test_sets_of_modules_are_a_list_for_hydra() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 2),), recompute={"moe_act+mla_up_proj": ((3, 2),)})
    last = f"++{MEGATRON}.override_transformer_config.recompute_modules=[moe_act,mla_up_proj]"
    assert bash_words(text_of(plan))[-1] == last
