"""The degrees of parallelism in a plan file of `evenflow auto` or `evenflow tune`, read and written."""

from dataclasses import dataclass, replace

from evenflow.fields import Fields, not_one_of
from evenflow.language import _
from evenflow.model import Plan
from evenflow.predict.training import CONTEXT_EXCHANGES, Degrees, Sharding
from evenflow.ranges import CHUNKS, DEVICES, EXPERT_CAPACITY, MILLISECONDS, PART, RANKS, SEQUENCES, TOKENS

_NAMES = ("tensor", "context", "data", "expert", "replicas")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDegrees:
    """The degrees of parallelism that a framework is told beside its pipeline."""

    degrees: Degrees
    replicas: int
    """Groups of data-parallel devices that each hold the whole state, where they share it out (hybrid sharding)."""
    microbatch: int
    """Sequences of a microbatch of each copy of the model."""
    num_microbatches: int
    sequence: int
    """Tokens of a sequence."""
    expert_capacity: float | None = None
    """Shares of an equal load that an expert takes at most of the tokens that a device routes; None: no limit."""

    @property
    def global_batch(self) -> int:
        """Sequences of a step."""
        return self.microbatch * self.num_microbatches * self.degrees.data


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingDegrees:
    """Why the stages of a plan have no degrees in common, and the shortest plan as people write them that has some."""

    reason: str
    plain: str = ""
    """Its name; empty where the file has none."""
    plain_ms: float = 0.0
    """Its step in milliseconds."""


def read_degrees(fields: Fields) -> PlannedDegrees | MissingDegrees | None:
    """Return the degrees in a plan file, or why its stages have none in common; None for a pipeline alone.

    Raises:
        InputError: a field that is missing, of a wrong type or against the others.
    """
    if "degrees" not in fields:
        return None
    if fields.values["degrees"] is None:
        return _missing(fields)
    split = fields.inner("degrees")
    numbers = {name: split.integer(name, DEVICES) for name in _NAMES}
    if numbers["data"] % numbers["replicas"]:
        raise split.error("replicas", _("must divide 'data'"))
    zero = split.choice("zero", Sharding)
    together = fields.integer("microbatch", SEQUENCES)
    if together % numbers["data"]:
        raise fields.error("microbatch", _("must be a multiple of 'data', {data}", data=numbers["data"]))
    return PlannedDegrees(
        degrees=Degrees(
            tensor=numbers["tensor"],
            context=numbers["context"],
            data=numbers["data"],
            expert=numbers["expert"],
            expert_tensor=split.integer("expert_tensor", DEVICES) if "expert_tensor" in split else None,
            pipeline=split.integer("pipeline", RANKS),
            chunks=split.integer("chunks", CHUNKS),
            sequence_parallel=split.flag("sequence_parallel"),
            sharding=Sharding(zero),
            optimizer_offload=split.number("optimizer_offload", PART) if "optimizer_offload" in split else 0.0,
            # in a ring where the file does not say
            context_exchange=(
                split.choice("context_exchange", CONTEXT_EXCHANGES)
                if "context_exchange" in split
                else CONTEXT_EXCHANGES[0]
            ),
        ),
        replicas=numbers["replicas"],
        microbatch=together // numbers["data"],
        num_microbatches=fields.integer("microbatches", SEQUENCES),
        sequence=fields.integer("sequence", TOKENS),
        expert_capacity=expert_capacity_of(fields),
    )


def zero_stage(stage: object, *, place: str) -> Sharding:
    """Return what a stage of ZeRO shares out; raises InputError for a value that is none."""
    if isinstance(stage, bool) or str(stage) not in tuple(Sharding):
        raise not_one_of(stage, Sharding, place=place)
    return Sharding(str(stage))


def expert_capacity_of(fields: Fields) -> float | None:
    """Return the capacity of experts in a plan file; None where it has none."""
    return fields.number("expert_capacity", EXPERT_CAPACITY) if "expert_capacity" in fields else None


def _missing(fields: Fields) -> MissingDegrees:
    """Return why degrees are missing, with the shortest plan that has some, if the file names one."""
    plain = fields.objects("plain") if "plain" in fields else []
    steps = {
        plan.text("name"): plan.number("makespan_ms", MILLISECONDS)
        for plan in plain
        if plan.values.get("makespan_ms") is not None
    }
    name = min(steps, key=steps.__getitem__, default="")
    return MissingDegrees(reason=fields.text("degrees_missing"), plain=name, plain_ms=steps.get(name, 0.0))


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
        **({"optimizer_offload": degrees.optimizer_offload} if degrees.optimizer_offload else {}),
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
