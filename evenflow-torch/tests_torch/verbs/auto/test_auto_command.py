"""``evenflow auto`` from a small Llama's configuration, and what it refuses."""

import json
import math
import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path

import pytest

from evenflow.cluster.topology import usual_links
from evenflow.profiles.accelerator_file import accelerator_given
from evenflow.profiles.layer_file import read_layer_file
from evenflow.profiles.plan_file import read_plan_file
from evenflow.simulate import simulate
from tests.clocks import SetClock
from tests.export.trace_reader import read_trace
from tests.networks import SMALL_LLAMA
from tests.report.decoder import read_page

LAYERS = SMALL_LLAMA["num_hidden_layers"]
NUM_PARAMETERS = 2 * 320 * 64 + 64 + LAYERS * (2 * 64 + 64 * (2 * 64 + 2 * 32 + 3 * 160))
WORK = ("--model", "small.json", "--microbatches", "4", "--seq", "64", "--time-limit", "20")
RATES = ("--intra-bandwidth", "200GBps", "--inter-bandwidth", "25GBps")
LATENCIES = ("--intra-latency", "5us", "--inter-latency", "20us")
NO_LATENCIES = ("--intra-latency", "0s", "--inter-latency", "0s")
needs_torch = pytest.mark.skipif(
    not (find_spec("torch") and find_spec("transformers")), reason="needs PyTorch and transformers"
)


@pytest.fixture
def model(folder: Path) -> Path:
    path = folder / "small.json"
    path.write_text(json.dumps(SMALL_LLAMA))
    return path


def parameters(found: dict) -> dict[str, str]:
    return {name: code for stage in found["stages"] for name, code in stage["parameters"].items()}


