"""A plan as a fragment of TOML (0.2) or a Python module (from 0.3 on), and its order of work as a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent

from evenflow.language import _
from evenflow.model import Plan
from evenflow.predict.training import Sharding
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.degree_rules import check_no_capacity, check_shares_gradients
from evenflow.targets.frameworks.torchtitan.values import (
    BY_TOKENS,
    OLD,
    TITLE,
    TorchtitanSettings,
    assignments,
    modes_of,
    settings_of,
)
from evenflow.targets.target import Piece, Written
from evenflow.targets.torch.order_csv import FILE_NAME, order_piece, runtime_notes

MODULE = "evenflow_plan.py"
"""The usual name of the Python module."""
_MICROBATCH = "pipeline_parallel_microbatch_size"
_WHOLE_LOSS = (
    'if hasattr(config.loss, "loss_fn"):  # a chunked loss and split backwards lose the gradient of the last norm',
    "    config.loss = config.loss.loss_fn",
)


def write(plan: Plan, version: str) -> Written:
    """Return `plan` for torchtitan; raises InputError for an order that its runtime cannot load."""
    settings = settings_of(plan, version)
    by_tokens = version == BY_TOKENS
    number = {"num_pp_microbatches": plan.num_microbatches}
    pipeline = _Sections(
        training={} if by_tokens else {"local_batch_size": plan.num_microbatches},
        parallelism={**settings.parallelism, **(number if by_tokens else {_MICROBATCH: 1})},
        settings=settings,
        has_pipeline=True,
    )
    if by_tokens:
        tokens = _("num_tokens_per_microbatch_per_dp_rank is the size of a microbatch, which the plan does not change")
        return _written(pipeline, version, tokens)
    batch = _(
        "a step has local_batch_size / pipeline_parallel_microbatch_size = {count} microbatches; with larger "
        "microbatches, multiply both",
        count=plan.num_microbatches,
    )
    return _written(pipeline, version, batch)


def write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    """Return `plan` with what its stages of several devices do; raises InputError for what torchtitan does not."""
    has_pipeline = plan.num_ranks > 1
    settings = settings_of(plan, version)
    number = {"num_pp_microbatches": planned.num_microbatches}
    split = number if version == BY_TOKENS else {_MICROBATCH: planned.microbatch}
    pipeline = {**settings.parallelism, **split} if has_pipeline else {}
    training = tokens_of(planned) if version == BY_TOKENS else training_of(planned, has_pipeline=has_pipeline)
    sections = _Sections(
        training=training,
        parallelism={**parallelism_of(planned, version), **pipeline},
        settings=settings,
        has_pipeline=has_pipeline,
    )
    devices = _("start it on {devices} devices, node after node", devices=planned.degrees.devices)
    return _written(sections, version, devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sections:
    """What is written, whatever the syntax."""

    training: Mapping[str, object]
    parallelism: Mapping[str, object]
    settings: TorchtitanSettings
    has_pipeline: bool


def _written(sections: _Sections, version: str, note: str) -> Written:
    settings = sections.settings
    if version != OLD:
        piece = Piece(
            title=_("Python module, whose function changes a configuration of your config_registry.py"),
            syntax="python",
            text=_python(sections),
            file_name=MODULE,
        )
        notes: tuple[str, ...] = (
            _(
                "call with_plan in a function of your config_registry.py, such as return with_plan(llama3_70b()); "
                "{module} must be importable there",
                module=MODULE,
            ),
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
        piece = Piece(title=_("tables of your TOML file"), syntax="toml", text=_toml(sections))
        notes = ()
    if not sections.has_pipeline:
        return Written(pieces=(piece,), notes=(note, *notes))
    place = _("{file} is looked for from the folder in which the training starts", file=FILE_NAME)
    return Written(
        pieces=(piece, order_piece(settings.schedule)),
        notes=(place, note, *notes, *runtime_notes(settings.schedule)),
    )


def _toml(sections: _Sections) -> str:
    lines = [
        "[training]",
        *assignments(sections.training),
        "",
        "[parallelism]",
        *assignments(sections.parallelism),
        "",
        "[activation_checkpoint]",
        *assignments(modes_of(sections.settings.layers_by_kind)),
    ]
    return "\n".join(lines) + "\n"


def _python(sections: _Sections) -> str:
    settings = sections.settings
    head = ['"""The plan of evenflow for torchtitan."""', ""]
    if settings.layers_by_kind:
        head += ["from evenflow.adapters.torchtitan import recompute_layers", ""]
    graphs = "config.training.disable_cuda_graphs = True  # they do not go with a pipeline"
    cut = "config.parallelism.pipeline_parallel_layers_per_stage = None"
    body = [
        '"""Return a configuration of a trainer that runs the plan."""',
        *assignments(sections.training, prefix="config.training."),
        *((graphs,) if sections.has_pipeline else ()),
        *assignments(sections.parallelism, prefix="config.parallelism."),
        *((cut,) if sections.has_pipeline else ()),
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


_RESHARDED = {Sharding.GRADIENTS: "never", Sharding.PARAMETERS: "always"}
"""Whether FSDP gives up gathered parameters after the forward; it has gradients and optimizer state split always."""


def parallelism_of(planned: PlannedDegrees, version: str) -> dict[str, object]:
    """Return the settings of the section `parallelism` for everything but the pipeline.

    Raises:
        InputError: ZeRO-1 or a capacity of experts, which torchtitan does not have.
    """
    degrees = planned.degrees
    check_no_capacity(planned, title=TITLE)
    check_shares_gradients(planned, title=TITLE)
    copies = degrees.data if degrees.sharding is Sharding.NOTHING else planned.replicas
    settings: dict[str, object] = {
        "data_parallel_replicate_degree": copies,
        "data_parallel_shard_degree": degrees.data // copies,
        "tensor_parallel_degree": degrees.tensor,
        "context_parallel_degree": degrees.context,
        "expert_parallel_degree": degrees.expert,
    }
    if version == OLD and degrees.expert > 1 and degrees.expert_tensor is not None:
        settings["expert_tensor_parallel_degree"] = degrees.expert_tensor
    if degrees.sharding in _RESHARDED:
        settings["fsdp_reshard_after_forward"] = _RESHARDED[degrees.sharding]
    return settings


def tokens_of(planned: PlannedDegrees) -> dict[str, object]:
    """Return the settings of the section `training` where batches are counted in tokens."""
    return {
        "num_tokens_per_microbatch_per_dp_rank": planned.microbatch * planned.sequence,
        "num_tokens_per_train_step": planned.global_batch * planned.sequence,
        "max_context_length": planned.sequence,
    }


def training_of(planned: PlannedDegrees, *, has_pipeline: bool) -> dict[str, object]:
    """Return the settings of the section `training`: a pipeline cuts the local batch, else gradients accumulate."""
    microbatches = planned.num_microbatches if has_pipeline else 1
    return {
        "local_batch_size": planned.microbatch * microbatches,
        "global_batch_size": planned.global_batch,
        "seq_len": planned.sequence,
    }
