"""The options of ``evenflow predict``."""

from dataclasses import dataclass, field
from pathlib import Path

from evenflow.asking import asked, asked_as, optional
from evenflow.cli.shared import options
from evenflow.cli.shared.training.encoder_options import ENCODER, FIRST
from evenflow.cli.shared.training.model_options import HALF_BLOCKS, RECOMPUTE_SETS, ModelOptions
from evenflow.cli.shared.training.training_options import TrainingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictOptions:
    """What ``evenflow predict`` is asked for: an option for each field."""

    described: ModelOptions = field(metadata=asked(group=ModelOptions))
    training: TrainingOptions = field(metadata=asked(group=TrainingOptions))
    encoder: str = field(
        default=FIRST,
        metadata=asked_as(
            ENCODER,
            help="Where the layer file (-o) has the encoders of images and sound: in the first stage, as layers that a "
            "plan may spread over stages, apart from the pipeline, on all ranks, or there, in its bubbles too.",
        ),
    )
    half_blocks: bool = field(
        default=False,
        metadata=asked_as(
            HALF_BLOCKS,
            help="The layer file (-o) has attention and what follows it, an MLP or experts, as layers of their own, so "
            "that a stage may begin between them.",
        ),
    )
    recompute_sets: str | None = field(default=None, metadata=RECOMPUTE_SETS)
    layer_file: Path | None = optional(
        "--output", letter="-o", is_written=True, help="Write the layer file of one device, for `evenflow plan`."
    )
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)
