"""What a model type (``llama``, ``qwen3``) implies beyond the fields of its configuration.

Configurations leave out what is the same in all models of a type: Qwen2 adds biases to its queries, keys and values
whatever its file says, and a GPT-2 has an MLP of two matrices. Checked against the models that transformers builds.
"""

from collections.abc import Mapping
from dataclasses import replace

from evenflow.language import to_translate
from evenflow.predict.transformer import EVERY_BIAS, Biases
from evenflow.profiles.transformer.traits import SWITCHED, ModelTypeTraits

_LLAMA = ModelTypeTraits()
_GPT = ModelTypeTraits(gated=False, tied=True, biases=EVERY_BIAS, ffn_times=4)
_LAYER_NORM = Biases(norms=True)
_QKV = {"attention_bias": ("queries",)}
_QWEN3 = ModelTypeTraits(head_norms="head")
_GEMMA = ModelTypeTraits(tied=True)
_GEMMA2 = ModelTypeTraits(tied=True, layer_norms=4, full_every=2)
_OLMO2 = ModelTypeTraits(head_norms="all")
_ERNIE = ModelTypeTraits(tied=True)
_GLM4 = ModelTypeTraits(switched=_QKV, on=frozenset(("attention_bias",)), layer_norms=4)
_GLM4_MOE = ModelTypeTraits(
    switched=_QKV,
    head_norms="head",
    head_norms_flag="use_qk_norm",
    rounded_head_dim=True,
)
_AFMOE = ModelTypeTraits(head_norms="head", layer_norms=4, output_gate=True)
_QWEN2 = ModelTypeTraits(biases=Biases(queries=True))

_MUSE = ModelTypeTraits(
    layer_norms=4, output_gate=True, full_every=4, full_from_last=True, further=("plain-head-norms",)
)

_INKLING2 = ModelTypeTraits(
    norm_after_embedding=True, full_every=6, output_gate=True, separate_inputs=True, never_tied=True,
    further=("relative bias", "short convolutions", "clipped heads", "token sinks", "fewer words"), defaults={
        "conv_kernel_size": 4, "d_rel": 16, "rel_extent": 1024, "sliding_window_size": 1024,
        "n_layers_per_attn_res_block": 6,
    },
)  # fmt: skip

_ONE_STREAM = to_translate(
    "tokens are taken to be trained in one stream, without earlier segments: the second stream that permuted orders "
    "need (target_mapping) is left out"
)
_REVERSED = to_translate(
    "layers compute their inputs again from their outputs, and keep hashes alone; what a stage gives to the next one, "
    "from which its backward begins, is not counted"
)

