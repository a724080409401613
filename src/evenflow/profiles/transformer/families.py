"""What a model type (``llama``, ``qwen3``) implies beyond the fields of its configuration.

Configurations leave out what is the same in all models of a type: Qwen2 adds biases to its queries, keys and values
whatever its file says, and a GPT-2 has an MLP of two matrices. Checked against the models that transformers builds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from evenflow.language import to_translate
from evenflow.predict.transformer import EVERY_BIAS, Biases


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTypeTraits:
    """The traits that all models of one type share."""

    gated: bool = True
    tied: bool = False
    """Whether the output layer is the embedding's table where the file does not say it."""
    never_tied: bool = False
    """Whether it has a table of its own whatever the file says."""
    biases: Biases = field(default_factory=Biases)
    """Biases that no field switches."""
    switched: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Biases that a field switches, where it switches others than `SWITCHED`."""
    on: frozenset[str] = frozenset()
    """Flags that are set where the file does not say them."""
    layer_norms: int = 2
    one_norm_flag: str = ""
    """The flag with which a layer has one norm: attention and MLP read the same."""
    learned_norms: bool = True
    head_norms: str = ""
    """Norms of queries and keys: ``head`` over the width of a head, ``all`` over all heads, ``keys`` of keys alone;
    empty for none."""
    head_norms_flag: str = ""
    """The flag that asks for them; empty: they are always there."""
    head_norm_biases: bool = False
    norm_after_embedding: bool = False
    ffn_times: int = 0
    """The width of the MLP in hidden sizes, where the file does not say it; 0: it must."""
    ffn_of_both: bool = False
    """Whether the width in the file is that of both projections of a gated MLP together."""
    learned_positions: bool = False
    more_positions: int = 0
    """Rows of the table of positions beyond the longest sequence."""
    multi_query: bool = False
    """Whether the flag ``multi_query`` means one head of keys and values."""
    full_every: int = 0
    """One layer in this many sees all tokens, the others a window; 0: all have it, if one is given."""
    shared_always: bool = False
    """Whether there is one shared expert as wide as the others, whatever the file says."""
    shared_gate: bool = False
    expert_biases: bool = False
    sinks: bool = False
    output_gate: bool = False
    """Whether attention's output is weighed by a projection as wide as the queries."""
    state: str = ""
    """What layers with a state have in the place of attention, as `config_states` names it; empty: all have that."""
    state_norms: bool = False
    """Whether the state mixer has norms that learn, inside it or on its output."""
    state_beside_attention: bool = False
    """Whether every layer has both, beside each other."""
    half_blocks: bool = False
    """Whether a layer is a mixer alone or an MLP alone."""
    shared_alone: bool = False
    """Whether a model without experts has the shared expert as its MLP."""
    further: tuple[str, ...] = ()
    """Further parts of layers and ends, as `config_additions` names them."""
    gate_key: str = ""
    """The field that asks for a gate of attention's output, of every head or of every number."""
    sinks_in_windows: bool = False
    """Whether the layers with a window, and only those, have sinks."""
    doubled_keys_in_windows: bool = False
    """Whether layers with a window have twice the heads of keys and values."""
    keys_are_values: bool = False
    narrow_ends: bool = False
    """Whether attention has narrow products before its queries and behind its output."""
    rounded_head_dim: bool = False
    """Whether a head is as wide as the hidden size by the heads, rounded down."""
    four_norms_flag: str = ""
    """The flag with which a layer has four norms."""
    first_norm_outside: bool = False
    """Whether the first layer's first norm is that of the embedding."""
    last_norm: bool = True
    """Whether there is a norm before the output layer."""
    experts_flag: str = ""
    """The flag that asks for experts; empty: they are there where their number is."""
    experts_beside_mlp: bool = False
    repeats: int = 1
    """Times that attention and MLP come in a layer."""
    ffn_factor: bool = False
    """Whether the MLP's width is the hidden size times the file's factor."""
    reads: frozenset[str] = frozenset()
    """Fields of `REFUSED_FIELDS` that are read all the same."""
    adjusted_ffn: bool = False
    """Whether the file's width of the MLP is still to be multiplied and rounded, as its flags say."""


SWITCHED: Mapping[str, tuple[str, ...]] = {
    "attention_bias": ("queries", "out"),
    "attention_out_bias": ("out",),
    "qkv_bias": ("queries",),
    "use_qkv_bias": ("queries",),
    "add_qkv_bias": ("queries",),
    "mlp_bias": ("mlp",),
    "use_bias": ("queries", "out", "mlp"),
    "bias": ("queries", "out", "mlp"),
    "add_bias_linear": ("queries", "out", "mlp"),
    "lm_head_bias": ("logits",),
}
"""Biases that flags of configurations switch."""

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
    switched=_QKV, head_norms="head", head_norms_flag="use_qk_norm", rounded_head_dim=True,
)
_AFMOE = ModelTypeTraits(head_norms="head", layer_norms=4, output_gate=True)
_QWEN2 = ModelTypeTraits(biases=Biases(queries=True))

