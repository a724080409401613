"""``evenflow predict``: what it prints and writes, and that `plan` takes on what it wrote."""

import json
import shlex
from itertools import pairwise

import pytest

from evenflow.model import Communication, Plan
from evenflow.profiles.layer_file import read_layer_file
from evenflow.simulate import simulate
from tests.networks import SMALL_LLAMA

GPT = (
    "predict",
    "--hidden",
    1024,
    "--layers",
    8,
    "--heads",
    16,
    "--vocab",
    32000,
    "--accelerator",
    "a100",
    "--seq",
    1024,
)
SPLIT = (*GPT, "--global-batch", 32, "--gpus", 16, "--tensor", 2, "--pipeline", 4)
ONE_NODE = ("--gpus-per-node", 16)
"""All messages between ranks take as long: the printed command has one time for them, the longest."""


def test_prints_time_and_memory(evenflow):
    result = evenflow(*SPLIT, "--recompute", "selective", "--gpus-per-node", 8)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].endswith("bf16 on 16 x a100-80")
    assert lines[1:3] == [
        "tensor 2, pipeline 4, data 2",
        "16 microbatches of 1 x 1,024 tokens, 1f1b, recompute core_attn",
    ]
    assert any(line.startswith("step ") for line in lines)
    assert "docs/accuracy.md" in lines[-1]
    assumed = result.stdout[result.stdout.index("assumed: ") :]
    assert "--precision=bf16" in assumed
    assert "--zero=1" in assumed
    assert "--recompute" not in assumed
    assert "--gpus-per-node" not in assumed


def test_one_device_needs_nothing_but_a_model(evenflow):
    result = evenflow(*GPT, "--global-batch", 1)
    assert result.exit_code == 0
    assert "\ntensor 1, pipeline 1, data 1\n" in result.stdout
    assert "--zero" not in result.stdout


def test_the_copies_follow_from_the_devices(evenflow, folder):
    told = evenflow(*SPLIT, "--data", 2)
    follows = evenflow(*SPLIT)
    assert told.stdout == follows.stdout


def test_json_has_what_the_text_has(evenflow, folder):
    result = evenflow(*SPLIT, "--json", "p.json", "--memory", "80GB")
    assert result.exit_code == 0
    assert result.stdout.endswith("\nwrote p.json\n")
    found = json.loads((folder / "p.json").read_text())
    assert f"step {found['step_ms']:,.1f} ms" in result.stdout
    assert f"{found['tokens_per_s_per_device']:,.1f} tokens/s per device" in result.stdout
    assert found["memory_limit_mb"] == 80 * 1024
    assert found["fits"] is True
    assert (found["tensor"], found["pipeline"], found["data"], found["devices"]) == (2, 4, 2, 16)


def test_memory_that_is_exceeded(evenflow, folder):
    result = evenflow(*SPLIT, "--memory", "64MB", "--json", "p.json")
    assert result.exit_code == 3
    assert "over the limit of 0.1 GB" in result.stdout
    assert "no change of one or two settings fits on as many devices: use more devices" in result.stdout
    found = json.loads((folder / "p.json").read_text())
    assert (found["fits"], found["smallest_change"]) == (False, None)


