import pytest
from hypothesis import given

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.targets.frameworks.ms_swift.target import TARGET
from evenflow.targets.megatron_family.layout import parse_layout
from evenflow.targets.target import GivenSizes
from tests.targets.megatron_family.plans import flag_plans
from tests.targets.pages import page_of
from tests.targets.shell import bash_words, shell_words
from tests.targets.strategies import canonical, plans

INTERLEAVED = Plan(
    schedule="interleaved",
    num_microbatches=37,
    group_size=21,
    layers=((3, 4, 4, 4), (4, 4, 4, 1)),
    recompute={"full": ((2, 2, 2, 2), (2, 2, 2, 1))},
)


def text_of(plan: Plan) -> str:
    (piece,) = TARGET.write(plan, "4.0").pieces
    assert piece.syntax == "shell"
    return piece.text


def test_the_arguments_of_a_plan_with_chunks() -> None:
    assert text_of(INTERLEAVED) == (
        "PIPELINE_ARGS=(\n"
        "    --pipeline_model_parallel_size 4\n"
        "    --pipeline_model_parallel_layout 'Et*3|(t*4|)*6,tL'\n"
        "    --microbatch_group_size_per_vp_stage 21\n"
        "    --recompute_granularity full\n"
        "    --recompute_method block\n"
        "    --recompute_num_layers 2\n"
        ")\n"
    )


@pytest.mark.processes
def test_bash_hands_the_layout_on_as_one_word() -> None:
    words = bash_words(text_of(INTERLEAVED))
    assert words[words.index("--pipeline_model_parallel_layout") + 1] == "Et*3|(t*4|)*6,tL"


@pytest.mark.processes
def test_no_recomputation_is_said_because_the_default_recomputes() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 2),))
    assert bash_words(text_of(plan))[-2:] == ["--recompute_granularity", "none"]


@pytest.mark.processes
@given(plan=plans(TARGET.abilities("4.0")))
def test_every_plan_is_in_its_arguments(plan: Plan) -> None:
    words = shell_words(text_of(plan))
    modules = words[words.index("--recompute_modules") + 1 :] if "--recompute_modules" in words else []
    words = words[: len(words) - len(modules) - bool(modules)]
    said = dict(zip(words[::2], words[1::2], strict=True))
    assert all(word.startswith("--") for word in said)
    layout = parse_layout(said["--pipeline_model_parallel_layout"], place="layout")
    assert layout.cells(int(said["--pipeline_model_parallel_size"]), place="layout") == plan.layers
    most = int(said.get("--recompute_num_layers", 0))
    if said.get("--recompute_method") == "uniform":
        assert plan.recompute == {f"segment{most}": plan.layers}
        return
    full = plan.recompute.get("full", tuple(tuple(0 for _ in row) for row in plan.layers))
    assert full == tuple(tuple(min(most, count) for count in row) for row in plan.layers)
    group = said.get("--microbatch_group_size_per_vp_stage")
    assert (int(group) if group else plan.num_ranks) == (plan.group_size or plan.num_ranks)
    (kind,) = [kind for kind in canonical(plan).recompute if kind != "full"] or [""]
    assert modules == (["core_attn"] if kind == "select" else kind.split("+") if kind else [])
    assert said["--recompute_granularity"] == ("full" if most else "selective" if kind else "none")


SCRIPT = """\
NPROC_PER_NODE=8 megatron sft \\
    --model Qwen/Qwen3-30B-A3B \\
    --pipeline_model_parallel_size 2 \\
    --pipeline_model_parallel_layout "Et*22|t*21mL" \\
    --account_for_loss_in_pipeline_split false \\
    --vit_gradient_checkpointing true \\
    --global_batch_size 8
"""


def test_the_plan_of_a_script() -> None:
    assert TARGET.read is not None
    assert TARGET.recognise(SCRIPT, "run.sh")
    found = TARGET.read(SCRIPT, "run.sh", GivenSizes())
    assert found.plan == Plan(
        schedule="1f1b", num_microbatches=2, layers=((22, 21),), recompute={"select": ((22, 21),)}
    )
    assert found.notes[:2] == (
        "micro_batch_size is 1 where nothing is said of it",
        "recompute_granularity is selective where nothing is said of it",
    )
    assert found.unknown == ()


