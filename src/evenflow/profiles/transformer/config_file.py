"""A configuration of Hugging Face (config.json) as a transformer in plain numbers, without building it.

Sizes are found under all of their names, so that models of an unknown type are read by their fields; what a type
implies beyond its fields is in `families`.
"""

import json
import re
from dataclasses import replace
from pathlib import Path

from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields, did_you_mean, load_json, read_text
from evenflow.language import _, looked_up
from evenflow.model.config_sizes import check_config_sizes
from evenflow.predict.transformer import Biases
from evenflow.profiles.transformer.config_chunks import with_chunked_layers
from evenflow.profiles.transformer.config_encoders import PARTS, encoders_of
from evenflow.profiles.transformer.config_image_layers import image_attention, with_image_layers
from evenflow.profiles.transformer.config_indexer import indexed_layers, indexer_of
from evenflow.profiles.transformer.config_layer import narrow_ends, output_gate
from evenflow.profiles.transformer.config_layer_sizes import sizes_of_layers
from evenflow.profiles.transformer.config_layers import experts_of, window_of
from evenflow.profiles.transformer.config_loops import loops_of, with_own_layers
from evenflow.profiles.transformer.config_patches import patched_numbers
from evenflow.profiles.transformer.config_shared import shared_blocks, with_listed_layers
from evenflow.profiles.transformer.config_states import layer_kinds, states_of
from evenflow.profiles.transformer.families import FAMILIES
from evenflow.profiles.transformer.field_names import (
    BESIDE_TEXT,
    DROPOUTS,
    LAYER_NORMS,
    OTHER_PARTS,
    SPEAKING_PART,
    TEXT_PARTS,
    corrected,
    misspelt_error,
    unread_fields,
)
from evenflow.profiles.transformer.numbers import Described, Numbers, described, notes_on
from evenflow.profiles.transformer.refused_types import INSTEAD, REFUSED, REFUSED_FIELDS, STATE_SPACE
from evenflow.profiles.transformer.spellings import Configuration
from evenflow.profiles.transformer.traits import ONLY, SWITCHED, ModelTypeTraits

_TYPE = re.compile(r"[A-Za-z0-9_.-]+")


def read_transformer(path: Path | str) -> Described:
    """Return the transformer that a config.json describes, with notes; `path` is the file, or the folder that has it.

    Raises:
        InputError: a file that cannot be read or is not JSON, and as `transformer_of_config` does.
    """
    file = Path(path) / "config.json" if Path(path).is_dir() else Path(path)
    name = file.resolve().parent.name if file.stem == "config" else file.stem
    return transformer_of_config(as_fields(load_json(read_text(file), file=str(file)), file=str(file)), name=name)


def transformer_of_config(config: Fields, *, name: str = "model") -> Described:
    """Return the transformer that a configuration describes, with notes on what was assumed or left out.

    Raises:
        InputError: a model that is no decoder with attention in every layer, a missing size (its name and other
            spellings), a value of a wrong type or beyond its range, a field whose name is one edit away from one that
            would change the transformer.
    """
    try:
        read = _read(config, name=name)
    except InputError:
        for fields, wrong, known, right in corrected(config):
            if right is not None:
                raise misspelt_error(fields, wrong, known) from None
        raise
    notes = []
    for fields, wrong, known, right in corrected(config):
        if right is not None and not _is_same(read, right, name):
            raise misspelt_error(fields, wrong, known)
        place = fields.place(wrong)
        notes.append(_("{place} is not known and left out; did you mean {near!r}?", place=place, near=known))
    return replace(read, notes=(*read.notes, *notes))


def _is_same(read: Described, config: Fields, name: str) -> bool:
    """Return whether a configuration describes the transformer that was read."""
    try:
        return _read(config, name=name).model == read.model
    except InputError:
        return False


