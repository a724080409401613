"""Sets of modules as recompute kinds, through the commands."""

import json
from typing import Any

import pytest

from tests.cli.verbs.planned import planned_file

CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 8,
    "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 8000,
}  # fmt: skip
TRAINED = ("--accelerator", "h100", "--ranks", 2, "--microbatches", 8, "--seq", 8192, "--time-limit", 10)
TIGHT = ("--memory", "7GB")


@pytest.fixture
def model(folder):
    (folder / "model.json").write_text(json.dumps(CONFIG))
    return "model.json"


def planned(evenflow, folder, model, *options):
    return planned_file(evenflow, folder, model, *TRAINED, *TIGHT, *options)


def test_more_sets_never_make_a_proven_plan_longer(evenflow, folder, model):
    usual, _ = planned(evenflow, folder, model)
    one, _ = planned(evenflow, folder, model, "--recompute-sets", "layernorm")
    best, told = planned(evenflow, folder, model, "--recompute-sets", "best")
    assert usual["status"] == one["status"] == best["status"] == "optimal"
    assert any(map(any, usual["recompute"]["full"])), "memory binds"
    assert best["makespan_ms"] <= one["makespan_ms"] * (1 + 2e-6)
    assert one["makespan_ms"] <= usual["makespan_ms"] * (1 + 2e-6)
    assert best["makespan_ms"] < usual["makespan_ms"]
    used = [kind for kind, table in best["recompute"].items() if any(map(any, table)) and kind != "full"]
    assert used
    assert used[0] in told.stdout


def test_names_have_one_order_and_must_be_known(evenflow, folder, model):
    plan, _ = planned(evenflow, folder, model, "--recompute-sets", "mlp+layernorm, layernorm+mlp")
    assert "layernorm+mlp" in plan["recompute"]
    assert "mlp+layernorm" not in plan["recompute"]
    result = evenflow("plan", model, *TRAINED, "--recompute-sets", "layernrom")
    assert result.exit_code == 2
    assert "--recompute-sets must be some of core_attn, layernorm" in result.stderr


def test_megatron_has_one_set_for_all_layers(evenflow, folder, model):
    plan, result = planned(evenflow, folder, model, "--recompute-sets", "layernorm+mlp", "--target", "megatron")
    table = plan["recompute"].get("layernorm+mlp", [[0, 0]])
    if any(map(any, table)):
        assert table == plan["layers"]
        assert "--recompute-modules layernorm mlp" in result.stdout
    loose, told = planned(evenflow, folder, model, "--recompute-sets", "layernorm+mlp", "--target", "megatron")
    assert loose["status"] == "optimal", told.stderr
    for target in ("nemo-automodel", "deepspeed"):
        refused = evenflow("plan", model, *TRAINED, "--recompute-sets", "layernorm", "--target", target)
        assert refused.exit_code == 2
        assert "must be a set of modules that the framework can compute again" in refused.stderr
        refused = evenflow("plan", model, *TRAINED, "--recompute-sets", "best", "--target", target)
        assert "must be left out: the framework has no such sets of modules, got 'best'" in refused.stderr


def test_a_plan_with_a_set_is_written_for_megatron(evenflow, folder, model):
    plan, _ = planned(evenflow, folder, model, "--recompute-sets", "layernorm+mlp", "--chunks", 1, "--schedule", "1f1b")
    every = {**plan, "recompute": {"layernorm+mlp": plan["layers"]}}
    (folder / "every.json").write_text(json.dumps(every))
    result = evenflow("export", "every.json", "--to", "megatron", "--memory", "70GB")
    assert result.exit_code == 0, result.stderr
    assert "--recompute-granularity selective" in result.stdout
    assert "--recompute-modules layernorm mlp" in result.stdout


