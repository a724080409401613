"""Settings of torchtitan, read as plans."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given

from evenflow.errors import InputError
from evenflow.model import FULL, NONE, Plan
from evenflow.schedule import schedule_of
from evenflow.targets.baseline_sets import in_offered_kinds
from evenflow.targets.frameworks.torchtitan.reader import read
from evenflow.targets.frameworks.torchtitan.settings_file import is_settings
from evenflow.targets.frameworks.torchtitan.stated import stated_in_settings
from evenflow.targets.frameworks.torchtitan.writer import write
from evenflow.targets.stages import layers_by_kind, stages_of
from evenflow.targets.target import Baseline, GivenSizes
from tests.targets.torch.strategies import plans

NOTHING = GivenSizes()


def same(plan: Plan, found: Plan) -> bool:
    """Whether both plans run the same work in the same order."""
    kinds = {*plan.recompute, *found.recompute, NONE}
    return (
        plan.layers == found.layers
        and schedule_of(plan).same_order(schedule_of(found))
        and all(
            plan.count(kind, chunk, rank) == found.count(kind, chunk, rank)
            for kind in kinds
            for chunk in range(plan.num_chunks)
            for rank in range(plan.num_ranks)
        )
    )


def read_beside(text: str, order: str, name: str) -> Baseline:
    with TemporaryDirectory() as folder:
        (Path(folder) / "order.csv").write_text(order, encoding="utf-8")
        return read(text, str(Path(folder) / name), NOTHING)


@given(plans(kinds=()))
def test_what_is_written_as_toml_is_read_back(plan: Plan) -> None:
    settings, order = write(plan, "0.2.2").pieces
    assert is_settings(settings.text, "debug.toml")
    found = read_beside(settings.text, order.text, "debug.toml")
    assert same(plan, found.plan)
    assert found.unknown == found.notes == ()


class Config:
    """A configuration that the written module changes, and that is saved as torchtitan saves it."""

    def __init__(self) -> None:
        self.__dict__["values"] = {}

    def __getattr__(self, name: str) -> object:
        return self.values.setdefault(name, Config())

    def __setattr__(self, name: str, value: object) -> None:
        self.values[name] = value

    def saved(self) -> dict[str, object]:
        return {key: value.saved() if isinstance(value, Config) else value for key, value in self.values.items()}


@pytest.mark.parametrize("version", ["0.3.0", "0.4.0"])
@given(plan=plans())
def test_what_is_written_as_python_is_read_back_from_what_torchtitan_saves(plan: Plan, version: str) -> None:
    module, order = write(plan, version).pieces
    names: dict[str, object] = {"recompute_layers": lambda layers: {"debug": False, "layers": layers}}
    text = module.text.replace("from evenflow.adapters.torchtitan import recompute_layers", "")
    text = text.replace('if hasattr(config.loss, "loss_fn")', "if False")
    exec(text, names)
    config = Config()
    names["with_plan"](config)  # type: ignore[operator]
    saved = config.saved() | {"model_spec": {"name": "llama3", "model": {"layers": []}}}
    found = read_beside(json.dumps(saved), order.text, "config.json")
    assert same(plan, found.plan)
    kinds = layers_by_kind(stages_of(found.plan, schedule_of(found.plan).stage_ranks))
    assert kinds == layers_by_kind(stages_of(plan, schedule_of(plan).stage_ranks))
    assert found.notes == ()


@given(plan=plans())
def test_what_is_written_as_python_is_read_as_it_is(plan: Plan) -> None:
    """A function that makes a configuration and returns it with the plan is read without running it."""
    module, order = write(plan, "0.4.0").pieces
    body = module.text.partition('runs the plan."""\n')[2]
    text = "from torchtitan.trainer import Trainer\n\ndef base():\n    return Trainer.Config()\n\n"
    text += f"def mine():\n    config = base()\n{body}"
    assert is_settings(text, "config_registry.py")
    found = read_beside(text, order.text, "config_registry.py")
    assert same(plan, found.plan)
    assert found.unknown == ()
    assert found.notes[-1].startswith("the file was read without running it")


REGISTRY = """\
from torchtitan.trainer import Trainer

RANKS = 4

def tiny():
    return Trainer.Config(
        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=8 * 2048, max_context_length=2048),
        parallelism=ParallelismConfig(pipeline_parallel_schedule="Interleaved1F1B"),
        activation_checkpoint={policy},
    )

def mine():
    config = tiny()
    config.parallelism.pipeline_parallel_degree = 2
    config.parallelism.num_pp_microbatches = 2 * 8
    config.training.num_tokens_per_train_step = 64 * 2048
    config.optimizer = default_adamw(lr=8e-4)
    return config
"""


