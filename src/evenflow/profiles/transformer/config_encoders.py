"""The encoders of a configuration, of images and of sound."""

from collections.abc import Iterator, Mapping

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _
from evenflow.predict.transformer import Modality
from evenflow.profiles.transformer.config_audio import AUDIO_ENCODERS, AudioEncoder
from evenflow.profiles.transformer.config_encoder import EncoderPart
from evenflow.profiles.transformer.config_images import IMAGE_ENCODERS, ImageEncoder, image_encoder

Encoder = ImageEncoder | AudioEncoder
PARTS: Mapping[Modality, str] = {Modality.IMAGE: "vision_config", Modality.AUDIO: "audio_config"}
"""The part of a configuration that each kind of encoder has."""
READ_TYPES: Mapping[Modality, tuple[str, ...]] = {
    Modality.IMAGE: tuple(IMAGE_ENCODERS),
    Modality.AUDIO: tuple(AUDIO_ENCODERS),
}
"""Types of whole models whose encoders are read."""


def encoders_of(config: Fields, *, hidden: int) -> Mapping[Modality, Encoder | InputError]:
    """Return the encoders of a whole configuration whose decoder has this hidden size, by what they read.

    Those of a type that is not read are left out; an error stands for one where a size is missing or wrong, which
    matters only to those who have images or sounds.
    """
    return dict(_encoders(config, hidden))


def _encoders(config: Fields, hidden: int) -> Iterator[tuple[Modality, Encoder | InputError]]:
    model_type = str(config.values.get("model_type"))
    for modality, key in PARTS.items():
        if model_type not in READ_TYPES[modality]:
            continue
        if not isinstance(config.values.get(key), dict):
            yield modality, InputError(rule=_("must have the field {key!r}", key=key), place=config.place())
            continue
        part = config.inner(key)
        try:
            with part.at():
                yield modality, _encoder(modality, model_type, part, config, hidden)
        except InputError as error:
            yield modality, error


def _encoder(modality: Modality, model_type: str, part: Fields, config: Fields, hidden: int) -> Encoder:
    if modality is Modality.IMAGE:
        read, defaults = IMAGE_ENCODERS[model_type]
        return image_encoder(EncoderPart(part=part, whole=config, hidden=hidden, defaults=defaults), read)
    read_audio, defaults = AUDIO_ENCODERS[model_type]
    return read_audio(EncoderPart(part=part, whole=config, hidden=hidden, defaults=defaults))