@needs_torch
class TestAuto:
    def test_files_of_a_pipeline(self, folder, model, evenflow):
        # Latencies dwarf these small layers, so operators are not split: the two devices form a pipeline.
        result = evenflow(
            "auto", *WORK, "--mesh", "1x2", "--memory", "1GB", *RATES, *LATENCIES,
            "--json", "plan.json", "--svg", "plan.svg", "-o", "layers.json",
            "--trace", "trace.json", "--html", "plan.html",
        )  # fmt: skip
        assert result.exit_code == 0, result.stderr
        assert result.stdout.startswith("small: 4 layers on a mesh of 1x2 devices, 4 microbatches of 2 x 64 tokens, ")
        for words in (
            "\nplan: 2 stages",
            "alternatives (",
            "refinement by the exact solver adds",
            " % of 312 TFLOPS bfloat16",
            "wrote plan.json, layers.json, plan.svg, plan.html, trace.json",
        ):
            assert words in result.stdout
        found = json.loads((folder / "plan.json").read_text())
        assert [stage["submesh"] for stage in found["stages"]] == [[1, 1]] * len(found["stages"])
        assert found["stages"][0]["modules"][:2] == ["model.embed_tokens", "model.layers.0"]
        assert found["stages"][-1]["modules"][-3:] == ["model.layers.3", "model.norm", "lm_head"]
        assert len(parameters(found)) == 3 + 9 * LAYERS
        # The file is a plan file, and its layers have the memory of the whole model: 16 bytes a parameter.
        plan, network = read_plan_file(folder / "plan.json"), read_layer_file(folder / "layers.json")
        simulation = simulate(network, plan)
        assert [max(simulation.peak_memory_bytes)] == [pytest.approx(max(found["peak_memory_mb"]) * 2**20, rel=1e-6)]
        assert simulation.makespan_ns <= found["makespan_ms"] * 1e6 + 1
        held = sum(layer.parameter_bytes for layer in network.layers)
        assert held + network.head.parameter_bytes + network.tail.parameter_bytes == 16 * NUM_PARAMETERS
        page = read_page((folder / "plan.html").read_text())
        (shown,) = page.head["timelines"]
        assert [words.split(":")[0] for words in shown["stage_layers"]] == [
            f"stage {index}" for index in range(len(found["stages"]))
        ]
        assert shown["makespan_ns"] == round(found["makespan_ms"] * 1e6)
        assert "devices of their stage" in shown["what_if"]["why_not"]
        assert page.plans == [{key: value for key, value in found.items() if key != "written_by"}]
        assert read_plan_file(folder / "plan.html") == plan
        trace = read_trace((folder / "trace.json").read_text())
        assert len(trace.processes) == len(json.loads((folder / "plan.json").read_text())["layers"][0])
        picture = ET.fromstring((folder / "plan.svg").read_text())
        assert sum(element.get("id", "").startswith("device-") for element in picture.iter()) == 2

    def test_operators_are_split_where_that_costs_little(self, folder, model, evenflow):
        # The host launches operators of this size no faster than it would their halves: here it does.
        (folder / "quick.yaml").write_text("base: a100\nreached: {operator_ns: 0}\n")
        result = evenflow(
            "auto", *WORK, "--accelerator", "quick.yaml", "--mesh", "2x2", "--memory", "1GB", *RATES, *NO_LATENCIES,
            "--microbatch", "4", "--json", "plan.json",
        )  # fmt: skip
        assert (result.exit_code, result.stderr) == (0, "")
        found = json.loads((folder / "plan.json").read_text())
        devices = {tuple(stage["devices"]) for stage in found["stages"]}
        assert sorted(device for some in devices for device in some) == [0, 1, 2, 3]
        split = [one for one in found["shardings"] if any("S(" in two["placement"] for two in one["activations"])]
        assert {one["kind"] for one in split} == {0, 1, 2}
        assert " on mesh axis " not in result.stdout
        assert all(stage["words"] in result.stdout for stage in found["stages"])
        for stage in found["stages"]:
            # Times by when and by what are the same time, but for the update's part in either.
            ms = stage["forward_ms"] + stage["backward_ms"] + stage["update_ms"] / 4
            parts = stage["cost_ms"]
            what = parts["compute"] + parts["communication"] + parts["resharding"]
            assert ms == pytest.approx(what + (parts["gradient"] + parts["optimizer"]) / 4, abs=1e-5)
        for plan in found["alternatives"]:
            assert plan["lower_bound_ms"] <= plan["step_ms"]

    @pytest.mark.parametrize(
        ("overlap", "note"), [("none", "no communication"), ("tensor", "collectives under matrix")]
    )
    def test_what_overlaps_is_said(self, folder, model, evenflow, overlap, note):
        (folder / "quick.yaml").write_text("base: a100\nreached: {operator_ns: 0}\n")
        result = evenflow(
            "auto", *WORK, "--accelerator", "quick.yaml", "--mesh", "1x2", "--memory", "1GB", "--intra-bandwidth",
            "20GBps", "--intra-latency", "0s", "--json", "plan.json", "--overlap", overlap,
        )  # fmt: skip
        assert (result.exit_code, result.stderr) == (0, "")
        found = json.loads((folder / "plan.json").read_text())
        assert found["overlap"] == ([] if overlap == "none" else [overlap])
        hidden = [time_ms for stage in found["stages"] for time_ms in stage["hidden_ms"].values()]
        assert any(hidden) == (overlap != "none" and any(one["collectives"] for one in found["shardings"]))
        assert note in result.stdout

    def test_what_a_cluster_does_not_state_is_that_of_its_accelerator(self, folder, model, evenflow):
        (folder / "ours.yaml").write_text("base: a100\nmemory: 33GB\nlink: {bandwidth: 100GBps}\n")
        result = evenflow("auto", *WORK, "--mesh", "1x2", "--accelerator", "ours.yaml", "--json", "plan.json")
        assert (result.exit_code, result.stderr) == (0, "")
        intra, _ = usual_links(accelerator_given("ours.yaml"))
        found = json.loads((folder / "plan.json").read_text())["cluster"]
        assert (found["memory_mb"], found["intra_bytes_per_s"]) == (33 * 1024, intra.bytes_per_s)
        assert (found["intra_start_ns"], found["intra_latency_ns"]) == (intra.start_ns, intra.latency_ns)
        assert "note: as ours has them: memory 33GB; links inside a node " in result.stdout
        assert "between nodes" not in result.stdout

    def test_a_model_that_does_not_fit(self, folder, model, evenflow):
        cluster = ("--mesh", "1x2", *RATES, *LATENCIES)
        result = evenflow("auto", *WORK, *cluster, "--memory", "1MB", "--json", "no.json")
        assert (result.exit_code, result.stdout) == (3, "")
        assert result.stderr.startswith("infeasible: the model does not fit on cluster, however it is cut and sharded")
        found = json.loads((folder / "no.json").read_text())
        assert found["status"] == "infeasible"
        needed = math.ceil(found["smallest_memory_mb"])
        assert f"it would with {needed:,} MB a device" in result.stderr
        again = evenflow("auto", *WORK, *cluster, "--memory", f"{needed}MB")
        assert again.exit_code == 0
        assert "stages" not in found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--mesh", "2x0", "--memory", "1GB", *RATES), "--mesh must be the number of nodes"),
        (("--memory", "1GB", *RATES), "--mesh must be given to describe a cluster"),
        (("--mesh", "1x2", "--memory", "lots"), "--memory must be a number"),
        (
            ("--mesh", "2x2", "--memory", "1GB", "--intra-bandwidth", "1GBps"),
            "inter-bandwidth must be at most the 1 GB/s inside a node",
        ),
        (("--mesh", "2x2", "--accelerator", "none.yaml"), "none.yaml: no such file"),
        (("--mesh", "1x2", "--memory", "1GB", "--intra-bandwidth", "200"), "--intra-bandwidth must be a number"),
        (("--mesh", "1x2", "--memory", "0GB", *RATES), "--memory must be above zero"),
        (
            ("--mesh", "2x2", "--memory", "1GB", "--intra-bandwidth", "1GBps", "--inter-bandwidth", "2GBps"),
            "inter-bandwidth must be at most the 1 GB/s inside a node, got '2 GB/s'",
        ),
        (("--mesh", "2000x2000", "--memory", "1GB", *RATES), "at most 1,000,000 devices"),
        (("--cluster", "cluster.yaml", "--mesh", "2x2"), "--mesh must not be given beside --cluster"),
        (("--cluster", "nowhere.yaml"), "nowhere.yaml"),
        (("--mesh", "1x1", "--memory", "1GB", "--json", "small.json"), "--json must not be the same file as --model"),
        (("--mesh", "1x1", "--overlap", "pipeline"), "--overlap must be some of tensor, gradients, parameters, separ"),
    ],
)
def test_bad_clusters_are_one_message(folder, model, evenflow, arguments, message):
    result = evenflow("auto", *WORK, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@needs_torch
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--accelerator", "h101"), "did you mean 'h100'?"),
        (("--efficiency", "1.5"), "efficiency must be a number from 0.0001 to 1"),
    ],
)
def test_bad_devices_are_one_message(folder, model, evenflow, arguments, message):
    result = evenflow("auto", *WORK, "--mesh", "1x1", "--memory", "1GB", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


@needs_torch
def test_a_global_batch_is_cut_into_microbatches(folder, model, evenflow):
    work = ("--model", "small.json", "--seq", "64", "--time-limit", "20", "--mesh", "1x2", "--memory", "1GB")
    result = evenflow("auto", *work, *RATES, *LATENCIES, "--global-batch", "4", "--json", "plan.json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads((folder / "plan.json").read_text())
    assert found["global_batch"] == found["microbatch"] * found["microbatches"] == 4
    assert [one["microbatch"] for one in found["microbatch_sizes"]] == [1, 2, 4]
    (chosen,) = [one for one in found["microbatch_sizes"] if one["microbatch"] == found["microbatch"]]
    assert chosen["outcome"] == "planned"
    assert chosen["step_ms"] == found["makespan_ms"]
    assert "sizes of a microbatch (4 sequences a step)" in result.stdout
    one_size = evenflow("auto", *work, *RATES, *LATENCIES, "--global-batch", "4", "--microbatch", "2")
    assert "2 microbatches of 2 x 64 tokens" in one_size.stdout
    assert "sizes of a microbatch" not in one_size.stdout


@needs_torch
def test_sequences_that_do_not_divide_are_told(folder, model, evenflow):
    result = evenflow("auto", *WORK, "--mesh", "1x3", "--memory", "1GB", *RATES, *LATENCIES, "--microbatch", "4")
    assert result.exit_code == 0
    assert "note: the 4 sequences of a microbatch do not divide over 3 devices" in result.stdout


@needs_torch
def test_a_limit_too_short_for_any_plan_is_one_message(folder, model, evenflow, monkeypatch):
    monkeypatch.setattr("evenflow_torch.auto.deadline.monotonic", SetClock(step=1.0))
    result = evenflow("auto", *WORK, "--mesh", "1x1", "--memory", "1GB", "--time-limit", "0.5")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the time limit must be enough seconds to trace the layers" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--global-batch must be given, or --microbatches"),
        (("--microbatch", "2"), "--global-batch must be given, or --microbatches"),
        (("--global-batch", "0"), "--global-batch must be an integer from 1"),
        (("--global-batch", "ten"), "--global-batch must be an integer from 1"),
        (("--global-batch", "10", "--microbatch", "4"), "--microbatch must divide the 10 sequences"),
        (("--global-batch", "10", "--microbatches", "4"), "--microbatches must divide the 10 sequences"),
        (("--global-batch", "8", "--microbatches", "4", "--microbatch", "4"), "4 x 4 = 16, got 8"),
    ],
)
def test_sizes_of_a_step_that_do_not_agree_are_one_message(folder, model, evenflow, arguments, message):
    result = evenflow("auto", "--model", "small.json", "--mesh", "1x1", "--memory", "1GB", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