@pytest.mark.parametrize(
    ("policy", "full", "unknown"),
    [
        ("None", 0, 0),
        ("FullAC.Config()", 8, 0),
        ("SelectiveAC.Config()", 8, 0),
        ("MemoryBudgetAC.Config(memory_budget=0.5)", 0, 1),
        ("recompute_layers({'full': [0, 1, 2]})", 3, 0),
    ],
)
def test_a_function_that_changes_what_another_makes(policy: str, full: int, unknown: int) -> None:
    text = REGISTRY.format(policy=policy)
    found = read(text, "config_registry.py", GivenSizes(num_layers=8))
    assert (found.plan.num_ranks, found.plan.num_chunks, found.plan.num_microbatches) == (2, 2, 16)
    assert found.plan.num_recomputed == full
    assert len(found.unknown) == unknown
    stated = stated_in_settings(text, "config_registry.py")
    assert (stated.microbatch, stated.rank_batch, stated.global_batch, stated.sequence) == (8, 128, 64, 2048)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:\n", "must be Python"),
        ("x = 1\n", "must have one function that returns a configuration with pipeline_parallel_degree"),
        (
            REGISTRY.format(policy="None") + "\ndef other():\n    return mine()\n",
            "must have one function .* got 'mine, other'; leave one of them",
        ),
        ("def f():\n    return f()\n", "must have one function"),
    ],
)
def test_python_that_makes_no_configuration_or_several(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text, "config_registry.py", GivenSizes(num_layers=8))


def test_constants_of_the_file_are_known() -> None:
    text = REGISTRY.format(policy="None").replace("degree = 2", "degree = RANKS")
    assert read(text, "config_registry.py", GivenSizes(num_layers=8)).plan.num_ranks == 4


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("degree = 2", "degree = 10**9", "pipeline_parallel_degree must be an integer .* got '10 .. 9'"),
        ("degree = 2", "degree = ranks()", "got 'ranks"),
        (
            "    config.optimizer",
            "    if RANKS > 2:\n        config.parallelism.pipeline_parallel_degree = 4\n    config.optimizer",
            "pipeline_parallel_degree must be an integer .* got 'if RANKS > 2:'",
        ),
        ("activation_checkpoint=None", "activation_checkpoint=policy()", "activation_checkpoint"),
    ],
)
def test_what_only_a_run_knows_is_refused(old: str, new: str, message: str) -> None:
    text = REGISTRY.format(policy="None").replace(old, new)
    with pytest.raises(InputError, match=message):
        read(text, "config_registry.py", GivenSizes(num_layers=8))


def test_batches_in_tokens_are_whole_sequences() -> None:
    text = REGISTRY.format(policy="None").replace("8 * 2048", "8 * 2048 + 1")
    with pytest.raises(InputError, match="must be a multiple of the 2048 tokens of a sequence, got 16385"):
        stated_in_settings(text, "config_registry.py")


TOML = """\
[training]
local_batch_size = 8

[parallelism]
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "1F1B"

[activation_checkpoint]
mode = "none"
"""


def test_the_cut_that_torchtitan_makes_itself() -> None:
    plan = read(TOML, "run.toml", GivenSizes(num_layers=30)).plan
    assert plan == Plan(schedule="1f1b", num_microbatches=8, layers=((7, 8, 8, 7),))
    text = TOML.replace('"1F1B"', '"Interleaved1F1B"\npipeline_parallel_last_stage_less_layers = 2')
    plan = read(text, "run.toml", GivenSizes(num_layers=30)).plan
    assert plan == Plan(schedule="interleaved", num_microbatches=8, layers=((4, 4, 4, 4), (4, 4, 4, 2)))
    text = TOML.replace('"1F1B"', '"LoopedBFS"\npipeline_parallel_layers_per_stage = 4')
    plan = read(text, "run.toml", GivenSizes(num_layers=30)).plan
    assert plan.layers == ((3, 4, 4, 4), (4, 4, 4, 3))
    assert plan.order[0].startswith("0F0,0F1")