FAMILIES: Mapping[str, ModelTypeTraits] = {
    **dict.fromkeys(
        (
            "llama", "mistral", "mixtral", "phi3", "granite", "granitemoe", "deepseek", "deepseek_v2", "deepseek_v3",
            "kimi_k2", "baichuan", "internlm2", "ministral", "ministral3", "helium", "solar_open", "glm4_moe_lite",
            "granitemoeshared", "aria_text", "cwm", "iquestcoder", "phi4_multimodal", "sarvam_mla",
            "deepseek_v32", "glm_moe_dsa",
        ),
        _LLAMA,
    ),
    "afmoe": _AFMOE,
    **dict.fromkeys(
        ("apertus", "apertus1p5"), ModelTypeTraits(gated=False, head_norms="head", further=("xielu",)),
    ),
    "axk1": ModelTypeTraits(further=("expert norm",)),
    "bailing_hybrid": ModelTypeTraits(
        state="kimi-delta-attention, wide gates", full_every=6, further=("head gate",),
    ),
    "beam": replace(_AFMOE, further=("head gate bias",)),
    "biogpt": replace(_GPT, learned_positions=True, more_positions=2, ffn_times=0),
    "bitnet": ModelTypeTraits(further=("inner norms",)),
    "cohere2_moe": ModelTypeTraits(tied=True, layer_norms=1, full_every=4),
    "cpmant": ModelTypeTraits(further=("prompts",), never_tied=True),
    "ctrl": replace(_GPT, biases=replace(EVERY_BIAS, logits=True)),
    "deepseek_v4": ModelTypeTraits(
        head_norms="keys", sinks=True, narrow_ends=True, keys_are_values=True, further=("hyper-connections",),
        reads=frozenset(("hc_mult",)),
    ),
    "diffllama": ModelTypeTraits(further=("differences",)),
    "doge": replace(_QWEN3, further=("dynamic mask",), experts_flag="is_moe"),
    "dots3_note": ModelTypeTraits(further=("head gate", "rotary norm")),
    "flint": replace(_QWEN3, sinks=True),
    **dict.fromkeys(("gemma3n",), replace(
        _GEMMA2, head_norms="head", full_every=5, further=("layer inputs", "alternating updates", "narrow residual"),
        reads=frozenset(("hidden_size_per_layer_input", "altup_num_inputs", "laurel_rank")),
    )),
    **dict.fromkeys(("gemma4", "gemma4_unified"), replace(
        _GEMMA2, head_norms="head", full_every=6, further=("layer inputs", "beside experts"),
        experts_flag="enable_moe_block", experts_beside_mlp=True, reads=frozenset(("hidden_size_per_layer_input",)),
    )),
    "gpt_neox_japanese": ModelTypeTraits(
        gated=False, tied=True, biases=_LAYER_NORM, ffn_times=4, further=("last bias",),
    ),
    **dict.fromkeys(("granite_swa", "granitemoe_swa"), ModelTypeTraits(sinks=True)),
    "hy_v4": ModelTypeTraits(
        sinks=True, output_gate=True, further=("plain hyper-connections",), reads=frozenset(("hc_mult",)),
    ),
    "hyperclovax": ModelTypeTraits(four_norms_flag="use_post_norm"),
    "kolibri1": replace(_QWEN3, layer_norms=4),
    "laguna": replace(_QWEN3, gate_key="gating"),
    "lara_mini": replace(_QWEN3, state="gated-delta-net"),
    "lfm3": ModelTypeTraits(
        tied=True, head_norms="head", state="short-convolution", gate_key="use_attention_gate",
        four_norms_flag="use_sandwich_norm", on=frozenset(("use_sandwich_norm",)),
    ),
    "longcat_flash": ModelTypeTraits(experts_beside_mlp=True, repeats=2, reads=frozenset(("zero_expert_num",))),
    "mimo_v2_flash": ModelTypeTraits(sinks_in_windows=True, doubled_keys_in_windows=True),
    "minimax_m3_vl": _QWEN3,
    "modernbert-decoder": ModelTypeTraits(
        tied=True, norm_after_embedding=True, first_norm_outside=True, further=("output block",), full_every=3,
        switched={**SWITCHED, "decoder_bias": ("logits",)}, on=frozenset(("decoder_bias",)),
    ),
    "moshi": ModelTypeTraits(ffn_of_both=True, further=("further word",)),
    "nanochat": ModelTypeTraits(gated=False, learned_norms=False),
    "openai-gpt": replace(_GPT, learned_positions=True, last_norm=False),
    "recurrent_gemma": ModelTypeTraits(
        tied=True, state="gated-linear-recurrence", ffn_of_both=True, biases=Biases(out=True, mlp=True),
    ),
    "rwkv": ModelTypeTraits(
        gated=False, biases=_LAYER_NORM, norm_after_embedding=True, ffn_times=4, state="rwkv", further=("receptance",),
    ),
    "sarvam_moe": _GLM4_MOE,
    "xglm": replace(_GPT, ffn_times=0),
    "xlstm": ModelTypeTraits(state="matrix-lstm", ffn_factor=True),
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
    "kimi_linear": ModelTypeTraits(state="kimi-delta-attention", full_every=4),
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
        ),
    ),
    "qwen3_5": ModelTypeTraits(head_norms="head", output_gate=True, state="gated-delta-net", full_every=4),
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
    "gpt2": replace(_GPT, learned_positions=True),
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
    "opt": replace(_GPT, learned_positions=True, more_positions=2, ffn_times=0),
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
    **dict.fromkeys(("qwen2", "qwen2_vl", "qwen2_5_vl"), _QWEN2),
    "qwen2_moe": ModelTypeTraits(on=frozenset(("qkv_bias",)), shared_gate=True),
    **dict.fromkeys(("qwen3", "qwen3_moe", "qwen3_vl", "qwen3_vl_moe"), _QWEN3),
    "seed_oss": ModelTypeTraits(switched=_QKV, on=frozenset(("attention_bias",))),
    **dict.fromkeys(("smollm3", "minicpm3", "youtu"), ModelTypeTraits(tied=True)),
    "stablelm": ModelTypeTraits(
        biases=_LAYER_NORM, head_norms="all", head_norms_flag="qk_layernorm", one_norm_flag="use_parallel_residual",
    ),
    "starcoder2": ModelTypeTraits(gated=False, tied=True, biases=_LAYER_NORM, on=frozenset(("use_bias",))),
}  # fmt: skip
"""The decoders whose parameters are known to the digit, by the model type of their configuration."""