def _read(config: Fields, *, name: str) -> Described:
    check_config_sizes(config)
    notes: list[str] = []
    part, whole, tied = config, config, _tied(config)
    while (key := next((key for key in TEXT_PARTS if isinstance(part.values.get(key), dict)), None)) is not None:
        _refuse(part)
        if any(isinstance(part.values.get(name), dict) for name in PARTS.values()):
            whole = part
        part = _with_outer(part.inner(key), part)
        tied = tied if tied is not None else _tied(part)
        notes.append(_("the sizes are those of the part for text ({part})", part=part.path))
    _refuse(part)
    model_type = str(part.values.get("model_type") or config.values["model_type"])
    if not _TYPE.fullmatch(model_type):
        raise part.error("model_type", _("must be the name of a type of models, of letters, digits, - and _"))
    family = _family(part)
    is_known = family is not None
    read = Configuration(fields=part)
    if family is None:
        family = _by_fields(read)
        notes.append(_("models of type {model_type} are not known: it is read by its fields", model_type=model_type))
        if near := did_you_mean(model_type, FAMILIES):
            notes.append(near)
    if unread := unread_fields(part, is_known=is_known):
        names = ", ".join(unread)
        notes.append(_("left out are {names}: check whether they add parts to layers", names=names))
    _refuse_other_values(part, family)
    if family.defaults:
        read = read.changed({**family.defaults, **part.values})
    read = with_image_layers(with_own_layers(with_listed_layers(read, family), family.loop), family.sees_images)
    read = with_chunked_layers(read, family.chunked)
    if tied and family.never_tied:
        notes.append(_("the output layer has a table of its own in every model of type {name}", name=model_type))
    if tied is None or family.never_tied:
        tied = family.tied
    numbers = (
        patched_numbers(read, tied=tied, name=name)
        if family.in_patches
        else _numbers(read, family, tied=tied, name=name)
    )
    notes += notes_on(numbers)
    if family.assumed:
        notes.append(looked_up(family.assumed))
    if frozen := [key for key in part.values if key.startswith("freeze_") and part.values[key] is True]:
        names = ", ".join(frozen)
        notes.append(
            _(
                "parts that the file freezes are taken to be trained ({names}); --freeze N says which layers are not",
                names=names,
            )
        )
    with part.at():
        transformer = described(numbers)
    encoders = encoders_of(whole, hidden=numbers.hidden)
    read_parts = [PARTS[modality] for modality, encoder in encoders.items() if not isinstance(encoder, InputError)]
    others = [key for key in OTHER_PARTS if key not in read_parts]
    if any(isinstance(fields.values.get(key), dict) for fields in (config, whole) for key in others):
        notes.insert(0, _("the parts for images and sound are left out"))
    if isinstance(config.values.get(SPEAKING_PART), dict):
        notes.insert(0, _("the part that speaks is left out ({part})", part=SPEAKING_PART))
    return replace(transformer, notes=(*notes, *transformer.notes), encoders=encoders)


def _with_outer(part: Fields, outer: Fields) -> Fields:
    """Return the part for text with what stands beside it: of blocks that predict further tokens, and its type."""
    beside = (*BESIDE_TEXT, "model_type")
    further = {key: outer.values[key] for key in beside if key in outer.values and part.values.get(key) is None}
    return replace(part, values={**part.values, **further})


def _tied(config: Fields) -> bool | None:
    """Return whether the output layer is the embedding's table, or None where the file does not say it."""
    return None if config.values.get("tie_word_embeddings") is None else config.flag("tie_word_embeddings")


def _family(config: Fields) -> ModelTypeTraits | None:
    """Return what the model type of a configuration implies; None for one that is not known."""
    model_type = str(config.values.get("model_type"))
    return FAMILIES.get(model_type) or FAMILIES.get(model_type.removesuffix("_text"))


def _refuse(config: Fields) -> None:
    """Refuse a model that is no decoder, or has layers that are not read."""
    model_type = config.values.get("model_type")
    reason = REFUSED.get(model_type) if isinstance(model_type, str) else None
    if reason is None and config.values.get("is_encoder_decoder") is True:
        reason = REFUSED_FIELDS["encoder_layers"]
    if reason is not None:
        raise _refused(model_type, reason, config.place("model_type"))
    family = _family(config)
    for key, why in REFUSED_FIELDS.items():
        is_read = family is not None and (key in family.reads or (why is STATE_SPACE and bool(family.state)))
        if config.values.get(key) and not is_read:
            raise _refused(config.values[key], why, config.place(key))
    for key, same, rule in (
        ("word_embed_proj_dim", "hidden_size", _("must be the hidden size")),
        ("output_vocab_size", "vocab_size", _("must be the vocabulary (vocab_size)")),
    ):
        if config.values.get(key) not in (None, config.values.get(same)):
            raise InputError(value=config.values[key], rule=rule, place=config.place(key))


def _refuse_other_values(config: Fields, family: ModelTypeTraits) -> None:
    """Refuse values of fields with which a type has other parts than those that are read."""
    for key, read in {**ONLY, **family.only}.items():
        value = config.values.get(key)
        if value is not None and value not in read:
            rule = _("must be {values}: models of this type are not read with another one", values=_listed(read))
            raise InputError(value=value, rule=rule, place=config.place(key))