@pytest.mark.parametrize(
    ("policy", "kind", "unknown"),
    [
        ('"full"', "full", ()),
        ('"eager"', "products", ()),
        ('"full"\nfull_recompute_save_ops = "layers.*::aten.mm.default"', None, ("full_recompute_save_ops",)),
        ('"default"', None, ("memory_policy",)),
        ('"sac_and_offload"', None, ("memory_policy",)),
    ],
)
def test_policies_of_graph_trainer_alone_decide(policy: str, kind: str | None, unknown: tuple[str, ...]) -> None:
    text = f"{TOML}\n[compile]\nmemory_policy = {policy}\n"
    found = read(text, "run.toml", GivenSizes(num_layers=30))
    assert found.plan.recompute == ({kind: found.plan.layers} if kind else {})
    assert found.unknown == tuple(f"run.toml: compile.{key}" for key in unknown)
    assert found.place_of_sets == ("run.toml: compile.memory_policy" if kind == "products" else "")


def test_what_moves_to_the_host_is_named() -> None:
    on_host = TOML.replace("[training]", "[training]\nenable_cpu_offload = true")
    assert on_host != TOML
    found = read(on_host, "run.toml", GivenSizes(num_layers=30))
    assert found.unknown == ("run.toml: training.enable_cpu_offload",)


@pytest.mark.parametrize(
    ("section", "full", "unknown"),
    [
        ('mode = "full"', ((7, 8, 8, 7),), ()),
        ("", ((3, 4, 4, 3),), ()),
        ('selective_ac_option = "3"', ((2, 2, 2, 2),), ()),
        ('selective_ac_option = "0"', ((7, 8, 8, 7),), ()),
        ('mode = "memory_budget"', None, ("run.toml: activation_checkpoint.mode",)),
    ],
)
def test_modes_of_recomputation(section: str, full: tuple[tuple[int, ...]] | None, unknown: tuple[str, ...]) -> None:
    found = read(TOML.replace('mode = "none"', section), "run.toml", GivenSizes(num_layers=30))
    assert found.plan.recompute == ({} if full is None else {FULL: full})
    assert found.unknown == unknown


def test_the_policy_of_operators_is_the_kind_products() -> None:
    text = TOML.replace('mode = "none"', 'selective_ac_option = "op"')
    found = read(text, "run.toml", GivenSizes(num_layers=30))
    assert found.plan.recompute == {"products": ((7, 8, 8, 7),)}
    assert found.unknown == ()
    assert in_offered_kinds(found, ("full", "products")) == found
    without = in_offered_kinds(found, ("full", "select"))
    assert without.plan.recompute == {}
    assert without.unknown == ("run.toml: activation_checkpoint.selective_ac_option",)


