"""The encoder of images of a configuration: its blocks, its patches, and what makes tokens of the decoder of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isqrt, prod

from evenflow.errors import InputError
from evenflow.fields import Fields, is_integer
from evenflow.language import _
from evenflow.predict.layer_parts import Addition
from evenflow.predict.transformer import EVERY_BIAS, Biases, Norms, Tower, Transformer
from evenflow.ranges import MODEL_LAYERS, MODEL_SIZE, SHARE, Range

VISION_PART = "vision_config"
_COLORS = 3
_BLOCK = Range(least=0, most=MODEL_LAYERS.most)
_WINDOW = 2  # a token sees twice as many in all as before it (`Transformer.window`)
_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "layers": ("depth", "num_hidden_layers"),
    "heads": ("num_heads", "num_attention_heads"),
    "colors": ("in_channels", "in_chans", "num_channels"),
    "frames": ("temporal_patch_size",),
    "merge": ("spatial_merge_size",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """An encoder of images as a configuration has it, before anybody says which images there are."""

    tower: Tower
    """For one image of the usual size, or of one token where the configuration has no size."""
    patch_side: int
    """Side of a patch in pixels."""
    image_side: int | None
    """Usual side of an image in pixels."""

    @property
    def token_side(self) -> int:
        """Side in pixels of what becomes one token of the decoder."""
        return self.patch_side * isqrt(self.tower.merged)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vision:
    """The part of a configuration for images, and the whole of it."""

    part: Fields
    whole: Fields
    hidden: int
    """Of the decoder."""
    defaults: Mapping[str, object]

    def value(self, name: str) -> object:
        """Return a field under any of its names, or its default; None where there is neither."""
        names = _SPELLINGS.get(name, (name,))
        own = next((self.part.values[key] for key in names if self.part.values.get(key) is not None), None)
        return self.defaults.get(name) if own is None else own

    def size(self, name: str, within: Range = MODEL_SIZE) -> int:
        """Return a size; of a list of equal ones, one of them.

        Raises:
            InputError: no size, or one of a wrong type or out of its range.
        """
        value = self.value(name)
        if isinstance(value, list | tuple) and value and all(entry == value[0] for entry in value):
            value = value[0]
        if value is None:
            key = _SPELLINGS.get(name, (name,))[0]
            raise InputError(rule=_("must have the field {key!r}", key=key), place=self.part.place())
        if is_integer(value) and within.least <= value <= within.most:
            return value
        raise InputError(value=value, rule=within.rule, place=self._place(name))

    def _place(self, name: str) -> str:
        names = _SPELLINGS.get(name, (name,))
        return self.part.place(next((key for key in names if key in self.part.values), names[0]))

    def merged(self, fields: Fields, key: str, *, default: float) -> int:
        """Return the patches that become one token, from the side that is left of a side of patches (a ratio)."""
        ratio = fields.number(key, SHARE) if fields.values.get(key) is not None else default
        return round(1 / ratio**2)

    def places(self, name: str) -> tuple[int, ...]:
        """Return numbers of blocks."""
        value = self.value(name)
        if value is None or isinstance(value, tuple):
            return value or ()
        return self.part.integers(name, _BLOCK)

    def is_on(self, name: str) -> bool:
        """Return a flag, or its default."""
        return self.part.flag(name) if self.part.values.get(name) is not None else bool(self.defaults.get(name))

    def blocks(
        self,
        *,
        gated: bool = False,
        biases: Biases = EVERY_BIAS,
        rotary: bool = True,
        hidden: int | None = None,
        ffn: int | None = None,
    ) -> Transformer:
        """Return the blocks; `hidden` and `ffn` are theirs where the configuration has them under other names."""
        hidden, heads = self.size("hidden_size") if hidden is None else hidden, self.size("heads")
        if hidden % heads:
            rule = _("must divide the hidden size ({hidden}), or their width must be given", hidden=hidden)
            raise InputError(value=heads, rule=rule, place=self._place("heads"))
        return Transformer(
            hidden=hidden, layers=self.size("layers", MODEL_LAYERS), heads=heads, kv_heads=heads,
            head_dim=hidden // heads, ffn=self.size("intermediate_size") if ffn is None else ffn, vocabulary=1,
            gated=gated, biases=biases, positions=0 if rotary else 1, name="encoder",
        )  # fmt: skip

    def patch(self, hidden: int, *, bias: bool, small: int = 0) -> Addition:
        """Return what makes a vector of a patch; `small` are further numbers that it learns."""
        side, frames = self.size("patch_size"), self.size("frames") if self.value("frames") is not None else 1
        read = self.size("colors") * side * side * frames
        return Addition(
            name="patches", products=((read, hidden),), numbers=hidden, small=small + (hidden if bias else 0)
        )

    def per_side(self) -> int:
        """Return the patches along a side of an image of the usual size."""
        return self.size("image_size") // self.size("patch_size")


def _two_layers(read: int, inner: int, out: int, *, norm: int, bias: bool = True, more: int = 0) -> Addition:
    """Return a projector of two products; `norm` numbers are learned by its norm, `more` elsewhere."""
    biases = inner + out if bias else 0
    return Addition(
        name="projector",
        products=((read, inner), (inner, out)),
        numbers=read + inner,
        small=norm + biases + more,
    )


def _qwen2(vision: _Vision) -> Tower:
    """Qwen2-VL, whose `hidden_size` is that of the decoder."""
    hidden = vision.size("embed_dim")
    merged = vision.size("merge") ** 2
    wide = merged * hidden
    return Tower(
        blocks=vision.blocks(hidden=hidden, ffn=hidden * vision.size("mlp_ratio")), merged=merged, images=1,
        patches=merged, before=vision.patch(hidden, bias=False),
        behind=_two_layers(wide, wide, vision.size("hidden_size"), norm=2 * hidden),
    )  # fmt: skip


def _qwen2_5(vision: _Vision) -> Tower:
    hidden, merged = vision.size("hidden_size"), vision.size("merge") ** 2
    seen = (vision.size("window_size") // vision.size("patch_size")) ** 2
    blocks = replace(
        vision.blocks(gated=True, biases=Biases(queries=True, out=True, mlp=True)), window=seen // _WINDOW,
        unwindowed_layers=vision.places("fullatt_block_indexes"),
    )  # fmt: skip
    wide = merged * hidden
    return Tower(
        blocks=blocks, before=vision.patch(hidden, bias=False), merged=merged, images=1, patches=merged,
        behind=_two_layers(wide, wide, vision.size("out_hidden_size"), norm=hidden),
    )  # fmt: skip


def _qwen3(vision: _Vision) -> Tower:
    hidden, merged, out = vision.size("hidden_size"), vision.size("merge") ** 2, vision.size("out_hidden_size")
    wide = merged * hidden
    return Tower(
        blocks=vision.blocks(), merged=merged, images=1, patches=merged,
        before=vision.patch(hidden, bias=True, small=vision.size("num_position_embeddings") * hidden),
        behind=_two_layers(wide, wide, out, norm=2 * hidden),
        taps=vision.places("deepstack_visual_indexes"),
        tap=_two_layers(wide, wide, out, norm=2 * wide),
    )  # fmt: skip


def _glm4(vision: _Vision) -> Tower:
    hidden, merged, out = vision.size("hidden_size"), vision.size("merge") ** 2, vision.size("out_hidden_size")
    inner = vision.size("intermediate_size")
    has_bias = vision.is_on("attention_bias")
    behind = Addition(
        name="projector", products=((merged * hidden, out), (out, out), (out, 2 * inner), (inner, out)),
        numbers=merged * hidden + 2 * out + 3 * inner, small=hidden + out + 2 * out,
    )  # fmt: skip
    return Tower(
        blocks=vision.blocks(gated=True, biases=Biases(queries=has_bias), ffn=out), merged=merged, images=1,
        patches=merged, behind=behind,
        before=vision.patch(hidden, bias=True, small=vision.per_side() ** 2 * hidden + hidden),
    )  # fmt: skip


def _intern(vision: _Vision) -> Tower:
    """InternVL, in the words of transformers and in its own."""
    hidden = vision.size("hidden_size")
    merged = vision.merged(vision.whole, "downsample_ratio", default=0.5)
    has_means = vision.value("norm_type") != "rms_norm"
    normed = vision.is_on("use_qk_norm") or vision.is_on("qk_normalization")
    has_bias = vision.is_on("attention_bias") or vision.is_on("qkv_bias")
    blocks = replace(
        vision.blocks(biases=Biases(queries=has_bias, out=True, mlp=True, norms=has_means), rotary=False),
        norms=Norms(queries=hidden if normed else 0, keys=hidden if normed else 0),
        additions=(Addition(name="scales", numbers=2 * hidden, small=2 * hidden),),
    )  # fmt: skip
    positions = vision.per_side() ** 2 + 2  # and a token for the class, which has a position too
    last = 0 if vision.is_on("use_mean_pooling") else (2 if has_means else 1) * hidden
    wide = merged * hidden
    return Tower(
        blocks=blocks, before=vision.patch(hidden, bias=True, small=positions * hidden), merged=merged, images=1,
        patches=merged, further=1,
        behind=_two_layers(wide, vision.hidden, vision.hidden, norm=2 * wide, more=last),
    )  # fmt: skip


def _llama4(vision: _Vision) -> Tower:
    hidden = vision.size("hidden_size")
    merged = vision.merged(vision.part, "pixel_shuffle_ratio", default=0.5)
    inner, out = vision.size("projector_input_dim"), vision.size("projector_output_dim")
    behind = Addition(
        name="projector",
        products=(
            (vision.size("intermediate_size"), inner), (out, out), (vision.size("vision_output_dim"), vision.hidden)
        ),
        numbers=merged * hidden + inner + out, small=2 * hidden,
    )  # fmt: skip
    positions = vision.per_side() ** 2 + 2
    return Tower(
        blocks=vision.blocks(), merged=merged, images=1, patches=merged, further=1, behind=behind,
        before=vision.patch(hidden, bias=False, small=(positions + 2) * hidden),
    )  # fmt: skip


def _siglip(vision: _Vision) -> Tower:
    """Gemma 3: patches are averaged, normed and projected. A pooling head is held, and never used."""
    hidden, side = vision.size("hidden_size"), vision.per_side()
    inner = vision.size("intermediate_size")
    pooling = 4 * hidden * hidden + 2 * hidden * inner + inner + 8 * hidden if vision.is_on("vision_use_head") else 0
    tokens = vision.whole.values.get("mm_tokens_per_image") or 256
    merged = max(1, side * side // tokens) if is_integer(tokens) else 1
    behind = Addition(
        name="projector",
        products=((hidden, vision.hidden),),
        numbers=merged * hidden,
        small=hidden + 2 * hidden + pooling,
    )
    return Tower(
        blocks=vision.blocks(rotary=False), merged=merged, images=1, patches=merged, behind=behind,
        before=vision.patch(hidden, bias=True, small=side * side * hidden),
    )  # fmt: skip


def _pixtral(vision: _Vision) -> Tower:
    """Mistral 3: patches are normed and merged, then projected."""
    hidden = vision.size("hidden_size")
    whole = vision.whole
    has_merge = whole.values.get("spatial_merge_size") is not None
    merged = whole.integer("spatial_merge_size", MODEL_SIZE) ** 2 if has_merge else 4
    bias = 2 * vision.hidden if vision.whole.values.get("multimodal_projector_bias") is True else 0
    behind = Addition(
        name="projector",
        products=((merged * hidden, hidden), (hidden, vision.hidden), (vision.hidden, vision.hidden)),
        numbers=merged * hidden + vision.hidden, small=hidden + bias,
    )  # fmt: skip
    return Tower(
        blocks=vision.blocks(gated=True, biases=Biases()), merged=merged, images=1, patches=merged, behind=behind,
        before=vision.patch(hidden, bias=False, small=hidden),
    )  # fmt: skip


def _kimi(vision: _Vision) -> Tower:
    hidden = vision.size("hidden_size")
    key = "merge_kernel_size"
    has_merge = vision.part.values.get(key) is not None
    merged = prod(vision.part.integers(key, MODEL_SIZE, length=2)) if has_merge else 4
    positions = vision.size("pos_emb_height") * vision.size("pos_emb_width")
    wide = merged * hidden
    return Tower(
        blocks=vision.blocks(), merged=merged, images=1, patches=merged,
        before=vision.patch(hidden, bias=True, small=positions * hidden),
        behind=_two_layers(wide, wide, vision.hidden, norm=2 * hidden, more=2 * hidden),
    )  # fmt: skip


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
_TOWERS: Mapping[str, tuple[Callable[[_Vision], Tower], Mapping[str, object]]] = {
    "qwen2_vl": (_qwen2, {**_QWEN, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4}),
    "qwen2_5_vl": (_qwen2_5, {
        **_QWEN, "hidden_size": 3584, "intermediate_size": 3420, "window_size": 112,
        "fullatt_block_indexes": (7, 15, 23, 31),
    }),
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe"), (_qwen3, {**_QWEN3, "deepstack_visual_indexes": (8, 16, 24)})),
    **dict.fromkeys(("qwen3_5", "qwen3_5_moe"), (_qwen3, _QWEN3)),
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
    "mistral3": (_pixtral, {
        "hidden_size": 1024, "intermediate_size": 4096, "layers": 24, "heads": 16, "colors": _COLORS,
        "image_size": 1024, "patch_size": 16,
    }),
    "kimi_k25": (_kimi, {
        "patch_size": 14, "pos_emb_height": 64, "pos_emb_width": 64, "layers": 27, "heads": 16, "hidden_size": 1152,
        "intermediate_size": 4304, "colors": _COLORS,
    }),
}  # fmt: skip
"""Encoders by the type of the whole model: what reads them, and the fields that a file may leave out."""
READ_TYPES = tuple(_TOWERS)


def encoder_of(config: Fields, *, hidden: int) -> Encoder | InputError | None:
    """Return the encoder of images of a whole configuration whose decoder has this hidden size.

    None where it has none, or one of a type that is not read; an error where a size is missing or wrong, which matters
    only to those who have images.
    """
    model_type = config.values.get("model_type")
    if not isinstance(config.values.get(VISION_PART), dict) or model_type not in _TOWERS:
        return None
    read, defaults = _TOWERS[str(model_type)]
    part = config.inner(VISION_PART)
    vision = _Vision(part=part, whole=config, hidden=hidden, defaults=defaults)
    try:
        with part.at():
            tower = read(vision)
        side = vision.size("image_size") if vision.value("image_size") is not None else None
        return Encoder(tower=tower, patch_side=vision.size("patch_size"), image_side=side)
    except InputError as error:
        return error