def _listed(values: tuple[object, ...]) -> str:
    return _(" or ").join(json.dumps(value) for value in values)


def _refused(value: object, reason: str, place: str) -> InputError:
    instead = INSTEAD.get(value) if isinstance(value, str) else None
    return InputError(
        value=value,
        rule=_("is of a model that is not read: {reason}", reason=looked_up(reason)),
        place=place,
        remedy=looked_up(instead)
        if instead
        else _("describe its layers in a layer file, or measure its modules with evenflow profile"),
    )


def _by_fields(config: Configuration) -> ModelTypeTraits:
    """Return what the fields of an unknown type suggest: as Llama, unless they speak of another norm or activation."""
    activation = str(_activation(config) or "silu").lower()
    alone = ("relu", "xielu") if config.value("rms_norm_eps") is not None else ("relu", "xielu", "gelu")
    gated = not any(word in activation for word in alone)
    has_layer_norms = config.value("rms_norm_eps") is None and any(config.value(key) is not None for key in LAYER_NORMS)
    return ModelTypeTraits(gated=gated, biases=Biases(norms=has_layer_norms))


def _activation(config: Configuration) -> str | None:
    """Return the activation that a configuration names; raises InputError for what is no text."""
    for key in ("hidden_act", "activation_function"):
        if config.value(key) is not None:
            return config.fields.text(key)
    return None


def _numbers(config: Configuration, family: ModelTypeTraits, *, tied: bool, name: str) -> Numbers:
    _activation(config)
    hidden = config.required("hidden")
    kinds = layer_kinds(config, family)
    layers = len(kinds) if kinds and config.size("layers") is None else config.required("layers")
    states = states_of(config, family, hidden=hidden, layers=layers)
    experts = experts_of(config, family, layers=layers)
    window, unwindowed = window_of(config, family, layers=layers)
    windows = tuple(bool(window) and layer not in unwindowed for layer in range(layers))
    shared, loops = shared_blocks(config, family, kinds, hidden=hidden), loops_of(config, family.loop, layers=layers)
    images = image_attention(config, family.sees_images, layers=layers, hidden=hidden)
    sizes = sizes_of_layers(
        config, family, states, layers=layers, has_experts=experts is not None, windows=windows, kinds=kinds,
        shared=shared, images=images, loops=loops,
    )  # fmt: skip
    usual, further = sizes.usual, sizes.usual.further
    indexed, with_indexer = indexed_layers(config, kinds, layers=layers, whole_is_indexed=family.whole_is_indexed)
    positions = config.required("positions") + family.more_positions if family.learned_positions else further.positions
    return Numbers(
        hidden=hidden, layers=layers, heads=usual.heads, vocabulary=config.required("vocabulary"),
        kv_heads=usual.kv_heads, head_dim=usual.head_dim, value_dim=usual.value_dim, ffn=usual.ffn, gated=family.gated,
        tied=tied, biases=_biases(config, family), positions=positions, experts=experts, latent=usual.latent,
        norms=usual.norms, sinks=usual.sinks, states=states, output_gate=output_gate(config, family), window=window,
        unwindowed_layers=unwindowed, own=sizes.own, narrow_ends=narrow_ends(config, family),
        attention_experts=family.attention_experts and experts is not None,
        indexer=indexer_of(config) if indexed else None, indexed_layers=indexed, indexer_layers=with_indexer,
        additions=further.layer, head_additions=further.head, tail_additions=further.tail, repeats=family.repeats,
        shared=shared, images=images, loops=loops,
        streams=further.streams, carried=further.carried, handed_on=further.handed_on,
        reversible=further.reversible, output_width=further.output_width,
        fixed_sequence=further.fixed_sequence,
        bidirectional=further.bidirectional, distances=further.distances,
        predicted_tokens=config.size("predicted_tokens") or 0,
        further_mlp=family.further_mlp,
        dropout=_has_dropout(config), name=name,
    )  # fmt: skip


def _biases(config: Configuration, family: ModelTypeTraits) -> Biases:
    switched = {**SWITCHED, **family.switched}
    fields = [field for key, names in switched.items() if config.flag(key, default=key in family.on) for field in names]
    if config.size("experts") and family.expert_biases:
        fields.append("experts")
    return replace(family.biases, **dict.fromkeys(fields, True))


def _has_dropout(config: Configuration) -> bool:
    """Whether the configuration has any dropout."""
    values = [config.value(key) for key in DROPOUTS]
    return any(isinstance(value, int | float) and value > 0 for value in values)
