"""A user's TOML file of torchtitan 0.2 with all that a plan decides, otherwise byte for byte the same."""

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, Plan
from evenflow.predict.training import PRODUCTS
from evenflow.profiles.yaml_file import optional_section
from evenflow.ranges import MICROBATCHES
from evenflow.targets.frameworks.torchtitan.settings_file import is_json, settings_of_file
from evenflow.targets.frameworks.torchtitan.values import OLD, literal, modes_of, settings_of
from evenflow.targets.toml_edit import set_values

_SIZE = "pipeline_parallel_microbatch_size"


def apply(text: str, file: str, plan: Plan) -> str:
    """Return the text of a TOML file that runs `plan` with microbatches of the size that it has.

    Raises:
        InputError: text that is not TOML or has its tables in an unusual form, and what `settings_of` refuses.
    """
    if is_json(text) or file.endswith(".py"):
        raise InputError(
            rule=_("must be the TOML file of a run of torchtitan 0.2"),
            place=file,
            remedy=_("for later versions, call the module that evenflow export writes"),
        )
    parallelism = optional_section(settings_of_file(text, file), "parallelism")
    size = parallelism.integer(_SIZE, MICROBATCHES) if _SIZE in parallelism else 1
    settings = settings_of(plan, OLD)
    under = settings.layers_by_kind
    if under and not any(len(under.get(kind, ())) == plan.num_layers for kind in (FULL, PRODUCTS)):
        raise InputError(
            value=", ".join(under),
            rule=_("must be full or products for all layers, or none, for a TOML file of torchtitan"),
            place="recompute",
            remedy=_("plan with --target torchtitan --version-of {version}", version=OLD),
        )
    return set_values(
        text,
        {
            "training": {"local_batch_size": literal(plan.num_microbatches * size)},
            "parallelism": {
                **{key: literal(value) for key, value in settings.parallelism.items()},
                # It would be checked against the usual number of stages, even where the parts are listed.
                "pipeline_parallel_layers_per_stage": None,
            },
            "activation_checkpoint": {key: literal(value) for key, value in modes_of(under).items()},
        },
        file=file,
    )
