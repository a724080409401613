"""The degrees of a two-level plan in torchtitan's settings."""

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.training import Sharding
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.degree_refusals import check_no_capacity
from evenflow.targets.frameworks.torchtitan.values import OLD, TITLE

_RESHARDED = {Sharding.GRADIENTS: "never", Sharding.PARAMETERS: "always"}
"""Whether FSDP gives up gathered parameters after the forward; it has gradients and optimizer state split always."""


def parallelism_of(planned: PlannedDegrees, version: str) -> dict[str, object]:
    """Return the settings of the section `parallelism` for everything but the pipeline.

    Raises:
        InputError: ZeRO-1 or a capacity of experts, which torchtitan does not have.
    """
    degrees = planned.degrees
    check_no_capacity(planned, title=TITLE)
    if degrees.sharding is Sharding.OPTIMIZER:
        raise InputError(
            value="ZeRO-1",
            rule=_(
                "must be data parallelism, ZeRO-2 or FSDP: torchtitan does not share out the optimizer's state alone"
            ),
            place=_("the plan"),
            remedy=_("plan again with --fix zero=2, or run the plan with evenflow run"),
        )
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


def training_of(planned: PlannedDegrees, *, has_pipeline: bool) -> dict[str, object]:
    """Return the settings of the section `training`: a pipeline cuts the local batch, else gradients accumulate."""
    microbatches = planned.num_microbatches if has_pipeline else 1
    return {
        "local_batch_size": planned.microbatch * microbatches,
        "global_batch_size": planned.global_batch,
        "seq_len": planned.sequence,
    }
