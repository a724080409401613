"""The degrees of parallelism of a plan, as `evenflow.profiles.plan_degrees` reads them back."""

from evenflow.predict.training import Degrees


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
