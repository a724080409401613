"""The two-level plan of a model from its configuration alone: nothing is loaded and no memory is needed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from evenflow.asking import takes
from evenflow.cluster import Accelerator, Cluster, Dtype, accelerator_named, parse_dtype
from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields
from evenflow.language import _
from evenflow.model.kept_per_parameter import kept_bytes, rest_of
from evenflow_torch.auto.batch_sizes import plan_batches
from evenflow_torch.auto.deadline import Deadline
from evenflow_torch.auto.evaluate import OwnCut, evaluate_row
from evenflow_torch.auto.fixing.fixed import Fixed
from evenflow_torch.auto.planner import AutoPlan, plan_row
from evenflow_torch.auto.sharding.overlap import Overlap
from evenflow_torch.auto.stages.meshes_tried import uneven_notes
from evenflow_torch.auto.stages.request import TIME_LIMIT_S, TwoLevelRequest, silent
from evenflow_torch.auto.step_sizes import step_sizes
from evenflow_torch.models.parts import ModelRow
from evenflow_torch.requests import AutoRequest


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What is decided of a two-level plan, and how long the search may take."""

    fixed: Fixed | None = None
    own: OwnCut | None = None
    only_plain: bool = False
    time_limit_s: float = TIME_LIMIT_S
    deadline: Deadline | None = None
    name: str = "model"
    progress: Callable[[str], None] = silent


@dataclass(frozen=True, kw_only=True)
class ConfigRequest(Decided, AutoRequest):
    """What `evenflow.auto.plan_config` is asked for."""

    config: Fields | Mapping[str, object] = field(kw_only=False)
    cluster: Cluster = field(kw_only=False)


@takes(ConfigRequest)
def plan_config(request: ConfigRequest) -> AutoPlan:
    """Return the two-level plan of the model that `config`, the contents of a ``config.json``, describes.

    A step has `num_microbatches` of `microbatch` sequences of `sequence` tokens, for all devices of a stage together,
    by default one for each device of the cluster. With `global_batch`, the sequences of a step, size and number of
    microbatches are chosen; where one of them is given too, it determines the other. A model with encoder and decoder
    has for each sequence a target of `target_sequence` tokens, by default as many.

    Large matrix products reach the share `efficiency` of the peak of `accelerator`, or of `cluster` where that states
    its own; None: the accelerator's own share. `optimizer` is one of `evenflow.model.kept_per_parameter.OPTIMIZERS`, or
    `bytes_per_parameter` says what weight, gradient and state take in all. `overlap` is an `Overlap`, or names as it
    has. A `deadline` stands for the time limit where the time began before this call. With `own` nothing is searched,
    and the plan with the degrees of `fixed` is priced. With `only_plain`, which asks for a size of microbatches, layers
    are sharded as people write it by hand. The other arguments are those of `evenflow.auto.plan`.

    Raises:
        InputError: sizes of a step that do not agree, a model that transformers does not build or that cannot be
            cut, an unknown accelerator, dtype or optimizer, an efficiency that is no share.
    """
    return plan_training(request.config, request.cluster, request, request)


def plan_training(
    config: Fields | Mapping[str, object], cluster: Cluster, request: AutoRequest, decided: Decided
) -> AutoPlan:
    """Return the two-level plan of a model under a training, as `plan_config` does."""
    deadline = decided.deadline or Deadline.after(decided.time_limit_s)
    sizes = step_sizes(request, usual=cluster.num_devices, can_choose=decided.own is None)
    number, progress = parse_dtype(request.dtype), decided.progress
    rates, origin = _rates(request.accelerator, request.efficiency, cluster, number)
    if request.bytes_per_parameter is None:
        state_bytes = kept_bytes(request.optimizer, weight_bytes=number.item_bytes).state
    else:
        state_bytes = rest_of(request.bytes_per_parameter, number.item_bytes)
    progress(_("building the model"))
    fields = config if isinstance(config, Fields) else as_fields(dict(config), file=decided.name)
    rows = partial(_read_row, fields, request, decided.name)
    problem = TwoLevelRequest(
        cluster=cluster,
        accelerator=rates,
        optimizer_bytes_per_parameter=state_bytes,
        overlap=Overlap.of(request.overlap),
        most_axes=request.most_axes,
        schedule=request.schedule,
        fixed=decided.fixed or Fixed(),
        expert_capacity=request.expert_capacity,
        deadline=deadline,
    )
    if sizes is None:
        assert request.global_batch is not None
        plan = plan_batches(rows, problem, global_batch=request.global_batch, progress=progress)
    else:
        size, count = sizes
        row, problem = rows(size), replace(problem, num_microbatches=count)
        if decided.own is None:
            plan = plan_row(row, problem, progress=progress, only_plain=decided.only_plain)
        else:
            plan = evaluate_row(row, problem, decided.own, progress=progress)
    uneven = () if sizes is None else uneven_notes(sizes[0], problem)
    return replace(plan, notes=(origin, *plan.row.notes, *plan.notes, *uneven))


def _read_row(config: Fields, request: AutoRequest, name: str, microbatch: int) -> ModelRow:
    """Return the model as a row of layers: from the parts of a known family, else as torch exports it."""
    from evenflow_torch.models.families.family_training_row import read_family
    from evenflow_torch.models.families.table import FAMILIES
    from evenflow_torch.models.training_row import read_decoder

    model_type = config.text("model_type")
    family = FAMILIES.get(model_type)
    sequence, target_sequence, dtype = request.sequence, request.target_sequence, parse_dtype(request.dtype)
    if target_sequence is not None and not (family and family.has_source):
        raise InputError(
            value=target_sequence,
            rule=_("must not be given for a {model_type}, which has one sequence", model_type=model_type),
            place="--target-seq",
            remedy=_("leave it out; --seq is its length"),
        )
    if family is None:
        return read_decoder(config, sequence=sequence, microbatch=microbatch, dtype=dtype, name=name)
    return read_family(
        config,
        sequence=sequence,
        target_sequence=target_sequence or sequence,
        microbatch=microbatch,
        dtype=dtype,
        name=name,
    )


def _rates(
    accelerator: str | Accelerator, efficiency: float | None, cluster: Cluster, dtype: Dtype
) -> tuple[Accelerator, str]:
    """Return the rates of one device, and where they come from, as a sentence."""
    known = accelerator_named(accelerator) if isinstance(accelerator, str) else accelerator
    if dtype not in known.flops_per_s_of:
        known_dtypes = ", ".join(known.flops_per_s_of)
        raise InputError(
            value=str(dtype),
            rule=_(
                "must be a number format that {name} has a rate for: {known_dtypes}",
                name=known.name,
                known_dtypes=known_dtypes,
            ),
            place="dtype",
        )
    peak = cluster.peak_flops or known.rate(dtype)
    device = replace(known, flops_per_s_of={**known.flops_per_s_of, dtype: peak}).reaching(efficiency)
    return device, device.origin([dtype])
