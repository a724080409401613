"""The options of the images in a sequence, and of the encoder that they go through."""

from dataclasses import dataclass, replace

from evenflow import ranges
from evenflow.asking import asked, optional
from evenflow.cli.shared.training.sections import MODEL
from evenflow.errors import InputError
from evenflow.language import _, _n
from evenflow.predict.transformer import Tower
from evenflow.profiles.transformer.config_tower import READ_TYPES, Encoder
from evenflow.profiles.transformer.numbers import Described

FIRST, SPREAD, APART = "first", "spread", "apart"
PLACES = (FIRST, SPREAD, APART)
"""Where the encoder of images may be: in the first stage, cut over stages as any other layers, or on all ranks, before
and behind the pipeline.
"""
ENCODER = asked(
    option="--encoder",
    section=MODEL,
    choices=PLACES,
    shows_default=True,
    help="Where the encoder of images is: in the first stage, as frameworks have it; spread over the first stages, "
    "a layer like any other; or apart from the pipeline, on all ranks.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOptions:
    """What was given of images."""

    images: int | None = optional(
        "--images",
        ranges.MODEL_SIZE,
        section=MODEL,
        help="Images of a sequence, which go through the encoder of the model.  [default: none, without the encoder]",
    )
    image_size: int | None = optional(
        "--image-size",
        ranges.MODEL_SIZE,
        section=MODEL,
        metavar="PIXELS",
        help="Side of an image.  [default: that of the configuration]",
    )
    freeze_encoder: bool = optional(
        "--freeze-encoder",
        default=False,
        section=MODEL,
        help="The encoder of images is not trained; what joins it to the decoder is.",
    )
    recompute_encoder: bool = optional(
        "--recompute-encoder",
        default=False,
        section=MODEL,
        help="The backward computes the encoder of images again, which keeps the inputs of its blocks alone.",
    )


def with_images(transformer: Described, options: ImageOptions) -> Described:
    """Return the model with the encoder of images in front of it, where sequences have images.

    Raises:
        InputError: images for a model without an encoder that is read, or of a size that is not known or not whole
            patches; options of images without any.
    """
    encoder = transformer.encoder
    if options.images is None:
        for value, name in (
            (options.image_size, "--image-size"),
            (options.freeze_encoder or None, "--freeze-encoder"),
            (options.recompute_encoder or None, "--recompute-encoder"),
        ):
            if value is not None:
                raise InputError(value=None if value is True else value, rule=_("must come with --images"), place=name)
        if not isinstance(encoder, Encoder):
            return transformer
        note = _("the encoder of images is left out; --images N counts it for N images of a sequence")
        return replace(transformer, notes=(*transformer.notes, note))
    if isinstance(encoder, InputError):
        raise encoder
    if encoder is None:
        raise InputError(
            value=options.images,
            rule=_("must not be given: the model has no encoder of images that is read"),
            place="--images",
            remedy=_("leave it out; read are those of {types}", types=", ".join(READ_TYPES)),
        )
    side = _side(encoder, options.image_size)
    tower = replace(
        encoder.tower,
        images=options.images,
        patches=(side // encoder.patch_side) ** 2,
        frozen=options.freeze_encoder,
        recomputed=options.recompute_encoder,
    )
    notes = [_tower_note(tower, side)]
    if options.freeze_encoder:
        notes.append(_("the encoder of images is not trained; what joins it to the decoder is"))
    if options.recompute_encoder and options.freeze_encoder:
        rule = _("must not be given beside --freeze-encoder: without a backward nothing is computed again")
        raise InputError(rule=rule, place="--recompute-encoder", remedy=_("leave one of the two out"))
    return replace(transformer, model=replace(transformer.model, tower=tower), notes=(*transformer.notes, *notes))


def _side(encoder: Encoder, asked_for: int | None) -> int:
    """Return the side of an image in pixels."""
    side = encoder.image_side if asked_for is None else asked_for
    of_token = encoder.token_side
    if side is None:
        raise InputError(
            rule=_("must be given: the configuration says no size of images"),
            place="--image-size",
            remedy=_("add it, a multiple of {count} pixels", count=of_token),
        )
    if side % of_token or side < of_token:
        raise InputError(
            value=side,
            rule=_("must be a multiple of {count} pixels, the side of what becomes a token", count=of_token),
            place="--image-size",
            remedy=_("use {number}", number=max(of_token, round(side / of_token) * of_token)),
        )
    return side


def _tower_note(tower: Tower, side: int) -> str:
    return _n(
        "{layers} blocks encode an image of {side} x {side} pixels: {patches:,} patches, {tokens:,} tokens of a "
        "sequence",
        "{layers} blocks encode {count} images of {side} x {side} pixels: {patches:,} patches each, {tokens:,} tokens "
        "of a sequence",
        layers=tower.blocks.layers,
        count=tower.images,
        side=side,
        patches=tower.patches,
        tokens=tower.tokens,
    )
