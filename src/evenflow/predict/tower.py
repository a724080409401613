"""The encoder of images in front of a decoder as trainings of its own, whose layers are priced as any others.

Its blocks see an image at a time, every patch all others. Devices that share a sequence do all of its images each, and
so do those that share layers where the heads of the encoder do not divide by them.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from evenflow.model import FULL, NONE
from evenflow.predict.layer_parts import Addition
from evenflow.predict.training import Training
from evenflow.predict.transformer import LayerKind, Tower, Transformer


@dataclass(frozen=True, slots=True, kw_only=True)
class TowerPart:
    """Equal parts of an encoder: blocks, or what is before or behind them."""

    training: Training
    """The training whose tokens they work on."""
    part: LayerKind | Addition
    is_trained: bool
    count: int = 1
    kind: str = NONE
    """Recompute kind of blocks."""


def tower_parts(training: Training) -> Iterator[TowerPart]:
    """Yield the parts of the encoder, equal ones together; none where the model has none."""
    tower = training.model.tower
    if tower is None:
        return
    is_trained = trains_blocks(training.model)
    of_patches = patch_training(training, tower)
    yield TowerPart(training=of_patches, part=tower.before, is_trained=is_trained)
    for kind, count in Counter(block_kinds(training.model)).items():
        again = FULL if tower.recomputed else NONE
        yield TowerPart(training=of_patches, part=kind, is_trained=is_trained, count=count, kind=again)
    yield from projector_parts(training, tower)


def projector_parts(training: Training, tower: Tower) -> Iterator[TowerPart]:
    """Yield what makes tokens of the decoder of the blocks' results."""
    of_tokens, is_trained = token_training(training, tower), training.model.trains_ends[0]
    yield TowerPart(training=of_tokens, part=tower.behind, is_trained=is_trained)
    if tower.tap is not None and tower.taps:
        yield TowerPart(training=of_tokens, part=tower.tap, is_trained=is_trained, count=len(tower.taps))


def trains_blocks(model: Transformer) -> bool:
    """Return whether the blocks of the encoder are trained."""
    return model.tower is not None and not model.tower.frozen and model.trains_ends[0]


def block_kinds(model: Transformer) -> tuple[LayerKind, ...]:
    """Return the kinds of the blocks of the encoder."""
    if model.tower is None:
        return ()
    is_frozen = not trains_blocks(model)
    return tuple(replace(kind, frozen=is_frozen) for kind in model.tower.blocks.kinds)


def patch_training(training: Training, tower: Tower) -> Training:
    """Return the training of the encoder's blocks, whose sequences are images."""
    return _part_of(training, tower.blocks, sequences=tower.images, tokens=tower.patches + tower.further)


def token_training(training: Training, tower: Tower) -> Training:
    """Return the training of its projectors, whose tokens are those that the decoder gets."""
    return _part_of(training, tower.blocks, sequences=1, tokens=tower.tokens)


def is_split(training: Training) -> bool:
    """Return whether the devices that share layers share those of the encoder too."""
    tower = training.model.tower
    return tower is None or tower.blocks.heads % training.degrees.tensor == 0


def _part_of(training: Training, model: Transformer, *, sequences: int, tokens: int) -> Training:
    degrees = replace(training.degrees, context=1, tensor=training.degrees.tensor if is_split(training) else 1)
    return replace(
        training, model=model, microbatch=training.microbatch * sequences, sequence=tokens,
        global_batch=training.global_batch * sequences, degrees=degrees,
        software=replace(training.software, skips_masked=False),
    )  # fmt: skip
