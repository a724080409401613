"""The encoders in front of a decoder as trainings of their own, whose layers are priced as any others.

Their blocks see an image or a clip of sound at a time, every patch all others. Devices that share a sequence do all of
its images each, and so do those that share layers where the heads of the encoder do not divide by them.
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
    fixed: int = 0
    """Numbers that each holds and that are never trained."""


def tower_parts(training: Training) -> Iterator[TowerPart]:
    """Yield the parts of all encoders, equal ones of each together; none where the model has none.

    What chooses where patches begin is among them.
    """
    yield from chooser_parts(training)
    for tower in training.model.towers:
        yield from parts_of_tower(training, tower)


def chooser_parts(training: Training) -> Iterator[TowerPart]:
    """Yield the parts of a model that chooses where patches of tokens begin, none of which is trained."""
    patches = training.model.patches
    if patches is None or patches.chooser is None:
        return
    model = patches.chooser
    is_shared = model.heads % training.degrees.tensor == 0
    degrees = training.degrees if is_shared else replace(training.degrees, tensor=1)
    of_tokens = replace(training, model=model, degrees=degrees)
    for kind, count in Counter(model.kinds).items():
        yield TowerPart(training=of_tokens, part=replace(kind, frozen=True), is_trained=False, count=count)
    size = model.hidden * model.vocabulary
    output = Addition(name="output", products=((model.hidden, model.vocabulary),), small=model.hidden)
    yield TowerPart(training=of_tokens, part=output, is_trained=False, fixed=size)


def parts_of_tower(training: Training, tower: Tower) -> Iterator[TowerPart]:
    """Yield the parts of one encoder, equal ones together."""
    yield from stem_parts(training, tower)
    is_trained = trains_blocks(training.model, tower)
    of_patches = patch_training(training, tower)
    for kind, count in Counter(block_kinds(training.model, tower)).items():
        again = FULL if tower.recomputed else NONE
        yield TowerPart(training=of_patches, part=kind, is_trained=is_trained, count=count, kind=again)
    yield from projector_parts(training, tower)


def stem_parts(training: Training, tower: Tower) -> Iterator[TowerPart]:
    """Yield what makes the input of the blocks."""
    is_trained = trains_blocks(training.model, tower)
    for stem in tower.before:
        works = patch_training(training, tower, times=stem.times)
        yield TowerPart(training=works, part=stem.part, is_trained=is_trained, fixed=stem.fixed)


def projector_parts(training: Training, tower: Tower) -> Iterator[TowerPart]:
    """Yield what makes tokens of the decoder of the blocks' results."""
    of_tokens, is_trained = token_training(training, tower), training.model.trains_ends[0]
    yield TowerPart(training=of_tokens, part=tower.behind, is_trained=is_trained)
    if tower.tap is not None and tower.taps:
        yield TowerPart(training=of_tokens, part=tower.tap, is_trained=is_trained, count=len(tower.taps))


def trains_blocks(model: Transformer, tower: Tower) -> bool:
    """Return whether the blocks of an encoder are trained."""
    return not tower.frozen and model.trains_ends[0]


def block_kinds(model: Transformer, tower: Tower) -> tuple[LayerKind, ...]:
    """Return the kinds of the blocks of an encoder."""
    is_frozen = not trains_blocks(model, tower)
    return tuple(replace(kind, frozen=is_frozen) for kind in tower.blocks.kinds)


def patch_training(training: Training, tower: Tower, *, times: int = 1) -> Training:
    """Return the training of an encoder's blocks, whose sequences are images or clips, so many `times` as many."""
    return _part_of(training, tower, sequences=times * tower.inputs, tokens=tower.patches + tower.further)


def token_training(training: Training, tower: Tower) -> Training:
    """Return the training of its projectors, whose tokens are those that the decoder gets."""
    return _part_of(training, tower, sequences=1, tokens=tower.tokens)


def is_split(training: Training, tower: Tower) -> bool:
    """Return whether the devices that share layers share those of an encoder too."""
    return tower.blocks.heads % training.degrees.tensor == 0


def _part_of(training: Training, tower: Tower, *, sequences: int, tokens: int) -> Training:
    degrees = replace(training.degrees, context=1, tensor=training.degrees.tensor if is_split(training, tower) else 1)
    return replace(
        training, model=tower.blocks, microbatch=training.microbatch * sequences, sequence=tokens,
        global_batch=training.global_batch * sequences, degrees=degrees,
        software=replace(training.software, skips_masked=False),
    )  # fmt: skip
