"""The encoder of images of a configuration: its blocks, its patches, and what makes tokens of the decoder of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isqrt, prod

from evenflow.errors import InputError
from evenflow.fields import is_integer
from evenflow.language import _
from evenflow.predict.layer_parts import Addition, Place
from evenflow.predict.transformer import Biases, Norms, OwnSizes, Stem, Tower
from evenflow.profiles.transformer.config_encoder import EncoderPart, two_layers
from evenflow.ranges import MODEL_SIZE

_COLORS = 3
_WINDOW = 2  # a token sees twice as many in all as before it (`Transformer.window`)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageEncoder:
    """An encoder of images as a configuration has it, before anybody says which images there are."""

    tower: Tower
    """For one image of the usual size, or of one token where the configuration has no size."""
    patch_side: int
    """Side of a patch in pixels."""
    image_side: int | None
    """Usual side of an image in pixels."""
    is_fixed: bool = False
    """Whether every image is made this large, or tiles that are."""

    @property
    def token_side(self) -> int:
        """Side in pixels of what becomes one token of the decoder."""
        return self.patch_side * isqrt(self.tower.merged)

    def of_images(self, count: int, *, side: int) -> Tower:
        """Return it for so many images of a sequence, of a side in pixels."""
        patches = self.tower.patches if self.is_fixed else (side // self.patch_side) ** 2
        return replace(self.tower, inputs=count, patches=patches)


def image_encoder(part: EncoderPart, read: Callable[[EncoderPart], Tower]) -> ImageEncoder:
    """Return the encoder that `read` makes of a part for images.

    Raises:
        InputError: a size that is missing or wrong.
    """
    tower = read(part)
    side = part.size("image_size") if part.value("image_size") is not None else None
    if tower.is_beside:
        side = part.size("image_size")
    return ImageEncoder(tower=tower, patch_side=part.size("patch_size"), image_side=side, is_fixed=tower.is_beside)


def _patch(part: EncoderPart, hidden: int, *, bias: bool, small: int = 0) -> tuple[Stem, ...]:
    """Return what makes a vector of a patch; `small` are further numbers that it learns."""
    side, frames = part.size("patch_size"), part.size("frames") if part.value("frames") is not None else 1
    read = part.size("colors") * side * side * frames
    made = Addition(name="patches", products=((read, hidden),), numbers=hidden, small=small + (hidden if bias else 0))
    return (Stem(part=made),)


def _per_side(part: EncoderPart) -> int:
    """Return the patches along a side of an image of the usual size."""
    return part.size("image_size") // part.size("patch_size")


def _qwen2(part: EncoderPart) -> Tower:
    """Qwen2-VL, whose `hidden_size` is that of the decoder."""
    hidden = part.size("embed_dim")
    merged = part.size("merge") ** 2
    wide = merged * hidden
    return Tower(
        blocks=part.blocks(hidden=hidden, ffn=hidden * part.size("mlp_ratio")), merged=merged, inputs=1,
        patches=merged, before=_patch(part, hidden, bias=False),
        behind=two_layers(wide, wide, part.size("hidden_size"), norm=2 * hidden),
    )  # fmt: skip


def _qwen2_5(part: EncoderPart) -> Tower:
    hidden, merged = part.size("hidden_size"), part.size("merge") ** 2
    seen = (part.size("window_size") // part.size("patch_size")) ** 2
    blocks = replace(
        part.blocks(gated=True, biases=Biases(queries=True, out=True, mlp=True)), window=seen // _WINDOW,
        unwindowed_layers=part.places("fullatt_block_indexes"),
    )  # fmt: skip
    wide = merged * hidden
    return Tower(
        blocks=blocks, before=_patch(part, hidden, bias=False), merged=merged, inputs=1, patches=merged,
        behind=two_layers(wide, wide, part.size("out_hidden_size"), norm=hidden),
    )  # fmt: skip


def _qwen3(part: EncoderPart) -> Tower:
    hidden, merged, out = part.size("hidden_size"), part.size("merge") ** 2, part.size("out_hidden_size")
    wide = merged * hidden
    return Tower(
        blocks=part.blocks(), merged=merged, inputs=1, patches=merged,
        before=_patch(part, hidden, bias=True, small=part.size("num_position_embeddings") * hidden),
        behind=two_layers(wide, wide, out, norm=2 * hidden),
        taps=part.places("deepstack_visual_indexes"),
        tap=two_layers(wide, wide, out, norm=2 * wide),
    )  # fmt: skip


def _glm4(part: EncoderPart) -> Tower:
    hidden, merged, out = part.size("hidden_size"), part.size("merge") ** 2, part.size("out_hidden_size")
    inner = part.size("intermediate_size")
    has_bias = part.is_on("attention_bias")
    behind = Addition(
        name="projector", products=((merged * hidden, out), (out, out), (out, 2 * inner), (inner, out)),
        numbers=merged * hidden + 2 * out + 3 * inner, small=hidden + out + 2 * out,
    )  # fmt: skip
    return Tower(
        blocks=part.blocks(gated=True, biases=Biases(queries=has_bias), ffn=out), merged=merged, inputs=1,
        patches=merged, behind=behind,
        before=_patch(part, hidden, bias=True, small=_per_side(part) ** 2 * hidden + hidden),
    )  # fmt: skip


def _intern(part: EncoderPart) -> Tower:
    """InternVL, in the words of transformers and in its own."""
    hidden = part.size("hidden_size")
    merged = part.merged(part.whole, "downsample_ratio", default=0.5)
    has_means = part.value("norm_type") != "rms_norm"
    normed = part.is_on("use_qk_norm") or part.is_on("qk_normalization")
    has_bias = part.is_on("attention_bias") or part.is_on("qkv_bias")
    blocks = replace(
        part.blocks(biases=Biases(queries=has_bias, out=True, mlp=True, norms=has_means), rotary=False),
        norms=Norms(queries=hidden if normed else 0, keys=hidden if normed else 0),
        additions=(Addition(name="scales", numbers=2 * hidden, small=2 * hidden),),
    )  # fmt: skip
    positions = _per_side(part) ** 2 + 2  # and a token for the class, which has a position too
    last = 0 if part.is_on("use_mean_pooling") else (2 if has_means else 1) * hidden
    wide = merged * hidden
    return Tower(
        blocks=blocks, before=_patch(part, hidden, bias=True, small=positions * hidden), merged=merged, inputs=1,
        patches=merged, further=1,
        behind=two_layers(wide, part.hidden, part.hidden, norm=2 * wide, more=last),
    )  # fmt: skip


def _llama4(part: EncoderPart) -> Tower:
    hidden = part.size("hidden_size")
    merged = part.merged(part.part, "pixel_shuffle_ratio", default=0.5)
    inner, out = part.size("projector_input_dim"), part.size("projector_output_dim")
    behind = Addition(
        name="projector",
        products=(
            (part.size("intermediate_size"), inner), (out, out), (part.size("vision_output_dim"), part.hidden)
        ),
        numbers=merged * hidden + inner + out, small=2 * hidden,
    )  # fmt: skip
    positions = _per_side(part) ** 2 + 2
    return Tower(
        blocks=part.blocks(), merged=merged, inputs=1, patches=merged, further=1, behind=behind,
        before=_patch(part, hidden, bias=False, small=(positions + 2) * hidden),
    )  # fmt: skip


def _siglip(part: EncoderPart) -> Tower:
    """Gemma 3: patches are averaged, normed and projected. A pooling head is held, and never used."""
    hidden, side = part.size("hidden_size"), _per_side(part)
    inner = part.size("intermediate_size")
    pooling = 4 * hidden * hidden + 2 * hidden * inner + inner + 8 * hidden if part.is_on("vision_use_head") else 0
    tokens = part.whole.values.get("mm_tokens_per_image") or 256
    merged = max(1, side * side // tokens) if is_integer(tokens) else 1
    behind = Addition(
        name="projector",
        products=((hidden, part.hidden),),
        numbers=merged * hidden,
        small=hidden + 2 * hidden + pooling,
    )
    return Tower(
        blocks=part.blocks(rotary=False), merged=merged, inputs=1, patches=merged, behind=behind,
        before=_patch(part, hidden, bias=True, small=side * side * hidden),
    )  # fmt: skip


def _gemma4(part: EncoderPart) -> Tower:
    """Gemma 4: positions are two tables, for rows and columns; patches are averaged, normed and projected."""
    hidden, width, merged = part.size("hidden_size"), part.size("head_dim"), part.size("pooling_kernel_size") ** 2
    keys = part.size("num_key_value_heads")
    blocks = replace(
        part.blocks(gated=True, biases=Biases()), head_dim=width, kv_heads=keys,
        norms=Norms(of_layer=4, queries=width, keys=width),
        additions=(Addition(name="layernorm", place=Place.ATTENTION, numbers=keys * width),),
    )  # fmt: skip
    return Tower(
        blocks=blocks, merged=merged, inputs=1, patches=merged,
        before=_patch(part, hidden, bias=False, small=2 * part.size("position_embedding_size") * hidden),
        behind=Addition(name="projector", products=((hidden, part.hidden),), numbers=(merged + 1) * hidden),
    )  # fmt: skip


def _pixtral(part: EncoderPart) -> Tower:
    """Mistral 3: patches are normed and merged, then projected."""
    hidden = part.size("hidden_size")
    whole = part.whole
    has_merge = whole.values.get("spatial_merge_size") is not None
    merged = whole.integer("spatial_merge_size", MODEL_SIZE) ** 2 if has_merge else 4
    bias = 2 * part.hidden if part.whole.values.get("multimodal_projector_bias") is True else 0
    behind = Addition(
        name="projector",
        products=((merged * hidden, hidden), (hidden, part.hidden), (part.hidden, part.hidden)),
        numbers=merged * hidden + part.hidden, small=hidden + bias,
    )  # fmt: skip
    return Tower(
        blocks=part.blocks(gated=True, biases=Biases()), merged=merged, inputs=1, patches=merged, behind=behind,
        before=_patch(part, hidden, bias=False, small=hidden),
    )  # fmt: skip


def _kimi(part: EncoderPart) -> Tower:
    hidden = part.size("hidden_size")
    key = "merge_kernel_size"
    has_merge = part.part.values.get(key) is not None
    merged = prod(part.part.integers(key, MODEL_SIZE, length=2)) if has_merge else 4
    positions = part.size("pos_emb_height") * part.size("pos_emb_width")
    wide = merged * hidden
    return Tower(
        blocks=part.blocks(), merged=merged, inputs=1, patches=merged,
        before=_patch(part, hidden, bias=True, small=positions * hidden),
        behind=two_layers(wide, wide, part.hidden, norm=2 * hidden, more=2 * hidden),
    )  # fmt: skip


def _kimi_k3(part: EncoderPart) -> Tower:
    """Kimi K3: heads of a width of their own, no biases, and a norm behind the projector."""
    hidden, heads, attended = part.size("hidden_size"), part.size("heads"), part.size("qkv_hidden_size")
    if attended % heads:
        rule = _("must be a multiple of the heads ({heads})", heads=heads)
        raise part.fault("qkv_hidden_size", attended, rule)
    merged = prod(part.pair("merge_kernel_size"))
    positions = part.size("pos_emb_height") * part.size("pos_emb_width")
    wide = merged * hidden
    return Tower(
        blocks=part.blocks(biases=Biases(), head_dim=attended // heads), merged=merged, inputs=1, patches=merged,
        before=_patch(part, hidden, bias=False, small=positions * hidden),
        behind=two_layers(wide, wide, part.hidden, norm=part.hidden, bias=False, more=hidden),
    )  # fmt: skip


def _mllama(part: EncoderPart) -> Tower:
    """Llama 3.2 Vision: tiles of an image see each other, in blocks that are filled up to a multiple of 8 patches.

    The results of some blocks go to the decoder beside those of the last one.
    """
    hidden, tiles, of_tile = part.size("hidden_size"), part.size("max_num_tiles"), _per_side(part) ** 2 + 1
    last = part.size("num_global_layers")
    ratios = part.value("supported_aspect_ratios")
    ids = 1 + (len(ratios) if isinstance(ratios, list) else _RATIOS)
    blocks = part.blocks(biases=Biases(mlp=True, norms=True), rotary=False)
    gated = OwnSizes(additions=(Addition(name="residual", numbers=2 * hidden, small=2),))
    first = blocks.layers
    blocks = replace(blocks, layers=first + last, own=(None,) * first + (gated,) * last)
    embedded = hidden + of_tile * hidden + 1 + ids * tiles * of_tile * hidden + 2 * (ids * tiles * hidden + 1)
    read = part.size("vision_output_dim")
    return Tower(
        blocks=blocks, before=_patch(part, hidden, bias=False, small=embedded + 4 * hidden), merged=1, inputs=1,
        patches=tiles * of_tile, further=tiles * (-of_tile % _FILLED), is_beside=True,
        behind=Addition(name="projector", products=((read, part.hidden),), numbers=read, small=part.hidden),
    )  # fmt: skip


def _idefics(part: EncoderPart) -> Tower:
    """IDEFICS, whose decoder reads what the last block gives."""
    hidden, patches = part.size("embed_dim"), _per_side(part) ** 2 + 1
    if part.whole.values.get("use_resampler") is True:
        rule = _("must be false: what a resampler makes of images is not read")
        raise InputError(value=True, rule=rule, place=part.whole.place("use_resampler"))
    return Tower(
        blocks=part.blocks(hidden=hidden, rotary=False), merged=1, inputs=1, patches=patches, is_beside=True,
        before=_patch(part, hidden, bias=False, small=hidden + patches * hidden + 2 * hidden),
        behind=Addition(name="layernorm", numbers=hidden, small=2 * hidden),
    )  # fmt: skip


_RATIOS, _FILLED = 8, 8
_QWEN: Mapping[str, object] = {
    "layers": 32, "heads": 16, "colors": _COLORS, "patch_size": 14, "merge": 2, "frames": 2, "out_hidden_size": 3584
}  # fmt: skip
_QWEN3: Mapping[str, object] = {
    **_QWEN, "layers": 27, "hidden_size": 1152, "intermediate_size": 4304, "patch_size": 16,
    "num_position_embeddings": 2304,
}  # fmt: skip
_GLM: Mapping[str, object] = {
    **_QWEN, "layers": 24, "hidden_size": 1536, "heads": 12, "image_size": 336, "out_hidden_size": 4096,
    "intermediate_size": 13696,
}  # fmt: skip
_INTERN: Mapping[str, object] = {
    "hidden_size": 1024, "layers": 24, "heads": 16, "intermediate_size": 4096, "colors": _COLORS, "image_size": 448,
    "patch_size": 14, "use_mean_pooling": True,
}  # fmt: skip
IMAGE_ENCODERS: Mapping[str, tuple[Callable[[EncoderPart], Tower], Mapping[str, object]]] = {
    "qwen2_vl": (_qwen2, {**_QWEN, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4}),
    **dict.fromkeys(("qwen2_5_vl", "qwen2_5_omni_thinker"), (_qwen2_5, {
        **_QWEN, "hidden_size": 3584, "intermediate_size": 3420, "window_size": 112,
        "fullatt_block_indexes": (7, 15, 23, 31),
    })),
    **dict.fromkeys(
        ("qwen3_vl", "qwen3_vl_moe", "qwen3_omni_moe_thinker"),
        (_qwen3, {**_QWEN3, "deepstack_visual_indexes": (8, 16, 24)}),
    ),
    **dict.fromkeys(("qwen3_5", "qwen3_5_moe", "qwen4_exp"), (_qwen3, _QWEN3)),
    **dict.fromkeys(("glm4v", "glm4v_moe"), (_glm4, _GLM)),
    "internvl": (_intern, _INTERN),
    "internvl_chat": (_intern, {**_INTERN, "use_mean_pooling": True}),
    "llama4": (_llama4, {
        "hidden_size": 768, "layers": 34, "heads": 16, "colors": _COLORS, "intermediate_size": 5632,
        "vision_output_dim": 7680, "image_size": 448, "patch_size": 14,
        "projector_input_dim": 4096, "projector_output_dim": 4096,
    }),
    "gemma3": (_siglip, {
        "hidden_size": 768, "intermediate_size": 3072, "layers": 12, "heads": 12, "colors": _COLORS, "image_size": 224,
        "patch_size": 16, "vision_use_head": True,
    }),
    "gemma4": (_gemma4, {
        "hidden_size": 768, "intermediate_size": 3072, "layers": 16, "heads": 12, "num_key_value_heads": 12,
        "head_dim": 64, "colors": _COLORS, "patch_size": 16, "pooling_kernel_size": 3, "position_embedding_size": 10240,
    }),
    "mistral3": (_pixtral, {
        "hidden_size": 1024, "intermediate_size": 4096, "layers": 24, "heads": 16, "colors": _COLORS,
        "image_size": 1024, "patch_size": 16,
    }),
    "mllama": (_mllama, {
        "hidden_size": 1280, "layers": 32, "num_global_layers": 8, "heads": 16, "colors": _COLORS,
        "intermediate_size": 5120, "vision_output_dim": 7680, "image_size": 448, "patch_size": 14, "max_num_tiles": 4,
    }),
    "idefics": (_idefics, {
        "embed_dim": 768, "layers": 32, "heads": 16, "colors": _COLORS, "intermediate_size": 5120, "image_size": 224,
        "patch_size": 14,
    }),
    "kimi_k3": (_kimi_k3, {
        "patch_size": 14, "pos_emb_height": 64, "pos_emb_width": 64, "layers": 27, "heads": 12, "hidden_size": 1024,
        "intermediate_size": 4096, "qkv_hidden_size": 1536, "merge_kernel_size": (2, 2), "colors": _COLORS,
    }),
    "kimi_k25": (_kimi, {
        "patch_size": 14, "pos_emb_height": 64, "pos_emb_width": 64, "layers": 27, "heads": 16, "hidden_size": 1152,
        "intermediate_size": 4304, "colors": _COLORS,
    }),
}  # fmt: skip
"""Encoders by the type of the whole model: what reads them, and the fields that a file may leave out."""