FAMILIES: Mapping[str, ModelTypeTraits] = {
    **dict.fromkeys(
        (
            "llama", "mistral", "mixtral", "phi3", "granite", "granitemoe", "deepseek", "deepseek_v2", "deepseek_v3",
            "kimi_k2", "baichuan", "internlm2", "ministral", "ministral3", "helium", "glm4_moe_lite",
            "granitemoeshared", "aria_text", "cwm", "iquestcoder", "phi4_multimodal", "sarvam_mla",
            "granite4_vision",
        ),
        _LLAMA,
    ),
    "glm_ocr": ModelTypeTraits(layer_norms=4),
    "chameleon": ModelTypeTraits(head_norms="all", further=("head shifts",)),
    "deepseek_ocr2": ModelTypeTraits(),
    "unlimited_ocr": ModelTypeTraits(full_every=1, defaults={"first_k_dense_replace": 1}),
    "hunyuan_vl": replace(_QWEN3, tied=True),
    **dict.fromkeys(("kosmos-2", "kosmos_2_text_model"), replace(
        _GPT, ffn_times=0, further=("shifted-inner-norms",),
    )),
    **dict.fromkeys(("kosmos-2.5", "kosmos_2_5_text_model"), replace(
        _GPT, ffn_times=0, further=("inner-MLP norm", "two segments"),
    )),
    "ernie4_5_vl_moe": replace(_ERNIE, image_experts=True, defaults={"moe_layer_start_index": 1}),
    "cohere_compass": ModelTypeTraits(tied=True, layer_norms=1, full_every=1),
    "mistral_large4": ModelTypeTraits(
        wider_without_positions=True, further=("scaled heads", "learned frequencies"),
        defaults={"first_k_dense_replace": 1},
    ),
    "molmo2": ModelTypeTraits(
        switched=_QKV, head_norms="head", head_norms_key="qk_norm_type", never_tied=True, further=("further words",),
        defaults={"additional_vocab_size": 128}, only={"qk_norm_type": ("qwen3", "olmo"), "use_qk_norm": (True,)},
    ),
    **dict.fromkeys(("step3p5", "step3p7"), replace(
        _QWEN3, further=("head gate",), further_mlp=True, defaults={"first_k_dense_replace": 3},
        only={"use_head_wise_attn_gate": (True,), "use_qk_norm": (True,), "gating": (True, "per-head")},
    )),
    **dict.fromkeys(("deepseek_v32", "glm_moe_dsa"), ModelTypeTraits(only={"mlp_bias": (False,)})),
    "solar_open": ModelTypeTraits(switched=_QKV),
    "afmoe": _AFMOE,
    **dict.fromkeys(
        ("apertus", "apertus1p5"), ModelTypeTraits(
            gated=False, head_norms="head", further=("xielu",),
        ),
    ),
    "axk1": ModelTypeTraits(further=("expert norm",)),
    "axk2": ModelTypeTraits(
        gate_of_queries=True, further=("gated norms",), defaults={"first_k_dense_replace": 1, "gated_norm_rank": 16},
    ),
    "bailing_hybrid": ModelTypeTraits(
        state="kimi-delta-attention, wide gates", full_every=6, further=("head gate",), never_tied=True,
    ),
    "beam": replace(_AFMOE, further=("head-gate-bias",)),
    "biogpt": replace(_GPT, learned_positions=True, more_positions=2, ffn_times=0),
    "bitnet": ModelTypeTraits(further=("inner norms",)),
    "cohere2_moe": ModelTypeTraits(tied=True, layer_norms=1, full_every=4),
    "cpmant": ModelTypeTraits(further=("prompts",), never_tied=True),
    "ctrl": replace(_GPT, biases=replace(EVERY_BIAS, logits=True)),
    "deepseek_v4": ModelTypeTraits(
        head_norms="keys", sinks=True, narrow_ends=True, keys_are_values=True, further=("hyper-connections",),
        reads=frozenset(("hc_mult",)),
        only={"n_shared_experts": (1,), "num_key_value_heads": (1,), "attention_bias": (False,)},
    ),
    "diffllama": ModelTypeTraits(further=("differences",)),
    "dory": ModelTypeTraits(
        layer_norms=4, learned_norms=False, output_gate=True, full_every=4, loop="between",
        further=("plain-head-norms", "unit vectors"),
        defaults={"n_input_layers": 8, "n_output_layers": 8, "n_recurrent_loops": 2},
    ),
    "doge": replace(_QWEN3, further=("dynamic mask",), experts_flag="is_moe",
        only={"is_moe": (False,), "attention_bias": (False,)},
    ),
    "dots3_note": ModelTypeTraits(shared_each=True, further=("head gate", "rotary norm")),
    "flint": replace(_QWEN3, sinks=True),
    **dict.fromkeys(("gemma3n",), replace(
        _GEMMA2, head_norms="head", full_every=5, further=("layer inputs", "alternating updates", "narrow residual"),
        reads=frozenset(("hidden_size_per_layer_input", "altup_num_inputs", "laurel_rank")),
    )),
    **dict.fromkeys(("gemma4", "gemma4_unified"), replace(
        _GEMMA2, head_norms="head", full_every=6, further=("layer inputs", "beside experts"),
        experts_flag="enable_moe_block", experts_beside_mlp=True, reads=frozenset(("hidden_size_per_layer_input",)),
        defaults={"global_head_dim": 512},
    )),
    "glm5_next": ModelTypeTraits(
        state="kimi-delta-attention", full_every=4, whole_is_indexed=True, further=("averaged hyper-connections",),
        reads=frozenset(("hc_mult",)), only={"qk_rope_head_dim": (0,)}, defaults={"first_k_dense_replace": 3},
    ),
    "gpt_neox_japanese": ModelTypeTraits(
        gated=False, tied=True, biases=_LAYER_NORM, ffn_times=4, further=("last bias",),
    ),
    "granite_swa": ModelTypeTraits(tied=True, sinks=True),
    "granitemoe_swa": ModelTypeTraits(sinks=True),
    **dict.fromkeys(("hy_v4", "hy_v4_vl"), ModelTypeTraits(
        sinks=True, output_gate=True, further=("plain hyper-connections",), reads=frozenset(("hc_mult",)),
        defaults={"first_k_dense_replace": 1, "index_topk_freq": 4},
    )),
    "hyperclovax": ModelTypeTraits(four_norms_flag="use_post_norm", on=frozenset(("use_post_norm",))),
    "hrm_text": ModelTypeTraits(
        learned_norms=False, output_gate=True, last_norm=False, loop="stacks", further=("gate bias",),
        defaults={"H_cycles": 2, "L_cycles": 3},
    ),
    "jetmoe": ModelTypeTraits(
        tied=True, attention_experts=True, biases=Biases(out=True), further=("experts' bias",),
    ),
    "kolibri1": replace(_QWEN3, layer_norms=4),
    "laguna": replace(
        _QWEN3, gate_key="gating", defaults={"gating": True}, only={"gating": (True, "per-head", "per-element")},
    ),
    "lara_mini": replace(_QWEN3, tied=True, state="gated-delta-net"),
    "lfm3": ModelTypeTraits(
        tied=True, head_norms="head", state="short-convolution", gate_key="use_attention_gate",
        four_norms_flag="use_sandwich_norm", on=frozenset(("use_sandwich_norm",)),
        defaults={"use_attention_gate": True},
    ),
    "longcat_flash": ModelTypeTraits(experts_beside_mlp=True, repeats=2, reads=frozenset(("zero_expert_num",))),
    "mimo_v2_flash": ModelTypeTraits(sinks_in_windows=True, doubled_keys_in_windows=True, switched=_QKV),
    "minimax_m3_vl": _QWEN3,
    **dict.fromkeys(("mllama", "mllama_text_model"), ModelTypeTraits(
        sees_images="among", further=("further words",), reads=frozenset(("cross_attention_layers",)), never_tied=True,
        defaults={"cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38], "additional_vocab_size": 8},
    )),
    "idefics": ModelTypeTraits(
        sees_images="between", further=("further-words-of-both",), reads=frozenset(("cross_attention_layers",)),
        only={"alpha_type": ("float", "vector")},
        defaults={"cross_layer_interval": 1, "qk_layer_norms": False, "additional_vocab_size": 0},
    ),
    "modernbert-decoder": ModelTypeTraits(
        tied=True, norm_after_embedding=True, first_norm_outside=True, further=("output block",), full_every=3,
        switched={**SWITCHED, "decoder_bias": ("logits",)}, on=frozenset(("decoder_bias",)),
        only={"norm_bias": (False,), "classifier_bias": (False,)},
    ),
    "moshi": ModelTypeTraits(never_tied=True, ffn_of_both=True, further=("further word",)),
    "muse_glimmer": _MUSE,
    "muse_spark": replace(
        _MUSE, further=("plain-norms-of-all-heads", "residual gates", "norms-around-experts"),
    ),
    "nanochat": ModelTypeTraits(gated=False, learned_norms=False),
    "openai-gpt": replace(_GPT, learned_positions=True, last_norm=False),
    "recurrent_gemma": ModelTypeTraits(
        tied=True, state="gated-linear-recurrence", ffn_of_both=True, biases=Biases(out=True, mlp=True),
        defaults={"block_types": ["recurrent", "recurrent", "attention"]},
    ),
    "rwkv": ModelTypeTraits(
        gated=False, biases=_LAYER_NORM, norm_after_embedding=True, ffn_times=4, state="rwkv", further=("receptance",),
    ),
    "sarvam_moe": replace(_GLM4_MOE, defaults={"head_dim": 64, "use_qk_norm": True}),
    "xglm": replace(_GPT, ffn_times=0),
    "xlstm": ModelTypeTraits(
        state="matrix-lstm", ffn_factor=True, never_tied=True, only={"use_bias": (False,)}, defaults={
            "qk_dim_factor": 0.5, "v_dim_factor": 1.0, "ffn_proj_factor": 2.667, "ffn_round_up_to_multiple_of": 64,
        },
    ),
    "arcee": ModelTypeTraits(gated=False),
    "bamba": ModelTypeTraits(state="mamba-2", state_norms=True),
    "bloom": replace(_GPT, norm_after_embedding=True),
    "chatglm": ModelTypeTraits(on=frozenset(("add_qkv_bias",))),
    "codegen": ModelTypeTraits(
        gated=False, biases=Biases(mlp=True, norms=True, logits=True), layer_norms=1, ffn_times=4,
    ),
    "cohere": ModelTypeTraits(tied=True, layer_norms=1, head_norms="all", head_norms_flag="use_qk_norm"),
    "cohere2": ModelTypeTraits(tied=True, layer_norms=1, full_every=4),
    "dbrx": _LLAMA,
    **dict.fromkeys(("dots1", "hy_v3", "mellum"), _QWEN3),
    "ernie4_5": _ERNIE,
    "ernie4_5_moe": replace(
        _ERNIE, switched={"use_bias": ("queries", "out", "mlp", "logits")},
    ),
    "exaone4": replace(_QWEN3, full_every=4),
    "exaone_moe": replace(_QWEN3, full_every=4),
    "falcon_h1": ModelTypeTraits(state="mamba-2", state_beside_attention=True),
    **dict.fromkeys(
        ("falcon_mamba", "mamba"), ModelTypeTraits(tied=True, state="mamba", half_blocks=True),
    ),
    "granitemoehybrid": ModelTypeTraits(state="mamba-2", state_norms=True, shared_alone=True),
    "jamba": ModelTypeTraits(state="mamba", state_norms=True),
    "kimi_linear": ModelTypeTraits(
        state="kimi-delta-attention", full_every=4, never_tied=True, output_gate_flag="mla_use_output_gate",
        normed_residuals=True, further=("norm-of-narrow-experts",),
    ),
    "lfm2": ModelTypeTraits(tied=True, head_norms="head", state="short-convolution", adjusted_ffn=True),
    "lfm2_moe": ModelTypeTraits(tied=True, head_norms="head", state="short-convolution"),
    "mamba2": ModelTypeTraits(state="mamba-2", state_norms=True, half_blocks=True),
    "minimax": ModelTypeTraits(state="lightning-attention"),
    "nemotron_h": ModelTypeTraits(
        gated=False, state="mamba-2", state_norms=True, half_blocks=True,
        switched={"attention_bias": (), "use_bias": ()},
    ),
    "olmo_hybrid": ModelTypeTraits(head_norms="all", state="gated-delta-net", full_every=4),
    **dict.fromkeys(
        ("qwen3_next", "qwen3_5_moe"), ModelTypeTraits(
            head_norms="head", shared_gate=True, output_gate=True, state="gated-delta-net", full_every=4,
            only={"attention_bias": (False,)},
        ),
    ),
    "qwen4_exp": ModelTypeTraits(
        head_norms="head", shared_gate=True, output_gate=True, state="gated-delta-net", full_every=4,
        whole_is_indexed=True, layer_norms=0, last_norm=False, further=("gated hyper-connections",),
        reads=frozenset(("hc_count",)), defaults={"hc_count": 4, "hc_lowrank": 320},
        only={"attention_bias": (False,), "indexer_kv_heads": (1,)},
    ),
    "qwen3_5": ModelTypeTraits(
        head_norms="head", output_gate=True, state="gated-delta-net", full_every=4, only={"attention_bias": (False,)},
    ),
    "falcon": ModelTypeTraits(
        gated=False, tied=True, biases=_LAYER_NORM, ffn_times=4, one_norm_flag="parallel_attn", multi_query=True,
        on=frozenset(("multi_query", "parallel_attn")),
    ),
    "flex_olmo": _OLMO2,
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3": replace(_GEMMA2, head_norms="head", full_every=6),
    "glm": ModelTypeTraits(switched=_QKV, on=frozenset(("attention_bias",))),
    "glm4": _GLM4,
    "glm4_moe": _GLM4_MOE,
    "glm4v": _GLM4,
    "glm4v_moe": _GLM4_MOE,
    **dict.fromkeys(("gpt2", "gpt-sw3"), replace(_GPT, learned_positions=True)),
    "gpt_bigcode": replace(_GPT, learned_positions=True, multi_query=True, on=frozenset(("multi_query",))),
    "gpt_neo": replace(
        _GPT, biases=Biases(out=True, mlp=True, norms=True), learned_positions=True, full_every=2,
    ),
    "gpt_neox": ModelTypeTraits(
        gated=False, biases=Biases(mlp=True, norms=True), ffn_times=4, on=frozenset(("attention_bias",)),
    ),
    "gpt_oss": ModelTypeTraits(
        on=frozenset(("attention_bias",)), full_every=2, expert_biases=True, sinks=True,
    ),
    "gptj": ModelTypeTraits(
        gated=False, biases=Biases(mlp=True, norms=True, logits=True), layer_norms=1, ffn_times=4,
    ),
    "hunyuan_v1_dense": _QWEN3,
    "hunyuan_v1_moe": replace(_QWEN3, shared_always=True),
    "inkling": ModelTypeTraits(
        head_norms="head", norm_after_embedding=True, full_every=6, shared_scores=True, never_tied=True,
        further_mlp=True, further=("relative bias", "short convolutions", "scales"), defaults={
            "conv_kernel_size": 4, "d_rel": 16, "rel_extent": 1024, "sliding_window_size": 512,
        },
    ),
    "inkling2": _INKLING2,
    "inkling2_loop": replace(
        _INKLING2, loop="core", defaults={
            **_INKLING2.defaults, "loop_layer_index_start": 6, "loop_layer_index_end": 18, "loop_num_passes": 3,
            "loop_gate_rank": 64,
        },
    ),
    "internlm": ModelTypeTraits(switched={"bias": ("queries", "out")}, on=frozenset(("bias",))),
    "internlm3": ModelTypeTraits(switched={"bias": ("out", "mlp")}),
    "llama4": ModelTypeTraits(shared_always=True),
    "minimax_m2": ModelTypeTraits(head_norms="all"),
    "mpt": ModelTypeTraits(gated=False, tied=True, ffn_times=4),
    "nemotron": ModelTypeTraits(gated=False, biases=_LAYER_NORM),
    "olmo": ModelTypeTraits(learned_norms=False),
    "olmo2": _OLMO2,
    "olmo3": replace(_OLMO2, full_every=4),
    "olmoe": _OLMO2,
    "opt": replace(
        _GPT, learned_positions=True, more_positions=2, ffn_times=0, only={
            "enable_bias": (True,), "layer_norm_elementwise_affine": (True,), "do_layer_norm_before": (True,),
            "_remove_final_layer_norm": (False,),
        },
    ),
    "persimmon": ModelTypeTraits(
        gated=False, biases=EVERY_BIAS, head_norms="head", head_norms_flag="qk_layernorm", head_norm_biases=True,
        on=frozenset(("qk_layernorm",)),
    ),
    "phi": ModelTypeTraits(
        gated=False, biases=replace(EVERY_BIAS, logits=True), layer_norms=1, ffn_times=4, head_norms="head",
        head_norms_flag="qk_layernorm", head_norm_biases=True,
    ),
    "phimoe": ModelTypeTraits(biases=_LAYER_NORM),
    "qwen": replace(_QWEN2, ffn_of_both=True),
    **dict.fromkeys(("qwen2", "qwen2_vl", "qwen2_5_vl", "qwen2_5_omni"), _QWEN2),
    "qwen2_moe": ModelTypeTraits(on=frozenset(("qkv_bias",)), shared_gate=True),
    **dict.fromkeys(("qwen3", "qwen3_moe", "qwen3_vl", "qwen3_vl_moe"), _QWEN3),
    "qwen3_omni_moe": replace(_QWEN3, rounded_head_dim=True),
    "seed_oss": ModelTypeTraits(switched=_QKV, on=frozenset(("attention_bias",))),
    **dict.fromkeys(("smollm3", "minicpm3", "youtu"), ModelTypeTraits(tied=True)),
    "stablelm": ModelTypeTraits(
        biases=_LAYER_NORM, head_norms="all", head_norms_flag="qk_layernorm", one_norm_flag="use_parallel_residual",
    ),
    "blt": ModelTypeTraits(
        in_patches=True, only={"patching_mode": ("entropy",)},
    ),
    "reformer": ModelTypeTraits(
        gated=False, biases=Biases(mlp=True, norms=True, logits=True), chunked=True, further=("reversible",),
        defaults={
            "attn_layers": ["local", "lsh"] * 3, "local_attn_chunk_length": 64, "local_num_chunks_before": 1,
            "lsh_attn_chunk_length": 64, "lsh_num_chunks_before": 1, "num_hashes": 1, "axial_pos_shape": [64, 64],
            "axial_pos_embds_dim": [64, 192], "attention_head_size": 64, "max_position_embeddings": 4096,
        },
        only={
            "is_decoder": (True,), "tie_word_embeddings": (False,), "local_num_chunks_after": (0,),
            "lsh_num_chunks_after": (0,),
        },
        assumed=_REVERSED,
    ),
    "xlnet": ModelTypeTraits(
        gated=False, tied=True, biases=Biases(mlp=True, norms=True, logits=True), last_norm=False,
        further=("distances", "further word"), defaults={"attn_type": "bi", "dropout": 0.1},
        only={"attn_type": ("bi", "uni"), "use_mems_train": (False,)}, assumed=_ONE_STREAM,
    ),
    "zamba": ModelTypeTraits(
        tied=True, state="mamba", half_blocks=True, shared_blocks="plain", defaults={
            "num_key_value_heads": 16, "n_mamba_heads": 2, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
        },
        only={"tie_word_embeddings": (True,)},
    ),
    "zamba2": ModelTypeTraits(
        tied=True, state="mamba-2", state_norms=True, half_blocks=True, shared_blocks="adapted", defaults={
            "adapter_rank": 128, "n_mamba_heads": 8, "mamba_ngroups": 1, "mamba_d_state": 64, "mamba_d_conv": 4,
            "mamba_expand": 2, "chunk_size": 256,
        },
        only={"tie_word_embeddings": (True,)},
    ),
    "zaya": ModelTypeTraits(
        tied=True, idle_experts=1, further=("convolved keys", "scaled residuals", "deep router"),
        defaults={"router_hidden_size": 256, "cca_time0": 2, "cca_time1": 2}, only={"num_experts_per_tok": (1,)},
    ),
    "starcoder2": ModelTypeTraits(gated=False, tied=True, biases=_LAYER_NORM, on=frozenset(("use_bias",))),
}  # fmt: skip
"""The decoders whose parameters are known to the digit, by the model type of their configuration."""
