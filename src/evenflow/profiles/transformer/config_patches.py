"""Models of bytes whose layers in the middle work on patches of them, from a configuration. [BLT, arXiv:2412.09871]"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _
from evenflow.predict.layer_parts import Addition, PatchAttention
from evenflow.predict.transformer import OwnSizes, Patches, Transformer
from evenflow.profiles.transformer.numbers import Numbers
from evenflow.profiles.transformer.spellings import Configuration

_BEFORE, _BETWEEN, _BEHIND, _CHOOSER = "encoder_config", "global_config", "decoder_config", "patcher_config"
PATCH_PARTS = (_BEFORE, _BETWEEN, _BEHIND, _CHOOSER)
"""Objects of a configuration: layers before the patches, on them and behind them, and what chooses where they begin."""
_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    _BEFORE: {
        "hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 1, "vocab_size": 260, "cross_attn_k": 2,
    },
    _BETWEEN: {
        "hidden_size": 2048, "num_attention_heads": 16, "num_hidden_layers": 25, "intermediate_size": 5632,
    },
    _BEHIND: {
        "hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 9, "intermediate_size": 2816,
        "cross_attn_k": 2, "hidden_size_global": 2048,
    },
    _CHOOSER: {
        "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 14, "intermediate_size": 2048,
        "vocab_size": 260, "sliding_window": 512,
    },
}  # fmt: skip
"""Fields that a file may leave out."""
_TOP: Mapping[str, object] = {
    "vocab_size": 260, "patch_size": 4, "local_attention_window_len": 512, "cross_attn_k": 2,
    "encoder_hash_byte_group_size": [3, 4, 5, 6, 7, 8], "encoder_hash_byte_group_vocab": 500_002,
    "encoder_hash_byte_group_nb_functions": 1,
}  # fmt: skip


def patched_numbers(config: Configuration, *, tied: bool, name: str) -> Numbers:
    """Return a model of bytes: the row of layers before the patches, on them, and behind them.

    The last layer before them makes patches, which those behind see: all of these, or the first.

    Raises:
        InputError: a missing or wrong size, sizes that do not fit each other.
    """
    config = config.changed({key: value for key, value in _TOP.items() if config.value(key) is None})
    before, between, behind = (_part(config, key) for key in (_BEFORE, _BETWEEN, _BEHIND))
    hidden, wide, parts = behind.required("hidden"), between.required("hidden"), config.required("patch_parts")
    for part, size, value, of in (
        (before, "hidden", hidden, f"{_BEHIND}.hidden_size"),
        (before, "vocabulary", config.required("vocabulary"), "vocab_size"),
        (before, "patch_parts", parts, "cross_attn_k"),
        (behind, "patch_parts", parts, "cross_attn_k"),
        (behind, "patch_hidden", wide, f"{_BETWEEN}.hidden_size"),
    ):
        _require(part, size, value, of)
    counts = before.required("layers"), between.required("layers"), behind.required("layers")
    if counts[0] > 1 and before.flag("cross_attn_all_layers"):
        rule = _("must be false: models of this type are not read with another one")
        raise InputError(value=True, rule=rule, place=before.fields.place("cross_attn_all_layers"))
    heads = behind.required("heads")
    window = config.size("patch_window") or 0
    return Numbers(
        hidden=hidden, layers=sum(counts), vocabulary=config.required("vocabulary"), heads=heads,
        kv_heads=behind.size("kv_heads") or heads, head_dim=hidden // heads, ffn=_ffn(behind), gated=True, tied=tied,
        window=window, unwindowed_layers=tuple(range(counts[0], counts[0] + counts[1])) if window else (),
        own=(
            *_layers_before(before, parts), *_layers_between(between, parts * hidden),
            *_layers_behind(behind, parts, wide),
        ),
        head_additions=(_hashes(config, hidden),), patches=_patches(config),
        dropout=any(part.value("dropout") for part in (before, between, behind)), name=name,
    )  # fmt: skip


def _part(config: Configuration, key: str) -> Configuration:
    """Return an object of the file, with the fields that it leaves out."""
    given = config.fields.inner(key) if config.value(key) is not None else None
    values = {} if given is None else {name: value for name, value in given.values.items() if value is not None}
    path = key if given is None else given.path
    return Configuration(fields=Fields(values={**_DEFAULTS[key], **values}, file=config.fields.file, path=path))


def _require(part: Configuration, size: str, value: int, of: str) -> None:
    """Refuse a size that is not another one."""
    if part.required(size) != value:
        key = part.spelling(size) or size
        rule = _("must be {value}, as {field}", value=value, field=of)
        raise InputError(value=part.required(size), rule=rule, place=part.fields.place(key))


def _sizes(part: Configuration) -> OwnSizes:
    """Return the sizes of the layers of a part."""
    hidden, heads = part.required("hidden"), part.required("heads")
    return OwnSizes(
        hidden=hidden, heads=heads, kv_heads=part.size("kv_heads") or heads, head_dim=hidden // heads, ffn=_ffn(part)
    )


def _ffn(part: Configuration) -> int:
    return part.size("ffn") or 8 * part.required("hidden") // 3


def _layers_before(part: Configuration, parts: int) -> Iterator[OwnSizes]:
    """Yield the layers of bytes before the patches, which the last of them makes."""
    hidden, sizes = part.required("hidden"), _sizes(part)
    for _layer in range(part.required("layers") - 1):
        yield sizes
    crossing = PatchAttention(parts=parts, projected=hidden)
    yield replace(sizes, crossing=crossing, patch_width=parts * hidden)


def _layers_between(part: Configuration, given: int) -> Iterator[OwnSizes]:
    """Yield the layers of patches, of which the first projects them where they are not as wide as these layers."""
    hidden, sizes = part.required("hidden"), replace(_sizes(part), of_patches=True)
    projected = Addition(name="embedding", products=((given, hidden),))
    for layer in range(part.required("layers")):
        yield replace(sizes, additions=(projected,)) if layer == 0 and given != hidden else sizes


def _layers_behind(part: Configuration, parts: int, wide: int) -> Iterator[OwnSizes]:
    """Yield the layers of bytes behind the patches, which all of them see, or the first."""
    sizes, width = _sizes(part), parts * part.required("hidden")
    sees_all = part.flag("cross_attn_all_layers", default=True)
    for layer in range(part.required("layers")):
        crossing = PatchAttention(parts=parts, from_tokens=True, projected=0 if layer else wide)
        if layer and not sees_all:
            yield sizes
        else:
            yield replace(sizes, crossing=crossing, patch_width=width if sees_all else 0)


def _hashes(config: Configuration, hidden: int) -> Addition:
    """Return the tables in which groups of bytes are looked up, which are added to the embedding."""
    groups = len(config.integers("encoder_hash_byte_group_size")) * config.required("hash_functions")
    rows = groups * config.required("hash_rows")
    return Addition(name="embedding", table=rows * hidden, looked_up=groups * hidden)


def _patches(config: Configuration) -> Patches:
    chooser = _chooser(_part(config, _CHOOSER)) if config.flag("patch_in_forward", default=True) else None
    return Patches(size=config.required("patch_size"), chooser=chooser)


def _chooser(part: Configuration) -> Transformer:
    """Return the model that chooses where patches begin."""
    hidden, heads = part.required("hidden"), part.required("heads")
    return Transformer(
        hidden=hidden, layers=part.required("layers"), heads=heads, kv_heads=part.size("kv_heads") or heads,
        head_dim=hidden // heads, ffn=_ffn(part), vocabulary=part.required("vocabulary"),
        window=part.size("window") or 0, gated=True, name=_CHOOSER,
    )  # fmt: skip
