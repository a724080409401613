"""The configuration of a run by the names of Megatron-LM's arguments, which what is built on it uses too.

[Megatron-LM, megatron/training/arguments.py, core 0.6 to 0.14; Megatron-Bridge, `ConfigContainer.print_yaml`; NeMo,
`OmegaConf.to_yaml` of the experiment]
"""

from collections.abc import Mapping

from evenflow.predict.stated_software import SETTINGS
from evenflow.profiles.measured.logs.stated import Stated

_ON_UNASKED = ("overlap_grad_reduce", "overlap_param_gather", "overlap_p2p_comm")
"""Settings of software that a run is taken to have on, so that it also counts where they are off."""
_OF_EXPERTS = ("moe_token_dispatcher_type", "moe_flex_dispatcher_backend", "moe_enable_deepep")
_FIRST = ("decoder_first_pipeline_num_layers", "num_layers_in_first_pipeline_stage")
_LAST = ("decoder_last_pipeline_num_layers", "num_layers_in_last_pipeline_stage")
_ENDS = {"embedding": "account_for_embedding_in_pipeline_split", "loss": "account_for_loss_in_pipeline_split"}
_SETTINGS = (
    "transformer_impl", "attention_backend", "position_embedding_type", "multi_latent_attention",
    "moe_shared_expert_intermediate_size",
)  # fmt: skip
_FULLY_SHARDED = ("use_torch_fsdp2", "use_megatron_fsdp", "use_custom_fsdp")
_SIZES: Mapping[str, tuple[str, ...]] = {
    "gpus": ("world_size",), "hidden": ("hidden_size",), "ffn": ("ffn_hidden_size",),
    "layers": ("num_layers", "encoder_num_layers"), "heads": ("num_attention_heads",),
    "vocab": ("vocabulary before padding", "vocab_size", "padded_vocab_size"),
    "seq": ("seq_length", "encoder_seq_length"), "experts": ("num_experts", "num_moe_experts"),
    "active_experts": ("moe_router_topk",), "expert_ffn": ("moe_ffn_hidden_size",), "mtp_layers": ("mtp_num_layers",),
    "tp": ("tensor_model_parallel_size",), "cp": ("context_parallel_size",), "ep": ("expert_model_parallel_size",),
    "dp": ("data_parallel_size",), "pp": ("pipeline_model_parallel_size",), "mbs": ("micro_batch_size",),
    "gbs": ("global_batch_size",),
}  # fmt: skip
"""Names of a field of a run, the first of which that is stated counts; those with blanks are of sentences."""
NAMES = frozenset(
    (
        *SETTINGS, *_FIRST, *_LAST, *_ENDS.values(), *_FULLY_SHARDED,
        *_SETTINGS, *(name for names in _SIZES.values() for name in names if " " not in name),
        "num_nodes", "devices", "group_query_attention", "num_query_groups", "kv_channels", "qk_head_dim", "swiglu",
        "gated_linear_unit", "untie_embeddings_and_output_weights", "share_embeddings_and_output_weights",
        "virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank",
        "num_layers_per_virtual_pipeline_stage", "sequence_parallel", "use_distributed_optimizer",
        "data_parallel_sharding_strategy", "zero_stage", "pipeline_model_parallel_layout", "recompute_granularity",
        "recompute_method", "recompute_num_layers", "recompute_modules", "activations_checkpoint_granularity",
        "checkpoint_activations", "bf16", "fp16", "fp8", "fp4", "precision",
        "add_bias_linear", "moe_layer_freq", "expert_tensor_parallel_size",
    )
)  # fmt: skip


def megatron_fields(stated: Stated) -> dict[str, object]:
    """Return the fields of a measured run that arguments of Megatron-LM state."""
    sizes = {field: stated.whole(*names) for field, names in _SIZES.items()}
    nodes, devices, is_latent = (
        stated.whole("num_nodes"),
        stated.whole("devices"),
        stated.flag("multi_latent_attention"),
    )
    experts, layers, ranks = sizes["experts"], sizes["layers"], sizes["pp"]
    return {
        **sizes,
        "hardware": stated.word("device"),
        "gpus": sizes["gpus"] or (nodes * devices if nodes and devices else None),
        "gpus_per_node": devices if nodes else None,
        "kv_heads": _kv_heads(stated),
        "head_dim": stated.whole("qk_head_dim" if is_latent else "kv_channels"),
        "active_experts": sizes["active_experts"] if experts else None,
        "expert_ffn": (sizes["expert_ffn"] or sizes["ffn"]) if experts else None,
        "gated_mlp": stated.flag("swiglu", "gated_linear_unit"),
        "tied_embeddings": _tied(stated),
        "precision": _precision(stated),
        "vpp": _chunks(stated, layers, ranks),
        "sequence_parallel": stated.flag("sequence_parallel"),
        "zero": _zero(stated),
        "microbatches": stated.whole("microbatches"),
        "layout": _layout(stated, layers, ranks),
        "recompute": _recompute(stated),
        "recompute_detail": _recompute_detail(stated),
        "overlap_flags": _software(stated),
        "notes": _settings(stated),
    }