@pytest.mark.parametrize("share", [0.9, 0.8, 0.7])
def test_the_printed_change_fits_and_takes_as_long_as_it_says(evenflow, folder, share):
    """The options, added to the command line or in the place of those there, are the step that was promised."""
    asked = (*SPLIT, "--microbatch", 2, "--json", "p.json", "--overwrite")
    evenflow(*asked)
    memory = json.loads((folder / "p.json").read_text())["memory"]
    driver = memory[0]["parts_mb"]["driver and communicators"]
    peak = max(one["total_mb"] for one in memory)
    limit = ("--memory", f"{int(driver + share * (peak - driver))}MB")
    refused = evenflow(*asked, *limit)
    assert refused.exit_code == 3
    change = json.loads((folder / "p.json").read_text())["smallest_change"]
    assert f"the smallest change that fits: {', '.join(change['options'])}" in refused.stdout
    again = evenflow(*asked, *limit, *(word for option in change["options"] for word in option.split()))
    assert again.exit_code == 0, again.output
    found = json.loads((folder / "p.json").read_text())
    assert found["step_ms"] == change["step_ms"]
    assert max(one["total_mb"] for one in found["memory"]) == change["peak_mb"]
    assert found["smallest_change"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tensor", 16, "--gpus", 64), ""),
        (("--tensor", 3, "--gpus", 12), "--tensor must divide the heads (16), got 3; use 2"),
        (("--global-batch", 31), "--global-batch must be a multiple of data x microbatch (2 x 1), got 31; use 32"),
        (
            ("--pipeline", 8, "--chunks", 3, "--no-empty"),
            "--chunks must be such that pipeline x chunks (24) divides the 8 layers",
        ),
        (("--seq", 1023), "--seq must be a multiple of tensor x context (2), got 1023; use 1,024"),
        (("--precision", "fp8"), "--precision must be a format that a100-80 computes in, got 'fp8'"),
        (("--expert", 2), "--expert must be 1 for a model without experts, got 2; leave it out"),
        (("--recompute", "selective", "--recompute-modules", "mlps"), "did you mean 'mlp'?"),
    ],
)
def test_settings_that_cannot_be_are_named_by_their_options(evenflow, options, message):
    result = evenflow(*SPLIT, *options)
    assert result.exit_code == (2 if message else 0), result.output
    assert message in result.stderr
    assert result.stderr.count("\n") == (1 if message else 0)


def test_a_kind_that_saves_nothing_is_written_where_it_is_asked_for(evenflow, folder):
    evenflow(*SPLIT, *ONE_NODE, "--recompute", "selective", "-o", "layers.json")
    network = read_layer_file(folder / "layers.json")
    assert set(network.kinds) == {"none", "select", "full"}
    kept = {layer.modes[kind].activation_bytes for layer in network.layers for kind in ("none", "select")}
    assert len(kept) == 1


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--chunks", 2),
        ("--chunks", 2, "--recompute", "full"),
        ("--recompute", "selective", "--attention", "unfused"),
        ("--schedule", "zbv"),
        ("--chunks", 2, "--group-size", 8),
        ("--layers-per-rank", "1,2,2,3"),
        ("--experts", 8, "--expert", 4, "--expert-ffn", 512),
        ("--gpus-per-node", 8),
        ("--overlap", "none"),
    ],
)
def test_the_layer_file_gives_the_same_pipeline(evenflow, folder, options):
    """Written, read back and simulated with the messages of the printed command, it takes what was predicted."""
    result = evenflow(*SPLIT, *ONE_NODE, *options, "-o", "layers.json", "--json", "p.json")
    assert result.exit_code == 0, result.output
    found = json.loads((folder / "p.json").read_text())
    network = read_layer_file(folder / "layers.json")
    saves = "unfused" in options  # fused attention keeps nothing that select could drop
    assert set(network.kinds) == {"none", "full", *(["select"] if saves else [])}
    words = shlex.split(found["plan_command"])
    message = next((word for before, word in pairwise(words) if before == "--p2p-latency"), "0ns")
    layers = tuple(map(tuple, found["layers"]))
    kind = found["recompute"]
    usual = "interleaved" if len(layers) > 1 else "1f1b"
    plan = Plan(
        schedule=words[words.index("--schedule") + 1] if "--schedule" in words else usual,
        num_microbatches=found["microbatches"],
        layers=layers,
        group_size=int(words[words.index("--group-size") + 1]) if "--group-size" in words else None,
        recompute={} if kind == "none" else {kind: layers},
    )
    simulation = simulate(network, plan, communication=Communication(latency_ns=int(message.removesuffix("ns"))))
    assert simulation.makespan_ns / 1e6 == found["plan_pipeline_ms"]
    alike = not {"--gpus-per-node", "--overlap"} & set(options)
    assert (found["plan_pipeline_ms"] == found["pipeline_ms"]) is alike
    for peak, rank in zip(simulation.peak_memory_bytes, found["memory"], strict=True):
        assert peak / 2**20 <= rank["total_mb"]


