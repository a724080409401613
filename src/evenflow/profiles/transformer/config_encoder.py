"""The part of a configuration that an encoder has: its sizes under all of their names, and its blocks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from evenflow.errors import InputError
from evenflow.fields import Fields, is_integer
from evenflow.language import _
from evenflow.predict.layer_parts import Addition
from evenflow.predict.transformer import EVERY_BIAS, Biases, Transformer
from evenflow.ranges import MODEL_LAYERS, MODEL_SIZE, SHARE, Range

_BLOCK = Range(least=0, most=MODEL_LAYERS.most)
_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "layers": (
        "depth",
        "num_hidden_layers",
        "encoder_layers",
        "num_blocks",
        "conf_num_hidden_layers",
        "vt_num_hidden_layers",
    ),
    "heads": (
        "num_heads",
        "num_attention_heads",
        "attention_heads",
        "encoder_attention_heads",
        "conf_num_attention_heads",
        "vt_num_attention_heads",
    ),
    "hidden_size": ("hidden_size", "d_model", "vt_hidden_size"),
    "intermediate_size": ("intermediate_size", "encoder_ffn_dim", "vt_intermediate_size"),
    "pos_emb_height": ("pos_emb_height", "init_pos_emb_height"),
    "pos_emb_width": ("pos_emb_width", "init_pos_emb_width"),
    "colors": ("in_channels", "in_chans", "num_channels"),
    "frames": ("temporal_patch_size",),
    "merge": ("spatial_merge_size",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderPart:
    """The part of a configuration for an encoder, and the whole of it."""

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
        raise self.fault(name, value, within.rule)

    def fault(self, name: str, value: object, rule: str) -> InputError:
        """Return the refusal of the value of a field, under the name that it has in the file."""
        names = _SPELLINGS.get(name, (name,))
        place = self.part.place(next((key for key in names if key in self.part.values), names[0]))
        return InputError(value=value, rule=rule, place=place)

    def merged(self, fields: Fields, key: str, *, default: float) -> int:
        """Return the patches that become one token, from the side that is left of a side of patches (a ratio)."""
        ratio = fields.number(key, SHARE) if fields.values.get(key) is not None else default
        return round(1 / ratio**2)

    def pair(self, name: str) -> tuple[int, int]:
        """Return two sizes."""
        if self.part.values.get(name) is None:
            first, second = cast("tuple[int, int]", self.defaults[name])
        else:
            first, second = self.part.integers(name, MODEL_SIZE, length=2)
        return first, second

    def text(self, name: str) -> str:
        """Return a text, or its default."""
        return self.part.text(name) if self.part.values.get(name) is not None else str(self.defaults[name])

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
        head_dim: int | None = None,
    ) -> Transformer:
        """Return the blocks; `hidden` and `ffn` are theirs where the configuration has them under other names.

        A head is as wide as the hidden size by the heads, unless `head_dim` says it.
        """
        hidden, heads = self.size("hidden_size") if hidden is None else hidden, self.size("heads")
        if head_dim is None and hidden % heads:
            rule = _("must divide the hidden size ({hidden}), or their width must be given", hidden=hidden)
            raise self.fault("heads", heads, rule)
        return Transformer(
            hidden=hidden, layers=self.size("layers", MODEL_LAYERS), heads=heads, kv_heads=heads,
            head_dim=head_dim or hidden // heads, ffn=self.size("intermediate_size") if ffn is None else ffn,
            vocabulary=1, gated=gated, biases=biases, positions=0 if rotary else 1, name="encoder",
        )  # fmt: skip


def two_layers(read: int, inner: int, out: int, *, norm: int, bias: bool = True, more: int = 0) -> Addition:
    """Return a projector of two products; `norm` numbers are learned by its norm, `more` elsewhere."""
    biases = inner + out if bias else 0
    return Addition(
        name="projector",
        products=((read, inner), (inner, out)),
        numbers=read + inner,
        small=norm + biases + more,
    )