_ENCODER_DECODER = to_translate("its decoder reads from an encoder, and only decoders are predicted")
_ENCODER = to_translate("it is an encoder, and only decoders are predicted")
STATE_SPACE = to_translate("it has layers with a state in the place of attention, whose times are not predicted")
_SHARED = to_translate("several of its layers share their weights, and every layer of a pipeline has its own")
_REPEATED = to_translate("a token goes through its layers several times, and through those of a pipeline once")
_DRAFTS = to_translate("it drafts tokens for another model, whose keys and values it reads")
_CROSS = to_translate("some of its layers attend to images, whose number of tokens its fields do not tell")
_BYTES = to_translate("it has three decoders, two of them over bytes, whose number in a token its fields do not tell")
_PERMUTED = to_translate("it is trained on tokens in two streams, and only decoders of one are predicted")
_HASHED = to_translate("its attention sees the tokens that hashes choose, which are not predicted")
_FURTHER = to_translate("it has further parts in every layer, which its fields do not tell")

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "t5", "mt5", "umt5", "longt5", "switch_transformers", "t5gemma", "bart", "mbart", "pegasus", "marian",
            "blenderbot", "whisper", "m2m_100", "nllb-moe", "led", "prophetnet", "plbart", "bigbird_pegasus", "trocr",
        ),
        _ENCODER_DECODER,
    ),
    **dict.fromkeys(
        (
            "bert", "roberta", "electra", "deberta", "deberta-v2", "albert", "distilbert", "modernbert", "xlm-roberta",
            "git",
        ),
        _ENCODER,
    ),
    **dict.fromkeys(
        (
            "minimax_text_01",
        ),
        STATE_SPACE,
    ),
    **dict.fromkeys((
            "inkling_text", "inkling2_text", "inkling2_loop_text", "qwen4_exp", "qwen4_exp_text", "axk2", "jetmoe",
            "zaya",
        ),
        _FURTHER,
    ),
    **dict.fromkeys(("zamba", "zamba2"), _SHARED),
    **dict.fromkeys(("dory", "hrm_text"), _REPEATED),
    **dict.fromkeys(("gemma4_assistant", "gemma4_unified_assistant"), _DRAFTS),
    "mllama": _CROSS,
    "mllama_text_model": _CROSS,
    "blt": _BYTES,
    "xlnet": _PERMUTED,
    "reformer": _HASHED,
    "xlm": _ENCODER,
    "bert-generation": _ENCODER,
}  # fmt: skip
"""Why models of a type are not read, by the model type."""

REFUSED_FIELDS: Mapping[str, str] = {
    "encoder_layers": _ENCODER_DECODER,
    "num_decoder_layers": _ENCODER_DECODER,
    "type_vocab_size": _ENCODER,
    "state_size": STATE_SPACE,
    "ssm_cfg": STATE_SPACE,
    "mamba_d_state": STATE_SPACE,
    "mamba_d_conv": STATE_SPACE,
    "mamba_num_heads": STATE_SPACE,
    "lru_width": STATE_SPACE,
    "linear_num_key_heads": STATE_SPACE,
    "linear_conv_kernel_dim": STATE_SPACE,
    "linear_attn_config": STATE_SPACE,
    "conv_L_cache": STATE_SPACE,
    "hidden_size_per_layer_input": _FURTHER,
    "hc_mult": _FURTHER,
    "altup_num_inputs": _FURTHER,
    "laurel_rank": _FURTHER,
    "zero_expert_num": _FURTHER,
    "cross_attention_layers": _CROSS,
}
"""Why a model whose configuration has a field is not read."""