def _kv_heads(stated: Stated) -> int | None:
    heads, groups = stated.whole("num_attention_heads"), stated.whole("num_query_groups")
    return heads if stated.flag("group_query_attention") is False else groups or heads


def _tied(stated: Stated) -> bool | None:
    untied = stated.flag("untie_embeddings_and_output_weights")
    return stated.flag("share_embeddings_and_output_weights") if untied is None else not untied


def _precision(stated: Stated) -> str | None:
    for name, precision in (("fp4", "nvfp4"), ("fp8", "fp8")):
        if name in stated and not stated.is_nothing(name):
            return precision
    for name in ("bf16", "fp16"):
        if stated.flag(name):
            return name
    word = stated.word("precision")
    if word is None:
        return "fp32" if stated.flag("bf16") is False and stated.flag("fp16") is False else None
    return {"bf16": "bf16", "16": "fp16", "fp16": "fp16", "32": "fp32"}.get(word.partition("-")[0])


def _chunks(stated: Stated, layers: int | None, ranks: int | None) -> int | None:
    chunks = stated.whole("virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank")
    of_chunk = stated.whole("num_layers_per_virtual_pipeline_stage")
    if chunks is None and of_chunk and layers and ranks and layers % (ranks * of_chunk) == 0:
        return layers // (ranks * of_chunk)
    return 1 if chunks is None and stated.is_nothing("virtual_pipeline_model_parallel_size") else chunks


def _zero(stated: Stated) -> str | None:
    if any(stated.flag(name) for name in _FULLY_SHARDED):
        return "fsdp" if stated.word("data_parallel_sharding_strategy") in (None, "optim_grads_params") else "distopt"
    distributed = stated.flag("use_distributed_optimizer")
    stage = stated.word("zero_stage")
    if not distributed and stage in ("0", "1", "2", "3"):
        return stage
    return None if distributed is None else "distopt" if distributed else "0"


def _layout(stated: Stated, layers: int | None, ranks: int | None) -> str | None:
    layout = stated.word("pipeline_model_parallel_layout")
    if layout is not None:
        return layout
    first, last = stated.whole(*_FIRST), stated.whole(*_LAST)
    of_end = first or last
    if of_end and layers and ranks and ranks > 1:  # the others have equally many
        others = (layers - of_end) // (ranks - 1)
        return f"first={first or others} last={last or others}"
    counted = " and ".join(end for end, name in _ENDS.items() if stated.flag(name))
    return f"{counted} count as one layer each" if counted else None


def _recompute(stated: Stated) -> str | None:
    granularity = stated.word("recompute_granularity", "activations_checkpoint_granularity")
    if granularity in ("full", "selective"):
        return granularity
    if stated.flag("checkpoint_activations"):
        return "full"
    names = ("recompute_granularity", "activations_checkpoint_granularity", "checkpoint_activations")
    return "none" if any(map(stated.is_nothing, names)) else None


def _recompute_detail(stated: Stated) -> str | None:
    """The modules of selective recomputation; how many layers of a stage, which the method uniform takes in groups."""
    if stated.word("recompute_granularity") == "selective":
        modules = " ".join(stated.words("recompute_modules"))
        return f"recompute_modules=[{modules}]" if modules else None
    method, layers = stated.word("recompute_method"), stated.whole("recompute_num_layers")
    return f"recompute_method=block recompute_num_layers={layers}" if method == "block" and layers else None


def _software(stated: Stated) -> str | None:
    """What the software does, in settings that `stated_software` reads."""
    said = []
    for name, choices in SETTINGS.items():
        means_nothing = (name in _OF_EXPERTS and not stated.whole("num_experts", "num_moe_experts")) or (
            name == "fp8_recipe" and _precision(stated) != "fp8"
        )
        if means_nothing or name not in stated or name == "use_distributed_optimizer":  # the last is field `zero`
            continue
        if "true" in choices and (stated.flag(name) or (name in _ON_UNASKED and stated.flag(name) is False)):
            said.append(f"{name}={stated.flag(name)}")
        elif "true" not in choices and not stated.is_nothing(name):
            said.append(f"{name}='{stated.word(name)}'")
    return ", ".join(said) or None


def _settings(stated: Stated) -> str | None:
    """Settings that no field has, by the names of the command line, as `measured.settings` reads them."""
    settings = {name.replace("_", "-"): stated.word(name) for name in _SETTINGS}
    settings["attention-backend"] = (settings["attention-backend"] or "").rpartition(".")[2]
    settings["disable-bias-linear"] = "True" if stated.flag("add_bias_linear") is False else None
    settings["moe-layer-freq"] = _dense_first(stated.words("moe_layer_freq"))
    texts = [f"{name}={value}" for name, value in settings.items() if value and " " not in value]
    split = stated.whole("expert_tensor_parallel_size")
    return "; ".join((*texts, *([f"expert tensor parallel {split}"] if split else []))) or None


def _dense_first(layers: tuple[str, ...]) -> str | None:
    """Which layers have experts, where all behind the first ones do; a list has 1 for such a layer."""
    dense = layers.index("1") if "1" in layers else 0
    behind = layers[dense:]
    return f"([0]*{dense}+[1]*{len(behind)})" if dense and set(behind) == {"1"} else None