def test_a_prediction_writes_them(evenflow, folder, model):
    sizes = ("--accelerator", "h100", "--gpus", 2, "--pipeline", 2, "--global-batch", 8, "--seq", 4096)
    result = evenflow("predict", "--model", model, *sizes, "--recompute-sets", "layernorm,mlp", "-o", "layers.json")
    assert result.exit_code == 0, result.stderr
    entries = json.loads((folder / "layers.json").read_text())["layers_description"]
    body = next(entry for entry in entries if entry["type"] == "BODY")
    assert set(body["recompute_kinds"]) == {"layernorm", "mlp"}
    assert "memory_select_rec" not in body
    again = evenflow("plan", "layers.json", "--ranks", 2, "--microbatches", 8, "--memory", "70GB")
    assert again.exit_code == 0, again.stderr


def test_tuning_ranks_degrees_with_them_and_its_answer_is_planned_again(evenflow, folder, model):
    asked = (
        "tune", "--model", model, "--accelerator", "h100", "--gpus", 4, "--gpus-per-node", 4, "--seq", 8192,
        "--global-batch", 16, "--fix", "pipeline=2", "--fix", "tensor=1", "--fix", "context=1", "--fix", "data=2",
        "--fix", "microbatch=1", "--fix", "chunks=1", "--schedules", "1f1b", "--memory", "13GB", "--time-limit", 10,
    )  # fmt: skip
    steps = []
    for sets in ((), ("--recompute-sets", "layernorm"), ("--recompute-sets", "best")):
        result = evenflow(*asked, *sets, "--json", f"{len(steps)}.json")
        assert result.exit_code == 0, result.stderr
        first = json.loads((folder / f"{len(steps)}.json").read_text())["ranked"][0]
        steps.append(first["step_ms"])
    assert steps[2] <= steps[1] * (1 + 1e-4)
    assert steps[1] <= steps[0] * (1 + 1e-4)
    assert steps[2] < steps[0], "memory binds"
    again = evenflow("plan", "2.json", "--time-limit", 10)
    assert again.exit_code == 0, again.stderr
    assert "layernorm" in again.stdout
    refused = evenflow(*asked, "--recompute-sets", "best", "--recompute", "full")
    assert refused.exit_code == 2
    assert "--recompute-sets must not be given beside --recompute" in refused.stderr
    refused = evenflow(*asked, "--recompute-sets", "best", "--target", "nemo-automodel")
    assert refused.exit_code == 2
    assert "must be left out: the framework has no such sets of modules, got 'best'" in refused.stderr


@pytest.mark.parametrize(
    ("target", "sets", "told"),
    [
        ("mindformers", {"layernorm", "mlp", "layernorm+mlp"}, "select_recompute:\n"),
        ("mindformers-pynative", {"full_attn", "mlp+moe", "mlp+moe+full_attn"}, "select_module:\n"),
        ("paddle", {"full_attn"}, "ATTENTION = ["),
    ],
)
def test_tuning_chooses_among_the_sets_that_a_framework_has(evenflow, folder, model, target, sets, told):
    asked = (
        "tune", "--model", model, "--accelerator", "h100", "--gpus", 2, "--gpus-per-node", 2, "--seq", 2048,
        "--global-batch", 32, "--fix", "pipeline=2", "--fix", "microbatch=4", "--fix", "chunks=1",
        "--memory", "12700MB", "--time-limit", 10, "--target", target,
    )  # fmt: skip
    steps = []
    for options in ((), ("--recompute-sets", "best")):
        result = evenflow(*asked, *options, "--json", "ranked.json", "--overwrite")
        assert result.exit_code == 0, result.stderr
        steps.append(json.loads((folder / "ranked.json").read_text())["ranked"][0]["step_ms"])
    assert steps[1] < steps[0], "memory binds"
    planned = evenflow("plan", "ranked.json", "--time-limit", 10, "--json", "plan.json")
    assert planned.exit_code == 0, planned.stderr
    used = {
        kind
        for kind, table in json.loads((folder / "plan.json").read_text())["recompute"].items()
        if any(map(any, table))
    }
    assert used - {"full"} <= sets
    assert used & sets
    written = evenflow("export", "plan.json", "--to", target)
    assert told in written.stdout


