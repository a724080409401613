"""The degrees of parallelism of a plan, as `evenflow.profiles.plan_degrees` reads them back."""

from dataclasses import replace

from evenflow.model import Plan
from evenflow.predict.training import Degrees
from evenflow.profiles.plan_degrees import MissingDegrees, PlannedDegrees


def degrees_fields(degrees: Degrees, *, replicas: int = 1) -> dict[str, object]:
    """Return the degrees; `replicas` are groups of data-parallel devices that each hold the whole state.

    How experts are split and sequences are exchanged stands there only where it is not the usual way.
    """
    return {
        "tensor": degrees.tensor,
        "context": degrees.context,
        "expert": degrees.expert,
        **({} if degrees.expert_tensor is None else {"expert_tensor": degrees.expert_tensor}),
        "data": degrees.data,
        "replicas": replicas,
        "zero": degrees.sharding.value,
        "pipeline": degrees.pipeline,
        "chunks": degrees.chunks,
        "sequence_parallel": degrees.sequence_parallel,
        **({} if degrees.context == 1 else {"context_exchange": degrees.context_exchange}),
    }


def kept_degrees(planned: PlannedDegrees | MissingDegrees, plan: Plan) -> dict[str, object]:
    """Return the fields of degrees that were read from a plan file, for another plan of the same model."""
    if isinstance(planned, MissingDegrees):
        return {"degrees": None, "degrees_missing": planned.reason}
    degrees = replace(planned.degrees, pipeline=plan.num_ranks, chunks=plan.num_chunks)
    capacity = {} if planned.expert_capacity is None else {"expert_capacity": planned.expert_capacity}
    return {
        "degrees": degrees_fields(degrees, replicas=planned.replicas),
        "microbatch": planned.microbatch * degrees.data,
        "sequence": planned.sequence,
        **capacity,
    }