@pytest.mark.parametrize(
    ("variables", "num_microbatches"),
    [
        ("NPROC_PER_NODE=8", 2),
        ("NNODES=2 NPROC_PER_NODE=8", 1),
        ("NNODES=$N NPROC_PER_NODE=8", None),
        ("NNODES=2", None),
    ],
)
def test_the_devices_of_a_script_are_in_its_variables(variables: str, num_microbatches: int | None) -> None:
    assert TARGET.read is not None
    script = SCRIPT.replace("NPROC_PER_NODE=8", variables)
    if num_microbatches is None:
        with pytest.raises(InputError, match="world_size must be given, for the number of microbatches"):
            TARGET.read(script, "run.sh", GivenSizes())
    else:
        assert TARGET.read(script, "run.sh", GivenSizes()).plan.num_microbatches == num_microbatches


@given(plan=plans(TARGET.abilities("4.0")))
def test_a_written_plan_is_read_back(plan: Plan) -> None:
    assert TARGET.read is not None
    script = text_of(plan) + 'megatron pt --model mine "${PIPELINE_ARGS[@]}"  # --pipeline_model_parallel\n'
    assert TARGET.recognise(script, "run.sh")
    found = TARGET.read(script, "run.sh", GivenSizes(num_microbatches=plan.num_microbatches))
    assert canonical(found.plan) == canonical(plan)


def test_the_page_shows_what_is_written() -> None:
    for version in TARGET.versions:
        for piece in TARGET.write(INTERLEAVED, version).pieces:
            assert piece.text in page_of(TARGET)


def apply(script: str, plan: Plan) -> str:
    assert TARGET.apply is not None
    return TARGET.apply(script, "run.sh", plan)


def test_a_script_gets_arguments_with_underscores() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((20, 23),))
    assert apply(SCRIPT, plan) == SCRIPT.replace("    --account_for_loss_in_pipeline_split false \\\n", "").replace(
        '--pipeline_model_parallel_size 2 \\\n    --pipeline_model_parallel_layout "Et*22|t*21mL"',
        "--recompute_granularity none \\\n    --pipeline_model_parallel_size 2 \\\n"
        '    --pipeline_model_parallel_layout "Et*20|t*23mL"',
    )


CHUNKED = """\
PP=4
megatron pt --model mine --pipeline_model_parallel_size $PP --virtual_pipeline_model_parallel_size 2 \\
    --recompute_granularity full --recompute_method uniform --recompute_num_layers 1 --lr 1e-5
"""


@pytest.mark.parametrize("script", [SCRIPT.replace("NPROC_PER_NODE=8 ", ""), CHUNKED])
@given(plan=flag_plans().filter(lambda plan: plan.num_ranks > 1))
def test_an_edited_script_reads_as_the_plan(script: str, plan: Plan) -> None:
    assert TARGET.read is not None
    edited = apply(script, plan)
    found = TARGET.read(edited, "run.sh", GivenSizes(num_microbatches=plan.num_microbatches))
    assert canonical(found.plan) == canonical(plan)
    assert "virtual_pipeline" not in edited
    assert apply(edited, plan) == edited


def test_a_script_of_other_microbatches_is_refused_with_its_usual_batch() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((20, 23),))
    script = SCRIPT.replace("    --global_batch_size 8\n", "    --lr 1\n")
    with pytest.raises(InputError, match="must give the 2 microbatches of the plan, got '4 microbatches'"):
        apply(script, plan)


def test_a_script_gets_the_modules_of_the_plan_and_is_read_with_them() -> None:
    assert TARGET.apply is not None
    assert TARGET.read is not None
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 2),), recompute={"layernorm+moe": ((3, 2),)})
    script = "megatron sft --num_layers 5 --pipeline_model_parallel_size 2 --recompute_modules core_attn mlp\n"
    applied = TARGET.apply(script, "run.sh", plan)
    assert "--recompute_granularity selective" in applied
    assert "--recompute_modules layernorm moe" in applied
    found = TARGET.read(applied, "run.sh", GivenSizes(num_microbatches=8))
    assert (found.plan, found.unknown) == (plan, ())