@pytest.mark.parametrize(
    "options", [("--recompute", "full"), ("--chunks", 2, "--memory", "8GB"), ("--gpus-per-node", 8)]
)
def test_the_printed_command_plans_a_step_that_is_not_longer(evenflow, folder, options):
    result = evenflow(*SPLIT, *ONE_NODE, *options, "-o", "layers.json", "--json", "p.json")
    assert result.exit_code == 0, result.output
    found = json.loads((folder / "p.json").read_text())
    assert found["plan_command"] in result.stdout.splitlines()
    words = shlex.split(found["plan_command"])
    assert words[0] == "evenflow"
    planned = evenflow(*words[1:], "--time-limit", 5, "--json", "plan.json")
    assert planned.exit_code == 0, planned.output
    assert json.loads((folder / "plan.json").read_text())["makespan_ms"] <= found["plan_pipeline_ms"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--gpus", 12), "--gpus must be a multiple of tensor x pipeline x context = 8, got 12"),
        (("--data", 3), "--gpus must be tensor x pipeline x context x data = 24, got 16"),
        (("--heads", 24), "heads must divide the hidden size (1024), or their width must be given"),
        (("--model", "none.json"), "--hidden must not be given beside --model, which says it, got 1024"),
        (("--kv-heads", 3), "kv_heads must divide the 16 heads"),
        (("--active-experts", 2), "--active-experts must come with --experts, got 2"),
        (("--experts", 4), "--expert-ffn must be given with --experts"),
        (("--expert-capacity", 1.5), "--expert-capacity must not be given for a model without experts, got 1.5"),
        (("--expert-capacity", 0.5), "--expert-capacity must be a number from 1 to 1,000, got 0.5"),
        (("--experts", 4, "--expert-ffn", 64, "--active-experts", 5), "must be from 1 to the 4 experts"),
        (("--accelerator", "none.yaml"), "cannot read none.yaml: no such file"),
        (("--group-size", 4), "--group-size must not be given for 1f1b, which has no groups of microbatches"),
        (("--chunks", 2, "--group-size", 3), "--group-size must be"),
        (("--recompute-modules", "mlp"), "--recompute-modules must come with --recompute selective"),
        (("--recompute", "selective", "--recompute-layers", 1), "--recompute-layers must come with --recompute full"),
        (("--overlap", "tensor,everything"), "--overlap must be some of tensor, gradients"),
        (("--layers-per-rank", "2,2,2,3"), "--layers-per-rank must"),
        (("--layers-per-rank", "2,2,4"), "--layers-per-rank must have a number for each of the 4 ranks"),
        (("--accelerator", "h10"), "did you mean 'h100'"),
        (("--schedule", "1f2b"), "schedule must be one of"),
        (("--schedule", "zbv", "--chunks", 3), "chunks must be 2 per rank for zbv"),
        (("--memory", "much"), "--memory must be a number with one of the units"),
        (("--seq", 0), "--seq must be an integer from 1 to 10,000,000"),
        (("--global-batch", "many"), "--global-batch must be an integer"),
        (("--zero", 4), "'4' is not one of"),
        (("--optimizer-offload", 0.5), "--optimizer-offload must come with --host-link"),
        (("--optimizer-offload", 2, "--host-link", "5GBps"), "--optimizer-offload must be a number from 0 to 1"),
        (("--host-link", "5GBps"), "--host-link must come with --optimizer-offload"),
        (("--optimizer-offload", 1, "--host-link", "fast"), "--host-link must be a number with K, M, G or T"),
    ],
)
def test_bad_input_is_one_message(evenflow, options, message):
    result = evenflow(*SPLIT, *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


LLAMA = ("predict", "--model", "small.json", "--accelerator", "h100", "--seq", 64, "--global-batch", 16)


def test_the_model_of_a_configuration(evenflow, folder):
    (folder / "small.json").write_text(json.dumps(SMALL_LLAMA))
    result = evenflow(*LLAMA, "--pipeline", 2, "--json", "p.json")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("small: 4 layers, 0.0 billion parameters, bf16 on 2 x h100\n")
    found = json.loads((folder / "p.json").read_text())
    assert found["parameters"] == 2 * 320 * 64 + 64 + 4 * (2 * 64 + 64 * (2 * 64 + 2 * 32 + 3 * 160))


def test_a_configuration_from_standard_input(evenflow, folder):
    result = evenflow(*LLAMA, "--model", "-", stdin=json.dumps(SMALL_LLAMA))
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("standard input: 4 layers")


def test_a_configuration_that_is_none(evenflow, folder):
    (folder / "small.json").write_text("[]")
    result = evenflow(*LLAMA)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: small.json must be an object of named fields")
    assert result.stderr.count("\n") == 1


def test_a_file_that_is_read_is_not_written(evenflow, folder):
    (folder / "small.json").write_text(json.dumps(SMALL_LLAMA))
    result = evenflow(*LLAMA, "-o", "small.json", "--overwrite")
    assert result.exit_code == 2
    assert "--output must not be the same file as --model" in result.stderr
    assert json.loads((folder / "small.json").read_text()) == SMALL_LLAMA


def test_an_accelerator_of_ones_own(evenflow, folder):
    (folder / "small.json").write_text(json.dumps(SMALL_LLAMA))
    (folder / "ours.yaml").write_text("name: ours\nbase: h100\nmemory: 40GB\n")
    result = evenflow(*LLAMA, "--accelerator", "ours.yaml")
    assert result.exit_code == 0, result.stderr
    assert "bf16 on 1 x ours" in result.stdout
    assert " of 40.0 GB on rank 0" in result.stdout


def test_what_was_assumed_of_the_model_is_said(evenflow):
    words = " ".join(evenflow(*SPLIT).stdout.split())
    assert "of the model: a head is 64 wide: the hidden size by the heads; the MLP is 4096 wide" in words


def test_a_device_without_bf16_trains_in_fp16(evenflow):
    result = evenflow(*SPLIT, "--accelerator", "v100")
    assert result.exit_code == 0, result.stderr
    assert " fp16 on 16 x v100-32" in result.stdout
    assert "--precision=fp16" in result.stdout
    assert "--precision" not in evenflow(*SPLIT, "--accelerator", "v100", "--precision", "bf16").stdout


@pytest.mark.parametrize(
    ("layers", "cut", "is_said"), [(6, [1, 2, 2, 1], True), (8, [2, 2, 2, 2], False), (14, [3, 4, 4, 3], True)]
)
def test_layers_that_divide_with_the_ends_are_dealt_so(evenflow, folder, layers, cut, is_said):
    result = evenflow(*SPLIT, "--layers", layers, "--json", "p.json")
    assert result.exit_code == 0, result.stderr
    assert json.loads((folder / "p.json").read_text())["layers"] == [cut]
    assert ("embedding and loss count as a layer each" in " ".join(result.stdout.split())) is is_said


@pytest.mark.parametrize(("layers", "cut"), [(9, [2, 2, 3, 2]), (11, [3, 3, 3, 2]), (61, [15, 15, 16, 15])])
def test_layers_that_do_not_divide_are_dealt_fairly_which_a_note_says(evenflow, folder, layers, cut):
    result = evenflow(*SPLIT, "--layers", layers, "--json", "p.json")
    assert result.exit_code == 0, result.stderr
    assert json.loads((folder / "p.json").read_text())["layers"] == [cut]
    note = f"{layers} layers do not divide by 4: ranks have {','.join(map(str, cut))}; --layers-per-rank has others"
    assert note in " ".join(result.stdout.split())


def test_fewer_layers_than_cells_can_be_refused(evenflow):
    result = evenflow(*SPLIT, "--layers", 3, "--no-empty")
    assert result.exit_code == 2
    assert "--pipeline must be such that pipeline x chunks (4) divides the 3 layers" in result.stderr


def test_the_time_is_that_of_the_rank_that_waits_least(evenflow, folder):
    """Of one layer more than the others have, on rank 2."""
    result = evenflow(*SPLIT, "--layers", 8, "--vocab", 128, "--layers-per-rank", "1,1,5,1", "--json", "p.json")
    assert result.exit_code == 0, result.stderr
    assert "time of rank 2" in result.stdout
    written = json.loads((folder / "p.json").read_text())
    assert written["time_rank"] == 2
    assert min(written["idle_ms"]) == written["idle_ms"][2]
    assert sum(part["exposed_ms"] for part in written["time"]) == pytest.approx(written["step_ms"])
    assert "ranks wait " in result.stdout


@pytest.mark.parametrize("missing", ["--hidden", "--layers", "--heads", "--vocab"])
def test_a_number_that_is_missing_is_named(evenflow, missing):
    words = list(map(str, SPLIT))
    at = words.index(missing)
    result = evenflow(*words[:at], *words[at + 2 :])
    assert result.exit_code == 2
    assert f"{missing} must be given where no --model is; add it, or --model CONFIG.json" in result.stderr


def test_the_capacity_of_experts_bounds_time_and_memory(evenflow, folder):
    def found(*options):
        arguments = ("--experts", 8, "--expert-ffn", 4096, "--expert", 4, *options)
        result = evenflow(*SPLIT, *arguments, "--json", "p.json", "--overwrite")
        assert (result.exit_code, result.stderr) == (0, "")
        fields = json.loads((folder / "p.json").read_text())
        return fields["step_ms"], max(one["total_mb"] for one in fields["memory"]), fields["expert_capacity"]

    free, *limited = (found(*options) for options in ((), *(("--expert-capacity", one) for one in (1, 1.25, 2, 4, 8))))
    assert [one[2] for one in (free, *limited)] == [None, 1, 1.25, 2, 4, 8]
    least, usual, double, most, more = limited
    assert least[0] == free[0] < usual[0] < double[0] < most[0]
    assert least[1] < usual[1] == free[1] < double[1] < most[1]
    assert more[:2] == most[:2], "no expert gets more than every token once"


def test_a_slower_network_takes_longer_and_holds_as_much(evenflow, folder):
    found = []
    for network in ((), ("--network", "50Gbps"), ("--network", "200Gbps")):
        assert evenflow(*SPLIT, *network, "--json", "p.json", "--overwrite").exit_code == 0
        found.append(json.loads((folder / "p.json").read_text()))
    usual, slow, same = found
    assert slow["step_ms"] > usual["step_ms"]
    assert same["step_ms"] == usual["step_ms"], "what an A100 usually has"
    assert slow["memory"] == usual["memory"]
    refused = evenflow(*SPLIT, "--network", "fast")
    assert refused.exit_code == 2
    assert "--network" in refused.stderr


def test_how_sure_it_fits_follows_from_the_memory(evenflow, folder):
    """With exactly what is needed it is about as likely as not, with twice as much nearly sure."""
    evenflow(*SPLIT, "--json", "p.json")
    (memory, *_rest) = json.loads((folder / "p.json").read_text())["memory"]
    driver = memory["parts_mb"]["driver and communicators"]
    chances = []
    for times in (1.0, 2.0):
        limit = f"{round(driver + times * (memory['total_mb'] - driver)) + 1}MB"
        evenflow(*SPLIT, "--memory", limit, "--json", "q.json", "--overwrite")
        chances.append(json.loads((folder / "q.json").read_text())["fits_probability"])
    assert 0.3 < chances[0] < 0.7
    assert chances[1] > 0.99