def test_megatron_moves_one_set_of_modules_in_all_layers(evenflow, folder, model):
    options = ("--target", "megatron", "--recompute-sets", "best")
    kept, _ = planned(evenflow, folder, model, *options)
    plan, result = planned(evenflow, folder, model, *options, "--host-link", "50GBps", "--time-limit", 4)
    assert plan["makespan_ms"] < kept["makespan_ms"]
    moved = plan.get("moved_share")
    if moved is None:
        (used,) = [kind for kind, table in plan["recompute"].items() if any(map(any, table))]
        assert plan["recompute"][used] == plan["layers"]
    else:
        used = moved["kind"]
        assert f"--activation-offload-fraction {moved['share']:g}\n" in result.stdout
    modules = [word.removeprefix("offload_") for word in used.split("+") if word.startswith("offload_")]
    assert modules
    assert f"--fine-grained-activation-offloading\n    --offload-modules {' '.join(modules)}\n" in result.stdout
    assert "NVTE_CPU_OFFLOAD_V1=1" in result.stdout
    older = evenflow("export", "plan.json", "--to", "megatron", "--version-of", "0.13")
    assert "--offload-modules" not in older.stdout
    assert "Megatron-LM cannot run the plan as it is" in older.stdout


def test_megatron_bridge_has_the_same_sets_as_fields(evenflow, folder, model):
    asked = ("--target", "megatron-bridge", "--recompute-sets", "layernorm+offload_core_attn", "--host-link", "50GBps")
    plan, result = planned(evenflow, folder, model, *asked)
    every = {**plan, "recompute": {"layernorm+offload_core_attn": plan["layers"]}}
    (folder / "every.json").write_text(json.dumps(every))
    result = evenflow("export", "every.json", "--to", "megatron-bridge", "--memory", "70GB")
    assert result.exit_code == 0, result.stderr
    assert '  recompute_modules: ["layernorm"]\n  fine_grained_activation_offloading: true\n' in result.stdout
    assert '  offload_modules: ["core_attn"]\n' in result.stdout
    assert "NVTE_CPU_OFFLOAD_V1=1" in result.stdout


def test_modules_that_move_need_a_link_and_their_neighbours(evenflow, model):
    asked = ("plan", model, *TRAINED, "--recompute-sets")
    result = evenflow(*asked, "offload_core_attn")
    assert result.exit_code == 2
    assert "modules that move must come with --host-link" in result.stderr
    result = evenflow(*asked, "offload_attn_proj", "--host-link", "50GBps")
    assert result.exit_code == 2
    assert "--recompute-sets must move attn_proj only with core_attn" in result.stderr


def test_a_script_with_modules_is_compared_as_it_is(evenflow, folder, model):
    script = (
        "--num-layers 8 --pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 8 --seq-length 8192 "
        "--nproc-per-node 4 --recompute-granularity selective --recompute-modules layernorm mlp"
    )
    (folder / "run.sh").write_text(f"torchrun {script}\n")
    (folder / "moves.sh").write_text(
        f"torchrun {script} --fine-grained-activation-offloading --offload-modules core_attn\n"
    )
    (folder / "plain.sh").write_text(f"torchrun {script.partition(' --recompute')[0]}\n")
    asked = ("compare", model, "--accelerator", "h100", "--seq", 8192, "--time-limit", 3, "--baseline")

    def yours(*options):
        result = evenflow(*asked, *options, "--json", "compared.json", "--overwrite")
        assert result.exit_code == 0, result.stderr
        assert "not understood" not in result.stderr
        written = json.loads((folder / "compared.json").read_text())
        return written["yours"]

    plain, again, moved = yours("plain.sh"), yours("run.sh"), yours("moves.sh", "--host-link", "50GBps")
    (folder / "bridge.yaml").write_text(
        "model:\n  num_layers: 8\n  pipeline_model_parallel_size: 4\n  recompute_granularity: selective\n"
        "  recompute_modules: [layernorm, mlp]\n  fine_grained_activation_offloading: true\n"
        "  offload_modules: [core_attn]\ntrain: {micro_batch_size: 1, global_batch_size: 8}\n"
    )
    bridge = yours("bridge.yaml", "--host-link", "50GBps", "--microbatches", 8)
    assert [bridge[key] for key in ("makespan_ms", "recompute")] == [moved[key] for key in ("makespan_ms", "recompute")]
    assert plain["makespan_ms"] < again["makespan_ms"] <= moved["makespan_ms"]
    peaks = [max(plan["peak_memory_mb"]) for plan in (plain, again, moved)]
    assert peaks == sorted(peaks, reverse=True)
    assert len(set(peaks)) == 3
    refused = evenflow(*asked, "moves.sh")
    assert refused.exit_code == 2
    assert "modules that move must come with --host-link" in refused.stderr


