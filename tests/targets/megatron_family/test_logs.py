"""Logs of Megatron-LM and its relatives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.predict.stated_software import stated_software
from evenflow.profiles.measured.layouts import layout_of
from evenflow.profiles.measured.logs.log_file import LoggedRun, parse_log
from evenflow.profiles.measured.logs.log_format import LoggedStep, PeakOf
from evenflow.profiles.measured.run import MeasuredRun
from evenflow.profiles.measured.settings import settings_of
from evenflow.targets.megatron_family.logs import MEGATRON, MEGATRON_BRIDGE
from evenflow.targets.registry import log_formats
from tests.profiles.measured.logs.written import LLAMA, arguments, bridge_memory, iteration, memory


def parsed(lines: list[str]) -> LoggedRun:
    return parse_log([line + "\n" for line in lines], place="log", formats=log_formats())


@given(
    st.integers(min_value=1, max_value=10**9),
    st.floats(min_value=0.1, max_value=1e7),
    st.integers(min_value=1, max_value=10**6),
    st.one_of(st.none(), st.floats(min_value=0.1, max_value=3000)),
    st.sampled_from(["", "0: ", "[lrdn3321:3]:"]),
)
def test_a_line_of_progress_reads_back(
    number: int, time_ms: float, batch: int, tflops: float | None, prefix: str
) -> None:
    step = MEGATRON.step(prefix + iteration(number, time_ms, batch=batch, tflops=tflops) + "\n")
    assert step == LoggedStep(
        number=number,
        time_s=float(f"{time_ms:.1f}") / 1000,
        tflops=None if tflops is None else float(f"{tflops:.1f}"),
        batch=batch,
    )


@pytest.mark.parametrize(
    ("line", "time_s", "tflops"),
    [
        # Megatron-DeepSpeed
        (
            " iteration        2/  317892 | consumed samples:          192 | consumed tokens:       786432 | elapsed "
            "time per iteration (ms): 20305.6 | learning rate: 3.000E-04 | global batch size:    96 | lm loss: 1E+1 | "
            "samples per second: 4.728 | tokens per gpu per second(tgs): 806.870 | TFLOPs: 49.15 |",
            20.3056,
            49.15,
        ),
        # Primus: the value of this line, and a mean
        (
            " iteration       10/      50 | elapsed time per iteration (ms): 35000.0/35123.4 | hip mem usage/free/"
            "total/usage_ratio: 205.00GB/83.00GB/288.00GB/71.18% | throughput per GPU (TFLOP/s/GPU): 275.7/274.1 |",
            35.0,
            275.7,
        ),
        # 2019
        (" iteration      100/  320000 | elapsed time per iteration (ms): 634.5 | learning rate 1E-04 |", 0.6345, None),
    ],
)
def test_relatives_write_alike(line: str, time_s: float, tflops: float | None) -> None:
    step = MEGATRON.step(line)
    assert step is not None
    assert (step.time_s, step.tflops) == (pytest.approx(time_s), tflops)


def test_lines_that_are_no_progress() -> None:
    for line in (
        "elapsed time per iteration (ms): 3.0",
        " iteration 3/5 | lm loss: 3 |",
        "iteration a/b | elapsed",
        "",
    ):
        assert MEGATRON.step(line) is None
    nan = MEGATRON.step(" iteration  3/  5 | elapsed time per iteration (ms): nan |")
    assert nan is not None
    assert nan.time_s is not None
    assert nan.time_s != nan.time_s


def test_bridges_first_rank_prints_step_times() -> None:
    step = MEGATRON_BRIDGE.step("Step Time : 9.70s GPU utilization: 612.5MODEL_TFLOP/s/GPU")
    assert step == LoggedStep(number=None, time_s=9.7, tflops=612.5)


def test_peaks_of_ranks_in_both_units_and_of_the_device() -> None:
    run = parsed([memory(0, 1024.0, 2048.0), memory(0, 512.0, 2048.0), bridge_memory(8, 2.147483648, 3.5)])
    assert run.peaks == {PeakOf.ALLOCATED: {0: 2**30, 8: 2**31}}
    primus = " iteration 1/5 | hip mem usage/free/total/usage_ratio: 205.00GB/83.00GB/288.00GB/71.18% |"
    assert parsed([primus]).peaks == {PeakOf.DEVICE: {None: 205 * 2**30}}


def fields(changes: dict[str, object] | None = None, *, more: tuple[str, ...] = ()) -> dict[str, object]:
    run = parsed([*arguments(LLAMA | (changes or {})), *more])
    return {name: value for name, value in MEGATRON.fields(run.stated).items() if value is not None}


def test_the_configuration_of_a_llama() -> None:
    assert fields(more=(" > padded vocab (size: 128256) with 64 dummy tokens (new size: 128320)",)) == {
        "gpus": 16, "hidden": 4096, "ffn": 14336, "layers": 32, "heads": 32, "kv_heads": 8, "head_dim": 128,
        "vocab": 128256, "seq": 8192, "gated_mlp": True, "tied_embeddings": False, "precision": "bf16", "tp": 2,
        "cp": 1, "ep": 1, "dp": 4, "pp": 2, "vpp": 1, "sequence_parallel": True, "zero": "distopt", "mbs": 1,
        "gbs": 128, "recompute": "none", "overlap_flags": "overlap_grad_reduce=True",
    }  # fmt: skip


SIZES = {
    "hidden_size": "hidden", "ffn_hidden_size": "ffn", "num_layers": "layers", "num_attention_heads": "heads",
    "num_query_groups": "kv_heads", "kv_channels": "head_dim", "seq_length": "seq", "num_experts": "experts",
    "moe_router_topk": "active_experts", "moe_ffn_hidden_size": "expert_ffn", "mtp_num_layers": "mtp_layers",
    "tensor_model_parallel_size": "tp", "context_parallel_size": "cp", "expert_model_parallel_size": "ep",
    "data_parallel_size": "dp", "pipeline_model_parallel_size": "pp", "virtual_pipeline_model_parallel_size": "vpp",
    "micro_batch_size": "mbs", "global_batch_size": "gbs", "world_size": "gpus", "vocab_size": "vocab",
}  # fmt: skip
"""Fields of a run by the arguments that they are."""


@given(
    st.fixed_dictionaries({name: st.integers(1, 10**9) for name in SIZES}),
    st.sampled_from(["", "0: ", "[default0]:", "[rank0]: "]),
    st.permutations(sorted(SIZES)),
)
def test_any_sizes_read_back(sizes: dict[str, int], prefix: str, order: list[str]) -> None:
    lines = arguments({name: sizes[name] for name in order} | {"group_query_attention": True})
    found = MEGATRON.fields(parsed([prefix + line for line in lines]).stated)
    assert {name: found[name] for name in SIZES.values()} == {SIZES[name]: size for name, size in sizes.items()}
    as_yaml = [f"    {name}: {sizes[name]}" for name in order]
    assert MEGATRON.fields(parsed(as_yaml).stated).items() >= {SIZES[name]: sizes[name] for name in order}.items()


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"group_query_attention": False, "num_query_groups": 1}, {"kv_heads": 32}),
        ({"num_experts": 64, "moe_router_topk": 6, "moe_ffn_hidden_size": 1408}, {"experts": 64, "active_experts": 6}),
        (
            {"num_experts": 8, "moe_ffn_hidden_size": 1408, "moe_shared_expert_intermediate_size": 2816},
            {"expert_ffn": 1408, "notes": "moe-shared-expert-intermediate-size=2816"},
        ),
        ({"num_experts": 8, "moe_ffn_hidden_size": None}, {"expert_ffn": 14336}),
        ({"bf16": False, "fp16": True}, {"precision": "fp16"}),
        ({"bf16": False}, {"precision": "fp32"}),
        ({"fp8": "hybrid"}, {"precision": "fp8"}),
        ({"fp8": "e4m3", "fp4": "e2m1"}, {"precision": "nvfp4"}),
        ({"virtual_pipeline_model_parallel_size": 4}, {"vpp": 4}),
        ({"num_layers_per_virtual_pipeline_stage": 4}, {"vpp": 4}),
        ({"use_distributed_optimizer": False}, {"zero": "0"}),
        ({"use_distributed_optimizer": False, "zero_stage": 1}, {"zero": "1"}),
        ({"use_torch_fsdp2": True}, {"zero": "fsdp"}),
        ({"use_megatron_fsdp": True, "data_parallel_sharding_strategy": "optim"}, {"zero": "distopt"}),
        (
            {"recompute_granularity": "full", "recompute_method": "block", "recompute_num_layers": 3},
            {"recompute": "full", "recompute_detail": "recompute_method=block recompute_num_layers=3"},
        ),
        # groups of three layers, all of which are computed again
        ({"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 3}, {
            "recompute": "full", "recompute_detail": None
        }),
        (
            {"recompute_granularity": "selective", "recompute_modules": ["core_attn", "moe_act"]},
            {"recompute": "selective", "recompute_detail": "recompute_modules=[core_attn moe_act]"},
        ),
        ({"recompute_granularity": None, "checkpoint_activations": True}, {"recompute": "full"}),
        ({"pipeline_model_parallel_layout": "Et*15|t*17L"}, {"layout": "Et*15|t*17L"}),
        ({"decoder_first_pipeline_num_layers": 15}, {"layout": "first=15 last=17"}),
        ({"decoder_first_pipeline_num_layers": 6, "decoder_last_pipeline_num_layers": 8,
          "pipeline_model_parallel_size": 4}, {"layout": "first=6 last=8"}),
        ({"num_layers_in_last_pipeline_stage": 2, "pipeline_model_parallel_size": 4}, {"layout": "first=10 last=2"}),
        (
            {"account_for_embedding_in_pipeline_split": True, "account_for_loss_in_pipeline_split": True},
            {"layout": "embedding and loss count as one layer each"},
        ),
        ({"tp_comm_overlap": True, "cuda_graph_impl": "local"}, {
            "overlap_flags": "tp_comm_overlap=True, overlap_grad_reduce=True, cuda_graph_impl='local'"
        }),
        ({"untie_embeddings_and_output_weights": False}, {"tied_embeddings": True}),
    ],
)  # fmt: skip
def test_other_configurations(changes: dict[str, object], wanted: dict[str, object]) -> None:
    found = fields(changes)
    assert {name: found.get(name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("changes", "software"),
    [
        ({"overlap_grad_reduce": False, "overlap_param_gather": False},
         "overlap_grad_reduce=False, overlap_param_gather=False"),
        ({"num_experts": 8, "moe_token_dispatcher_type": "flex", "moe_flex_dispatcher_backend": "hybridep"},
         "overlap_grad_reduce=True, moe_token_dispatcher_type='flex', moe_flex_dispatcher_backend='hybridep'"),
        ({"moe_token_dispatcher_type": "alltoall"}, "overlap_grad_reduce=True"),
        ({"fp8": "hybrid", "fp8_recipe": "blockwise", "fp8_param_gather": True},
         "overlap_grad_reduce=True, fp8_recipe='blockwise', fp8_param_gather=True"),
        ({"fp8_recipe": "delayed"}, "overlap_grad_reduce=True"),
        ({"use_tp_pp_dp_mapping": True, "enable_cuda_graph": True},
         "overlap_grad_reduce=True, enable_cuda_graph=True, use_tp_pp_dp_mapping=True"),
    ],
)  # fmt: skip
def test_what_the_software_does_is_told_in_words_that_are_read_again(changes: dict[str, object], software: str) -> None:
    found = fields(changes)
    assert found["overlap_flags"] == software
    stated_software(software, place="here")


def test_what_no_field_has_is_a_setting_in_the_notes() -> None:
    deepseek = {
        "num_experts": 256, "moe_ffn_hidden_size": 2048, "moe_layer_freq": [0] * 3 + [1] * 58,
        "moe_shared_expert_intermediate_size": 2048, "multi_latent_attention": True, "qk_head_dim": 128,
        "kv_channels": 56, "transformer_impl": "transformer_engine", "attention_backend": "AttnBackend.flash",
        "position_embedding_type": "rope", "add_bias_linear": False, "expert_tensor_parallel_size": 1,
    }  # fmt: skip
    found = fields(deepseek)
    assert found["head_dim"] == 128
    settings = settings_of(MeasuredRun(id="a", source="a", ref="a", notes=str(found["notes"])))
    assert (settings.dense_layers, settings.shared_ffn, settings.expert_tensor) == (3, 2048, 1)
    assert (settings.is_megatron, settings.fused_attention, settings.latent(128) is not None) == (True, True, True)
    assert settings.is_on("disable-bias-linear")
    assert settings.values["position-embedding-type"] == "rope"
    for layers in ([0, 1, 0, 1], [1, 1], 1, 2, [0, 0]):
        assert (
            settings_of(
                MeasuredRun(
                    id="a", source="a", ref="a", notes=str(fields(deepseek | {"moe_layer_freq": layers})["notes"])
                )
            ).dense_layers
            == 0
        )


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({"decoder_first_pipeline_num_layers": 15}, ((15, 17),)),
        ({"num_layers_in_last_pipeline_stage": 2, "pipeline_model_parallel_size": 4}, ((10, 10, 10, 2),)),
        ({"pipeline_model_parallel_layout": "Et*15|t*17L"}, ((15, 17),)),
        (
            {"account_for_embedding_in_pipeline_split": True, "account_for_loss_in_pipeline_split": True,
             "num_layers": 30}, ((15, 15),)
        ),
    ],
)  # fmt: skip
def test_a_layout_is_understood(changes: dict[str, object], counts: tuple[tuple[int, ...], ...]) -> None:
    found = fields(changes)
    numbers = {name: found[name] for name in ("layers", "pp", "vpp")}
    run = MeasuredRun(id="a", source="a", ref="a", layout=str(found["layout"]), **numbers)  # type: ignore[arg-type]
    assert layout_of(run) == counts


def test_what_is_not_printed_is_not_stated() -> None:
    found = MEGATRON.fields(parsed(["  hidden_size ............ 512"]).stated)
    assert {name: value for name, value in found.items() if value is not None} == {"hidden": 512}


def test_settings_of_bridge_in_yaml() -> None:
    text = """
ddp:
  overlap_grad_reduce: true
  use_distributed_optimizer: true
mixed_precision:
  bf16: true
  fp8: null
model:
  _target_: megatron.bridge.models.llama.Llama3ModelProvider8B
  gated_linear_unit: true
  num_attention_heads: 32
  num_layers: 32
  num_moe_experts: null
  num_query_groups: 8
  share_embeddings_and_output_weights: false
  tensor_model_parallel_size: 2
train:
  global_batch_size: 128
  micro_batch_size: 1
"""
    found = MEGATRON_BRIDGE.fields(parsed(text.split("\n")).stated)
    wanted = {"layers": 32, "kv_heads": 8, "tp": 2, "gbs": 128, "mbs": 1, "precision": "bf16", "zero": "distopt"}
    assert {name: found[name] for name in wanted} == wanted
    assert (found["gated_mlp"], found["tied_embeddings"], found["experts"]) == (True, False, None)
