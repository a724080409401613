"""A plan as a fragment of TOML (0.2) or a Python module (0.3), and its order of work as a file."""

from collections.abc import Mapping, Sequence
from textwrap import indent

from evenflow.language import _
from evenflow.model import Plan
from evenflow.targets.target import Piece, Written
from evenflow.targets.torch.order_csv import FILE_NAME, order_piece, split_note
from evenflow.targets.torchtitan.values import NEW, Settings, assignments, settings_of

MODULE = "evenflow_plan.py"
"""The usual name of the Python module."""
_WHOLE_LOSS = (
    'if hasattr(config.loss, "loss_fn"):  # a chunked loss and split backwards lose the gradient of the last norm',
    "    config.loss = config.loss.loss_fn",
)


def write(plan: Plan, version: str) -> Written:
    """Return `plan` for torchtitan; raises InputError for an order that its runtime cannot load."""
    settings = settings_of(plan, version)
    if version == NEW:
        piece = Piece(
            title=_("Python module, whose function changes a configuration of your config_registry.py"),
            syntax="python",
            text=_python(plan, settings),
            file_name=MODULE,
        )
        notes: tuple[str, ...] = (
            _(
                "call with_plan in a function of your config_registry.py, such as return with_plan(llama3_70b()); "
                "{module} must be importable there",
                module=MODULE,
            ),
            _("versions after 0.3.0 have parallelism.num_pp_microbatches in the place of both batch sizes"),
        )
        if settings.schedule.splits_backward:
            notes += (
                _(
                    "with split backwards PyTorch loses the gradient of the last norm under a ChunkedLossWrapper, so "
                    "the module takes the loss inside it, which needs the memory of all logits"
                ),
            )
        if settings.layers_by_kind:
            notes += (_("recomputation by layer needs evenflow in the environment of the training"),)
    else:
        piece = Piece(title=_("tables of your TOML file"), syntax="toml", text=_toml(plan, settings))
        notes = ()
    notes = (
        _("{file} is looked for from the folder in which the training starts", file=FILE_NAME),
        _(
            "a step has local_batch_size / pipeline_parallel_microbatch_size = {count} microbatches; with larger "
            "microbatches, multiply both",
            count=plan.num_microbatches,
        ),
        *notes,
        *split_note(settings.schedule),
    )
    return Written(pieces=(piece, order_piece(settings.schedule)), notes=notes)


def _toml(plan: Plan, settings: Settings) -> str:
    lines = [
        "[training]",
        f"local_batch_size = {plan.num_microbatches}",
        "",
        "[parallelism]",
        *assignments(settings.parallelism),
        "pipeline_parallel_microbatch_size = 1",
        "",
        "[activation_checkpoint]",
        f'mode = "{"full" if settings.layers_by_kind else "none"}"',
    ]
    return "\n".join(lines) + "\n"


def _python(plan: Plan, settings: Settings) -> str:
    head = ['"""The plan of evenflow for torchtitan."""', ""]
    if settings.layers_by_kind:
        head += ["from evenflow.adapters.torchtitan import recompute_layers", ""]
    body = [
        '"""Return a configuration of a trainer that runs the plan."""',
        f"config.training.local_batch_size = {plan.num_microbatches}",
        "config.training.disable_cuda_graphs = True  # they do not go with a pipeline",
        *assignments(settings.parallelism, prefix="config.parallelism."),
        "config.parallelism.pipeline_parallel_layers_per_stage = None",
        "config.parallelism.pipeline_parallel_microbatch_size = 1",
        *(_WHOLE_LOSS if settings.schedule.splits_backward else ()),
        f"config.activation_checkpoint = {_policy(settings.layers_by_kind)}",
        "return config",
    ]
    return "\n".join([*head, "", "def with_plan(config):", indent("\n".join(body), "    ")]) + "\n"


def _policy(layers_by_kind: Mapping[str, Sequence[int]]) -> str:
    if not layers_by_kind:
        return "None"
    lines = [f'    "{kind}": {list(layers)},' for kind, layers in layers_by_kind.items()]
    return "\n".join(["recompute_layers({", *lines, "})"])