def test_every_second_layer_is_counted_through_the_stages_of_a_rank() -> None:
    text = TOML.replace('"1F1B"', '"Interleaved1F1B"').replace('mode = "none"', 'selective_ac_option = "2"')
    found = read(text, "run.toml", GivenSizes(num_layers=10))
    assert found.plan.layers == ((1, 2, 2, 2), (1, 1, 1, 0))
    assert found.plan.recompute == {FULL: ((0, 1, 1, 1), (1, 0, 0, 0))}
    assert len(found.notes) == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("= 8", "= ", "cannot read run.toml: not TOML"),
        ("= 8", "= 10\npipeline = 3\n[parallelism.x]\n[training", "cannot read run.toml: not TOML"),
        ("= 8", '= "8"', "run.toml: training.local_batch_size must be an integer"),
        ("= 4", "= 1", "run.toml: parallelism.pipeline_parallel_degree must be at least 2"),
        (
            "= 4",
            "= 4\npipeline_parallel_microbatch_size = 3",
            "run.toml: training.local_batch_size must be a multiple of",
        ),
        ('"1F1B"', '"2F2B"', "run.toml: parallelism.pipeline_parallel_schedule must be one of 1F1B"),
        ('"1F1B"', '"1F1B"\nmodule_fqns_per_model_part = [["layers.1"]]', "must have every layer once"),
        ('"1F1B"', '"1F1B"\nmodule_fqns_per_model_part = [["layers.0"]]', "stages must be a multiple of the 4 ranks"),
        ('"1F1B"', '"1F1B"\npipeline_parallel_layers_per_stage = 2', "must make a number of stages that 1F1B has"),
        ('"1F1B"', '"1F1B"\npipeline_parallel_first_stage_less_layers = 20', "must make no more stages than 30 layers"),
        ('"1F1B"', '"1F1B"\npipeline_parallel_schedule_csv = 3', "must be the name of a file"),
        ('"1F1B"', '"1F1B"\npipeline_parallel_schedule_csv = "no.csv"', "cannot read no.csv: no such file"),
        ('"none"', '"nonne"', "run.toml: activation_checkpoint.mode must be selective, full, memory_budget or none"),
        ('mode = "none"', "selective_ac_option = 2", "must be op, or every how many layers as a text"),
        ('mode = "none"', 'selective_ac_option = "two"', "must be op, or every how many layers as a text"),
        ("[training]", "training = 3\n[other]", "run.toml: training must be an object"),
    ],
)
def test_what_torchtitan_refuses_is_one_message(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        read(TOML.replace(old, new), "run.toml", GivenSizes(num_layers=30))
    assert message in str(error.value)


def test_layers_are_asked_for() -> None:
    with pytest.raises(InputError, match="--layers must be given"):
        read(TOML, "run.toml", NOTHING)


def test_unknown_keys_of_the_pipeline_are_named() -> None:
    text = TOML.replace('"1F1B"', '"1F1B"\npipeline_parallel_split_points = ["layers.2"]')
    found = read(text, "run.toml", GivenSizes(num_layers=30))
    assert found.unknown == ("run.toml: parallelism.pipeline_parallel_split_points",)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("0F0,0B0\n1F0,1B0\n", "must have the ranks, stages and microbatches of"),
        (
            "0F0,0F1,3F0,3F1,3B0,3B1,0B0,0B1\n1F0,1F1,2F0,2F1,2B0,2B1,1B0,1B1\n",
            "must place the stages as Interleaved1F1B",
        ),
        ("0F0,zero\n", "must be a stage, an operation"),
    ],
)
def test_an_order_that_does_not_fit_is_refused(order: str, message: str) -> None:
    plan = Plan(schedule="interleaved", num_microbatches=2, layers=((1, 1), (1, 1)))
    with pytest.raises(InputError, match=message):
        read_beside(write(plan, "0.2.2").pieces[0].text, order, "run.toml")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"layers": {"full": [0, 40]}}, "must have each layer once, below the 30 of the model"),
        ({"layers": {"full": [0], "select": [0]}}, "must have each layer once"),
        ({"layers": {"fulll": [0]}}, "is an unknown field; did you mean 'full'"),
        ({"layers": {"full": "0"}}, "must be a list of integers"),
    ],
)
def test_policies_that_fit_no_model_are_refused(policy: dict[str, object], message: str) -> None:
    saved = {
        "model_spec": {"model": {"layers": [{}] * 30}},
        "parallelism": {"pipeline_parallel_degree": 4},
        "activation_checkpoint": policy,
    }
    with pytest.raises(InputError) as error:
        read(json.dumps(saved), "config.json", NOTHING)
    assert message in str(error.value)


def test_a_saved_configuration_knows_its_layers_and_its_policy() -> None:
    saved = {
        "model_spec": {"model": {"layers": [{}] * 30}},
        "parallelism": {"pipeline_parallel_degree": 4, "num_pp_microbatches": 6},
        "activation_checkpoint": {"preserve_rng_state": True, "determinism_check": "default", "debug": False},
    }
    full = read(json.dumps(saved), "config.json", NOTHING).plan
    assert full == Plan(schedule="1f1b", num_microbatches=6, layers=((7, 8, 8, 7),), recompute={FULL: ((7, 8, 8, 7),)})
    saved["activation_checkpoint"] = None
    assert read(json.dumps(saved), "config.json", NOTHING).plan.recompute == {}
    saved["activation_checkpoint"] = {"force_recompute_mm_shapes_by_fqns": []}
    assert read(json.dumps(saved), "config.json", NOTHING).plan.recompute == {"products": ((7, 8, 8, 7),)}
    saved["activation_checkpoint"] = {"layers": {"mlp+moe": [0, 1, 7], "products": [2], "select": [29]}}
    found = read(json.dumps(saved), "config.json", NOTHING)
    assert found.plan.recompute == {
        "mlp+moe": ((2, 1, 0, 0),),
        "products": ((1, 0, 0, 0),),
        "select": ((0, 0, 0, 1),),
    }
    assert in_offered_kinds(found, ("full", "select")).unknown == ("config.json: activation_checkpoint.layers",)


def test_other_files_are_not_taken_for_settings() -> None:
    assert not is_settings("[parallelism", "x.toml")
    assert not is_settings("[training]\nsteps = 3", "x.toml")
    assert not is_settings("parallelism:\n  pipeline_parallel: 2\n", "x.yaml")
    assert is_settings(TOML, "x.toml")
