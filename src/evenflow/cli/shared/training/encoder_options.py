"""The options of what is in a sequence: images and sounds, with the encoders that they go through; bytes of a patch."""

from dataclasses import dataclass, replace

from evenflow import ranges
from evenflow.asking import asked, optional
from evenflow.cli.shared.training.sections import MODEL
from evenflow.errors import InputError
from evenflow.language import _, _n
from evenflow.predict.transformer import Modality, Patches, Tower
from evenflow.profiles.transformer.config_audio import AudioEncoder
from evenflow.profiles.transformer.config_encoders import READ_TYPES, Encoder
from evenflow.profiles.transformer.config_images import ImageEncoder
from evenflow.profiles.transformer.numbers import Described

FIRST, SPREAD, APART, BUBBLES = "first", "spread", "apart", "bubbles"
PLACES = (FIRST, SPREAD, APART, BUBBLES)
"""Where encoders may be: in the first stage, cut over stages as any other layers, or on all ranks, before and behind
the pipeline, in its bubbles too or not.
"""
BESIDE = (APART, BUBBLES)
"""Those on all ranks, beside the pipeline."""
ENCODER = asked(
    option="--encoder",
    section=MODEL,
    choices=PLACES,
    shows_default=True,
    help="Where the encoders of images and sound are: in the first stage, as frameworks have them; spread over the "
    "first stages, layers like any others; apart from the pipeline, on all ranks; or there, in its bubbles too.",
)
_IMAGES, _IMAGE_SIZE = "--images", "--image-size"
_CLIPS, _SECONDS = "--audio-clips", "--audio-seconds"
_BYTES = "--bytes-per-patch"


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderOptions:
    """What was given of images and sounds, and of the patches that bytes are grouped in."""

    images: int | None = optional(
        _IMAGES,
        ranges.MODEL_SIZE,
        section=MODEL,
        help="Images of a sequence, which go through the encoder of the model.  [default: none, without the encoder]",
    )
    image_size: int | None = optional(
        _IMAGE_SIZE,
        ranges.MODEL_SIZE,
        section=MODEL,
        metavar="PIXELS",
        help="Side of an image.  [default: that of the configuration]",
    )
    audio_clips: int | None = optional(
        _CLIPS,
        ranges.MODEL_SIZE,
        section=MODEL,
        help="Clips of sound in a sequence, which go through the encoder of the model.  [default: none, without the "
        "encoder]",
    )
    audio_seconds: int | None = optional(
        _SECONDS,
        ranges.MODEL_SIZE,
        section=MODEL,
        metavar="SECONDS",
        help="Length of a clip.  [default: what the encoder takes at once]",
    )
    bytes_per_patch: float | None = optional(
        _BYTES,
        ranges.PATCH,
        section=MODEL,
        metavar="BYTES",
        help="Bytes of a patch on average, for a model that groups the bytes of a sequence in patches.  [default: what "
        "its configuration aims at]",
    )
    freeze_encoder: bool = optional(
        "--freeze-encoder",
        default=False,
        section=MODEL,
        help="Encoders are not trained; what joins them to the decoder is.",
    )
    recompute_encoder: bool = optional(
        "--recompute-encoder",
        default=False,
        section=MODEL,
        help="The backward computes encoders again, which keep the inputs of their blocks alone.",
    )

    @property
    def counts(self) -> dict[Modality, int | None]:
        """Images and clips of a sequence; None: the encoder is left out."""
        return {Modality.IMAGE: self.images, Modality.AUDIO: self.audio_clips}


def needs_inputs() -> str:
    """Return the rule of what means nothing without an encoder."""
    return _("must come with {images} or {clips}", images=_IMAGES, clips=_CLIPS)


def with_encoders(transformer: Described, options: EncoderOptions) -> Described:
    """Return the model with the encoders in front of it whose images or sounds sequences have.

    Raises:
        InputError: images or sounds for a model without an encoder of them that is read, or of a size that is not known
            or that the encoder does not take; options of encoders without any; bytes of a patch for a model without.
    """
    _check_alone(options)
    towers: list[Tower] = []
    notes: list[str] = []
    for modality, count in options.counts.items():
        encoder = transformer.encoders.get(modality)
        if count is None:
            if encoder is not None and not isinstance(encoder, InputError):
                notes.append(_left_out(modality))
            continue
        tower, note = _sized(_read(encoder, modality, count), count, options)
        towers.append(replace(tower, frozen=options.freeze_encoder, recomputed=options.recompute_encoder))
        notes.append(note)
    if towers and options.freeze_encoder:
        notes.append(_("encoders are not trained; what joins them to the decoder is"))
    images = transformer.model.images
    if images is not None:
        images = replace(images, tokens=sum(tower.tokens for tower in towers if tower.is_beside))
    patches = _patches(transformer.model.patches, options.bytes_per_patch)
    if patches is not None:
        notes.append(_patch_note(patches, is_given=options.bytes_per_patch is not None))
    model = replace(transformer.model, towers=tuple(towers), images=images, patches=patches)
    return replace(transformer, model=model, notes=(*transformer.notes, *notes))


def _patches(patches: Patches | None, size: float | None) -> Patches | None:
    """Return patches of this size; raises InputError where the model has none."""
    if size is None:
        return patches
    if patches is None:
        rule = _("must not be given: the model does not group bytes in patches")
        raise InputError(value=size, rule=rule, place=_BYTES, remedy=_("leave it out"))
    return replace(patches, size=size)


def _patch_note(patches: Patches, *, is_given: bool) -> str:
    if is_given:
        return _("tokens are bytes; a patch has {size:g} of them on average", size=patches.size)
    return _(
        "tokens are bytes; a patch is taken to have {size:g} of them on average (patch_size); {option} says how many "
        "it has in your data",
        size=patches.size,
        option=_BYTES,
    )


