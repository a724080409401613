"""From a configuration to a two-level plan to training on real processes, as users type it; and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from evenflow.cli.main import main
from tests_torch.run.warm_ranks import start_warm, without_crashes
from tests_torch.run.warm_scripts import run_script
from tests_torch.verbs.run.run_plans import written
from tests_torch.verbs.run.test_run_elastic import SCRIPT

pytestmark = pytest.mark.processes

CONFIG = {
    "model_type": "llama",
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}
FAST_INSIDE = ["--intra-bandwidth", "200GBps", "--inter-bandwidth", "100MBps"]


MIXTURE = {**CONFIG, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}


def planned(folder: Path, mesh: str, *options: str, config: dict[str, Any] = CONFIG) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    plan = folder / "auto_plan.json"
    arguments = ["auto", "--model", str(folder / "config.json"), "--mesh", mesh, "--memory", "1GB", *FAST_INSIDE]
    arguments += ["--microbatches", "3", "--seq", "8", "--microbatch", "4", "--dtype", "fp32", "--json", str(plan)]
    done = CliRunner().invoke(main, [*arguments, *options])
    assert done.exit_code == 0, done.stderr
    return plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planned(tmp_path_factory.mktemp("auto"), "2x2")


def verified(plan: Path, num_processes: int, *options: str) -> dict[str, Any]:
    answer = plan.with_name("run.json")
    arguments = ["run", str(plan), "--model", str(plan.with_name("config.json")), "--verify", "--dtype", "float64"]
    arguments += ["--steps", "3", "--device", "cpu", "--lr", "0.01", "--json", str(answer), *options]
    with pytest.MonkeyPatch.context() as patch:
        start_warm(patch)
        done = without_crashes(lambda: CliRunner().invoke(main, arguments))
    assert done.exit_code == 0, done.stderr
    assert f"starting {num_processes} processes" in done.stderr
    result: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return result


def test_four_processes_train_what_one_does(plan: Path) -> None:
    stages = json.loads(plan.read_text(encoding="utf-8"))["stages"]
    assert {len(stage["devices"]) for stage in stages} != {1}, "some stage lies on several devices"
    result = verified(plan, 4)
    assert result["verification"]["agrees"]
    assert max(result["verification"]["loss_error"], result["verification"]["gradient_error"]) <= 1e-12
    assert result["losses"][-1] < result["losses"][0], "it learns"
    assert result["processes"] == 4
    assert len(result["measured"]["peak_memory_mb"]) == len({stage["rank"] for stage in stages})


@pytest.mark.parametrize(
    ("fixed", "config"),
    [
        pytest.param("data=2,pipeline=2,zero=0", CONFIG, marks=pytest.mark.slow),
        pytest.param("data=2,pipeline=2,zero=1", CONFIG, marks=pytest.mark.slow),
        pytest.param("data=2,pipeline=2,zero=2", CONFIG, marks=pytest.mark.slow),
        pytest.param("data=2,pipeline=2,zero=3", CONFIG, marks=pytest.mark.slow),
        pytest.param("tensor=2,pipeline=2", CONFIG, marks=pytest.mark.slow),
        pytest.param("context=2,pipeline=2", CONFIG, marks=pytest.mark.slow),
        ("expert=2,data=2,pipeline=2", MIXTURE),
        pytest.param("data=2,tensor=2,pipeline=1,zero=3", CONFIG, marks=pytest.mark.slow),
    ],
)
def test_whatever_is_fixed_is_planned_and_trains(tmp_path: Path, fixed: str, config: dict[str, Any]) -> None:
    plan = planned(tmp_path, "1x4", "--fix", fixed, config=config)
    stages = json.loads(plan.read_text(encoding="utf-8"))["stages"]
    assert f"pipeline={len(stages)}" in fixed
    result = verified(plan, 4)
    assert result["verification"]["agrees"]
    assert max(result["verification"]["loss_error"], result["verification"]["gradient_error"]) <= 1e-12


def test_replicas_of_a_plan_train_what_one_process_does(tmp_path: Path) -> None:
    result = verified(planned(tmp_path, "1x2", "--fix", "tensor=2"), 4, "--data-parallel", "2")
    assert result["verification"]["agrees"]
    assert max(result["verification"]["loss_error"], result["verification"]["gradient_error"]) <= 1e-12
    assert result["losses"][-1] < result["losses"][0], "it learns"
    assert (result["processes"], result["ranks"], result["data_parallel"]) == (4, 1, 2)


@pytest.mark.parametrize(
    "fixed", ["tensor=2,pipeline=2", pytest.param("data=2,pipeline=2,zero=3", marks=pytest.mark.slow)]
)
def test_adapters_train_alone_as_in_one_process(tmp_path: Path, fixed: str) -> None:
    result = verified(planned(tmp_path, "1x4", "--fix", fixed), 4, "--lora", "3")
    assert result["verification"]["agrees"]
    assert max(result["verification"]["loss_error"], result["verification"]["gradient_error"]) <= 1e-12
    assert result["adapter_rank"] == 3
    assert result["losses"][-1] < result["losses"][0], "they learn"


@pytest.mark.slow
def test_eight_processes_train_what_one_does(tmp_path: Path) -> None:
    result = verified(planned(tmp_path, "2x4"), 8)
    assert result["verification"]["agrees"]
    assert max(result["verification"]["loss_error"], result["verification"]["gradient_error"]) <= 1e-12


def test_a_training_goes_on_from_its_checkpoint_on_other_devices_and_in_one_process(plan: Path, tmp_path: Path) -> None:
    saved, metrics = tmp_path / "saved", tmp_path / "m.jsonl"
    one_rank = {"ranks": 1, "chunks": 1, "schedule": "1f1b", "layers": [[2]], "recompute": {}, "microbatches": 3}
    alone = written(tmp_path / "alone.json", **one_rank)
    other = planned(tmp_path, "1x2", "--fix", "data=2,zero=3")
    sizes = ["--seq", "8", "--microbatch", "4"]

    def trained(plan: Path, *options: str) -> list[float]:
        metrics.unlink(missing_ok=True)
        arguments = ["run", str(plan), "--model", str(tmp_path / "config.json"), "--dtype", "float64", "--steps", "8"]
        arguments += ["--device", "cpu", "--lr", "0.01", "--metrics", str(metrics), *options]
        with pytest.MonkeyPatch.context() as patch:
            start_warm(patch)
            done = without_crashes(lambda: CliRunner().invoke(main, arguments))
        assert done.exit_code == 0, done.stderr
        return [json.loads(line)["loss"] for line in metrics.read_text(encoding="utf-8").splitlines()]

    losses = trained(plan, "--save", str(saved), "--save-every", "4", "--overwrite")
    assert sorted(path.name for path in saved.iterdir()) == ["step-00000004", "step-00000008"]
    resume = ["--resume", str(saved / "step-00000004")]
    assert trained(other, *resume) == pytest.approx(losses[4:], rel=1e-11)
    assert trained(alone, *resume, *sizes) == pytest.approx(losses[4:], rel=1e-11)


def test_a_training_goes_on_with_fewer_devices_as_if_all_were_there(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_warm(monkeypatch)
    arguments = ["run", str(plan), "--model", str(plan.with_name("config.json")), "--dtype", "float64"]
    arguments += ["--device", "cpu", "--lr", "0.01"]
    metrics, whole = tmp_path / "m.jsonl", tmp_path / "whole.jsonl"
    done = without_crashes(
        lambda: CliRunner().invoke(main, [*arguments, "--steps", "8", "--metrics", str(whole), "--overwrite"])
    )
    assert done.exit_code == 0, done.stderr
    arguments += ["--save", str(tmp_path / "saved"), "--elastic", "--metrics", str(metrics)]
    begun = CliRunner().invoke(main, [*arguments, "--steps", "4"])
    assert begun.exit_code == 0, begun.stderr
    (tmp_path / "main.py").write_text(SCRIPT, encoding="utf-8")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "test")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    run_script(tmp_path, "main.py", *arguments, "--steps", "8", processes=2)
    told = [[json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] for path in (whole, metrics)]
    assert [line["step"] for line in told[1]] == list(range(1, 9))
    losses = [[line["loss"] for line in lines] for lines in told]
    assert losses[1] == pytest.approx(losses[0], rel=1e-11)
    (again,) = (tmp_path / "saved").glob("plan-*-for-2.json")
    assert json.loads(again.read_text(encoding="utf-8"))["cluster"]["mesh"] == [1, 2]


def test_dropout_draws_the_numbers_of_the_unsplit_model(tmp_path: Path) -> None:
    dropping = {**CONFIG, "attention_dropout": 0.2}
    result = verified(planned(tmp_path, "1x2", "--fix", "tensor=2,pipeline=1", config=dropping), 2)
    assert result["verification"]["agrees"]
    assert max(result["verification"]["loss_error"], result["verification"]["gradient_error"]) <= 1e-12


def checked(plan: Path, *options: str) -> Any:
    arguments = ["run", str(plan), "--model", str(plan.with_name("config.json")), "--steps", "6", "--device", "cpu"]
    with pytest.MonkeyPatch.context() as patch:
        start_warm(patch)
        return without_crashes(lambda: CliRunner().invoke(main, [*arguments, "--aa-everywhere", *options]))


def test_devices_check_their_work(plan: Path, tmp_path: Path) -> None:
    answer = tmp_path / "run.json"
    done = checked(plan, "--inject-fault", "rank=1,step=4", "--json", str(answer))
    assert done.exit_code == 5, done.stderr
    report = json.loads(answer.read_text(encoding="utf-8"))["aa_check"]
    assert {(one["rank"], one["step"]) for one in report["mismatches"]} == {(1, 4)}
    assert [rank["checks"] > 0 for rank in report["ranks"]] == [True] * 4
    assert done.stderr.count("A/A check: rank 1, ") == 1


def test_replicas_of_devices_check_their_work_and_one_another(tmp_path: Path) -> None:
    dropping = {**CONFIG, "attention_dropout": 0.2}
    plan = planned(tmp_path, "1x2", "--fix", "tensor=2", config=dropping)
    done = checked(plan, "--data-parallel", "2")
    assert done.exit_code == 0, done.stderr
    assert "no difference" in done.stdout
    assert "neighbours: 4 layers done again by the next rank" in done.stdout


def refused(plan: Path, *options: str) -> str:
    arguments = ["run", str(plan), "--model", str(plan.with_name("config.json")), *options]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, result.output
    return result.stderr


def test_what_does_not_fit_the_plan_is_refused_before_any_process(plan: Path) -> None:
    assert "made for, [4, 8]" in refused(plan, "--seq", "16")
    experts = planned(plan.parent / "experts", "1x2", "--fix", "expert=2,data=2", config=MIXTURE)
    assert "must have no experts beside which adapters stand" in refused(experts, "--lora", "2")
    assert "layers" in refused(plan, "--layers", "3")
    other = plan.with_name("other.json")
    fields = json.loads(plan.read_text(encoding="utf-8"))

    def with_stage(**changes: object) -> Path:
        stage = {**fields["stages"][-1], **changes}
        other.write_text(json.dumps({**fields, "stages": [*fields["stages"][:-1], stage]}), encoding="utf-8")
        return other

    parameters = dict(fields["stages"][-1]["parameters"])
    name = next(iter(parameters))
    del parameters[name]
    assert name in refused(with_stage(parameters=parameters))
    parameters[name] = "S(7)" + " R" * (len(fields["stages"][-1]["mesh"]) - 1)
    assert name in refused(with_stage(parameters=parameters))
    parameters[name] = "everywhere"
    assert "'everywhere'" in refused(with_stage(parameters=parameters))
    assert "devices" in refused(with_stage(devices=[0] * len(fields["stages"][-1]["devices"])))


def test_a_plan_keeps_the_capacity_of_experts_and_drops_what_exceeds_it(tmp_path: Path) -> None:
    place = planned(tmp_path, "1x2", "--expert-capacity", "1", "--fix", "expert=2,data=2", config=MIXTURE)
    fields = json.loads(place.read_text(encoding="utf-8"))
    assert fields.pop("expert_capacity") == 1
    limited = verified(place, 2)
    place.write_text(json.dumps(fields), encoding="utf-8")
    free = verified(place, 2)
    assert limited["verification"]["agrees"]
    assert free["verification"]["agrees"]
    assert limited["losses"][0] != pytest.approx(free["losses"][0], rel=1e-9)