def test_mindformers_has_sets_in_turn(evenflow, folder, model):
    plan, result = planned(evenflow, folder, model, "--recompute-sets", "best", "--target", "mindformers")
    used = {kind for kind, table in plan["recompute"].items() if any(map(any, table))}
    assert used & {"layernorm", "mlp", "layernorm+mlp"}, "memory binds"
    assert "select_recompute:\n" in result.stdout
    (folder / "train.yaml").write_text("use_legacy: False\nmodel: {model_config: {num_layers: 8}}\n")
    applied = evenflow("apply", "plan.json", "train.yaml", "--to", "mindformers")
    assert applied.exit_code == 0, applied.stderr
    compared = evenflow(
        "compare", model, "--accelerator", "h100", "--seq", 8192, "--time-limit", 3, *TIGHT, "--recompute-sets", "best",
        "--baseline", "train.planned.yaml", "--json", "compared.json",
    )  # fmt: skip
    assert compared.exit_code == 0, compared.stderr
    assert "not understood" not in compared.stdout + compared.stderr
    yours = json.loads((folder / "compared.json").read_text())["yours"]["recompute"]
    assert {kind: yours[kind] for kind in used} == {kind: plan["recompute"][kind] for kind in used}
    few, _ = planned(evenflow, folder, model, "--recompute-sets", "layernorm", "--target", "mindformers")
    assert plan["status"] == few["status"] == "optimal"
    assert plan["makespan_ms"] <= few["makespan_ms"] * (1 + 2e-6)


def test_mindformers_moves_what_attention_keeps(evenflow, folder, model):
    moved = "offload_core_attn+offload_attn_proj"
    link = ("--host-link", "50GBps", "--host-one-engine")
    asked = ("--target", "mindformers", "--recompute-sets", f"layernorm,layernorm+{moved},{moved}")
    plan, result = planned(evenflow, folder, model, *asked, *link)
    used = {kind for kind, table in plan["recompute"].items() if any(map(any, table))}
    assert any("offload" in kind for kind in used), "memory binds"
    assert "op_swap: [{op_name: [" in result.stdout
    (folder / "train.yaml").write_text("use_legacy: False\nmodel: {model_config: {num_layers: 8}}\n")
    applied = evenflow("apply", "plan.json", "train.yaml", "--to", "mindformers")
    assert applied.exit_code == 0, applied.stderr
    compared = evenflow(
        "compare", model, "--accelerator", "h100", "--seq", 8192, "--time-limit", 3, *TIGHT, *link,
        "--baseline", "train.planned.yaml", "--json", "compared.json",
    )  # fmt: skip
    assert compared.exit_code == 0, compared.stderr
    assert "not understood" not in compared.stdout + compared.stderr
    yours = json.loads((folder / "compared.json").read_text())["yours"]
    assert {kind: yours["recompute"][kind] for kind in used} == {kind: plan["recompute"][kind] for kind in used}
    assert yours["makespan_ms"] == pytest.approx(plan["makespan_ms"], rel=2e-6)
    for wrong in (moved.partition("+")[0], f"mlp+{moved.partition('+')[0]}"):
        refused = evenflow("plan", model, *TRAINED, *link, "--target", "mindformers", "--recompute-sets", wrong)
        assert refused.exit_code == 2
        assert "must be a set of modules that the framework can compute again or move" in refused.stderr


