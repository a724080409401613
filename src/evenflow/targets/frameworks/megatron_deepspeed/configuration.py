"""The batch that the DeepSpeed configuration of a training script says."""

from pathlib import Path

from evenflow.fields import Fields, read_text
from evenflow.language import _
from evenflow.profiles.yaml_file import load_object
from evenflow.ranges import MICROBATCHES, TRAINED_SIZE
from evenflow.targets.megatron_family.arguments import Arguments
from evenflow.targets.megatron_family.baseline import data_parallel_size

_FLAG = "deepspeed_config"
_STEPS, _WHOLE, _MICRO = "gradient_accumulation_steps", "train_batch_size", "train_micro_batch_size_per_gpu"


def configured_microbatches(arguments: Arguments, num_ranks: int, notes: list[str]) -> int | None:
    """Return the microbatches of a step in the file that ``--deepspeed_config`` names; None where it does not tell.

    The file is looked for in the working directory and beside the script; where it is in neither, a note says so.

    Raises:
        InputError: the file is no object, or its batch is wrong or another than that of the script.
    """
    name = arguments.values.get(_FLAG)
    if name is None:
        return None
    fields = _configuration(str(name), Path(arguments.file).parent)
    if fields is None:
        notes.append(
            _("the DeepSpeed configuration {file} could not be read: its batch must be that of the script", file=name)
        )
        return None
    micro = arguments.integer("micro_batch_size", TRAINED_SIZE)
    own_micro = _number(fields, _MICRO)
    if micro is not None and own_micro is not None and own_micro != micro:
        raise fields.error(_MICRO, _("must be {count}, as --micro-batch-size of the script", count=micro))
    steps = _number(fields, _STEPS)
    whole, replicas = _number(fields, _WHOLE), data_parallel_size(arguments, num_ranks)
    if steps is None and whole is not None and replicas is not None and (micro or own_micro):
        of_step = (micro or own_micro or 1) * replicas
        if whole % of_step:
            raise fields.error(_WHOLE, _("must be a multiple of the {count} sequences of a microbatch", count=of_step))
        steps = whole // of_step
        MICROBATCHES.check(steps, place=fields.place(_WHOLE))
    return steps


def _number(fields: Fields, key: str) -> int | None:
    """Return a number of the configuration; None where it is not there, or left to the training script."""
    return None if fields.values.get(key) in (None, "auto") else fields.integer(key, TRAINED_SIZE)


def _configuration(name: str, folder: Path) -> Fields | None:
    for path in (Path(name), folder / name):
        try:
            if path.is_file():
                return load_object(read_text(path), file=str(path))
        except OSError:
            return None
    return None
