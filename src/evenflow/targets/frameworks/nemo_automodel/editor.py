"""A user's recipe of NeMo AutoModel with all that a plan decides, otherwise byte for byte the same."""

from evenflow.export.train_yaml import BOM, apply_to_training_yaml
from evenflow.fields import is_integer
from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.yaml_file import load_yaml, optional_section
from evenflow.ranges import MICROBATCHES
from evenflow.targets.frameworks.nemo_automodel.writer import MICROBATCH, NAMES, PARTS, pipeline_settings
from evenflow.targets.torch.module_names import names_in_parts

_RECOMPUTED = (True, "full")


def apply(text: str, file: str, plan: Plan) -> str:
    """Return the text of a recipe that runs `plan` with microbatches of the size that it has.

    Modules keep the names that the recipe has; without any they are those of most models of transformers.

    Raises:
        InputError: text that is no YAML object, a global batch that is no multiple of the new local one, modules whose
            names do not tell where they belong, or a value that cannot be set without changing something else.
    """
    bom = BOM if text.startswith(BOM) else ""
    text = text.removeprefix(BOM)
    top = load_yaml(text, file=file)
    scheduler, distributed = optional_section(top, "step_scheduler"), optional_section(top, "distributed")
    pipeline = optional_section(distributed, "pipeline")
    size = pipeline.integer(MICROBATCH, MICROBATCHES) if MICROBATCH in pipeline else 1
    batch = plan.num_microbatches * size
    whole = scheduler.values.get("global_batch_size")
    if is_integer(whole) and whole % batch:
        rule = _("must be a multiple of {batch}, the microbatches of the plan on one rank", batch=batch)
        raise scheduler.error("global_batch_size", rule)
    listed = pipeline.values.get(PARTS)
    names = NAMES if listed is None else names_in_parts(listed, place=pipeline.place(PARTS))
    mode = distributed.values.get("activation_checkpointing", False)
    is_recomputed = bool(plan.used_kinds)
    # What says the same in other words stays.
    stays = mode in _RECOMPUTED if is_recomputed else mode in (False, None)
    values = {
        "step_scheduler.local_batch_size": batch,
        "distributed.pp_size": plan.num_ranks,
        "distributed.activation_checkpointing": mode if stays else is_recomputed,
        **{f"distributed.pipeline.{key}": value for key, value in pipeline_settings(plan, names).items()},
    }
    return bom + apply_to_training_yaml(text, file=file, values=values)