def test_torchtitan_has_its_own_sets_for_any_layers(evenflow, folder, model):
    asked = ("--target", "torchtitan", "--recompute-sets", "best", "--zero", 2)
    plan, result = planned(evenflow, folder, model, *asked)
    used = {kind for kind, table in plan["recompute"].items() if any(map(any, table))}
    assert used & {"products", "mlp"}, "memory binds"
    assert used <= {"products", "mlp", "full"}
    assert all(f'"{kind}": [' in result.stdout for kind in used)
    (folder / "every.json").write_text(json.dumps({**plan, "recompute": {"products": plan["layers"]}}))
    told = evenflow("export", "every.json", "--to", "torchtitan", "--version-of", "0.2.2", "--memory", "70GB")
    assert 'mode = "selective"\nselective_ac_option = "op"\n' in told.stdout
    refused = evenflow("plan", model, *TRAINED, "--recompute-sets", "layernorm", "--target", "torchtitan")
    assert refused.exit_code == 2
    assert "must be a set of modules that the framework can compute again" in refused.stderr


def test_a_file_with_the_policy_of_operators_is_compared_as_it_is(evenflow, folder, model):
    text = (
        "[training]\nlocal_batch_size = 8\n[parallelism]\npipeline_parallel_degree = 2\n"
        "pipeline_parallel_last_stage_less_layers = 0\npipeline_parallel_first_stage_less_layers = 0\n"
        'pipeline_parallel_schedule = "1F1B"\n[activation_checkpoint]\n'
    )
    steps = []
    for mode in ("none", "selective", "full"):
        (folder / f"{mode}.toml").write_text(f'{text}mode = "{mode}"\nselective_ac_option = "op"\n')
        asked = ("--accelerator", "h100", "--seq", 8192, "--time-limit", 3, "--baseline", f"{mode}.toml")
        result = evenflow("compare", model, *asked, "--json", "compared.json", "--overwrite")
        assert result.exit_code == 0, result.stderr
        assert "not understood" not in result.stderr
        steps.append(json.loads((folder / "compared.json").read_text())["yours"]["makespan_ms"])
    assert steps[0] < steps[1] < steps[2]


def test_the_optimizer_on_the_host_leaves_a_plan_more_memory(folder, evenflow, model):
    link = ("--optimizer-offload", 0.5, "--host-link", "50GBps")
    usual = evenflow("plan", model, *TRAINED, "--json", "usual.json")
    less = evenflow("plan", model, *TRAINED, *link, "--json", "less.json")
    assert usual.exit_code == less.exit_code == 0, less.stderr
    assert "note: the host keeps 50 % of the optimizer's state" in less.stdout + less.stderr
    peaks = [json.loads((folder / name).read_text())["peak_memory_mb"] for name in ("usual.json", "less.json")]
    assert max(peaks[1]) < max(peaks[0])
    written = evenflow("export", "less.json", "--to", "megatron")
    assert "--optimizer-offload-fraction 0.5" in written.stdout
    for options, says in (
        (link[:2], "--optimizer-offload must come with --host-link"),
        ((*link, "--target", "torchtitan"), "--optimizer-offload must be 0 for torchtitan"),
        (("--host-update", "20GBps"), "--host-update must come with --optimizer-offload"),
    ):
        refused = evenflow("plan", model, *TRAINED, *options)
        assert refused.exit_code == 2
        assert says in refused.stderr