def _check_alone(options: EncoderOptions) -> None:
    """Refuse options that mean nothing beside the others, or against them."""
    has_any = any(count is not None for count in options.counts.values())
    for value, name, is_right, needed in (
        (options.image_size, _IMAGE_SIZE, options.images is not None, _("must come with {option}", option=_IMAGES)),
        (options.audio_seconds, _SECONDS, options.audio_clips is not None, _("must come with {option}", option=_CLIPS)),
        (options.freeze_encoder or None, "--freeze-encoder", has_any, needs_inputs()),
        (options.recompute_encoder or None, "--recompute-encoder", has_any, needs_inputs()),
    ):
        if value is not None and not is_right:
            raise InputError(value=None if value is True else value, rule=needed, place=name)
    if options.recompute_encoder and options.freeze_encoder:
        rule = _("must not be given beside --freeze-encoder: without a backward nothing is computed again")
        raise InputError(rule=rule, place="--recompute-encoder", remedy=_("leave one of the two out"))


def _left_out(modality: Modality) -> str:
    if modality is Modality.IMAGE:
        return _("the encoder of images is left out; --images N counts it for N images of a sequence")
    return _("the encoder of sound is left out; --audio-clips N counts it for N clips of a sequence")


def _read(encoder: Encoder | InputError | None, modality: Modality, count: int) -> Encoder:
    """Return an encoder that is read."""
    if isinstance(encoder, InputError):
        raise encoder
    if encoder is not None:
        return encoder
    is_image = modality is Modality.IMAGE
    no_images, no_sound = (
        _("must not be given: the model has no encoder of images that is read"),
        _("must not be given: the model has no encoder of sound that is read"),
    )
    raise InputError(
        value=count,
        rule=no_images if is_image else no_sound,
        place=_IMAGES if is_image else _CLIPS,
        remedy=_("leave it out; read are those of {types}", types=", ".join(READ_TYPES[modality])),
    )


def _sized(encoder: Encoder, count: int, options: EncoderOptions) -> tuple[Tower, str]:
    """Return an encoder for so many images or clips of a sequence, and what is said of it."""
    if isinstance(encoder, ImageEncoder):
        side = _side(encoder, options.image_size)
        tower = encoder.of_images(count, side=side)
        return tower, _image_note(tower, count, side)
    seconds = _seconds(encoder, options.audio_seconds)
    tower = encoder.of_clips(count, seconds=seconds)
    return tower, _audio_note(tower, count, seconds)


def _side(encoder: ImageEncoder, asked_for: int | None) -> int:
    """Return the side of an image in pixels."""
    side = encoder.image_side if asked_for is None else asked_for
    of_token = encoder.token_side
    if side is None:
        raise InputError(
            rule=_("must be given: the configuration says no size of images"),
            place=_IMAGE_SIZE,
            remedy=_("add it, a multiple of {count} pixels", count=of_token),
        )
    if encoder.is_fixed and side != encoder.image_side:
        rule = _("must be {count}: images, or the tiles of each, are made this large", count=encoder.image_side)
        raise InputError(value=side, rule=rule, place=_IMAGE_SIZE, remedy=_("leave it out"))
    if side % of_token or side < of_token:
        raise InputError(
            value=side,
            rule=_("must be a multiple of {count} pixels, the side of what becomes a token", count=of_token),
            place=_IMAGE_SIZE,
            remedy=_("use {number}", number=max(of_token, round(side / of_token) * of_token)),
        )
    return side


def _seconds(encoder: AudioEncoder, asked_for: int | None) -> int:
    """Return the length of a clip."""
    seconds = encoder.usual_seconds if asked_for is None else asked_for
    if seconds is None:
        raise InputError(
            rule=_("must be given: the encoder takes clips of any length"), place=_SECONDS, remedy=_("add it")
        )
    if encoder.most_seconds is not None and seconds > encoder.most_seconds:
        rule = _("must be at most {count}: the encoder takes no longer clip", count=encoder.most_seconds)
        raise InputError(
            value=seconds, rule=rule, place=_SECONDS, remedy=_("use {number}", number=encoder.most_seconds)
        )
    if encoder.of_clips(1, seconds=seconds).tokens == 0:
        raise InputError(value=seconds, rule=_("must be longer: no token comes of such a clip"), place=_SECONDS)
    return seconds


def _image_note(tower: Tower, count: int, side: int) -> str:
    if tower.is_beside:
        return _n(
            "{layers} blocks encode an image: {tokens:,} tokens beside the sequence",
            "{layers} blocks encode {count} images: {tokens:,} tokens beside the sequence",
            layers=tower.blocks.layers,
            count=count,
            tokens=tower.tokens,
        )
    return _n(
        "{layers} blocks encode an image of {side} x {side} pixels: {patches:,} patches, {tokens:,} tokens of a "
        "sequence",
        "{layers} blocks encode {count} images of {side} x {side} pixels: {patches:,} patches each, {tokens:,} tokens "
        "of a sequence",
        layers=tower.blocks.layers,
        count=count,
        side=side,
        patches=tower.patches,
        tokens=tower.tokens,
    )


def _audio_note(tower: Tower, count: int, seconds: int) -> str:
    frames = tower.inputs * (tower.patches + tower.further)
    return _n(
        "{layers} blocks encode a clip of {seconds} s: {frames:,} frames, {tokens:,} tokens of a sequence",
        "{layers} blocks encode {count} clips of {seconds} s: {frames:,} frames, {tokens:,} tokens of a sequence",
        layers=tower.blocks.layers,
        count=count,
        seconds=seconds,
        frames=frames,
        tokens=tower.tokens,
    )
