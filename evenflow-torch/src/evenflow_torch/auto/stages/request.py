"""The request for a two-level plan: all that is asked for besides the model."""

from dataclasses import dataclass, field

from evenflow.cluster import A100, FEWEST_AXES, MOST_AXES, Accelerator, Cluster
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.ranges import EXPERT_CAPACITY
from evenflow_torch.auto.deadline import Deadline
from evenflow_torch.auto.fixing.fixed import Fixed
from evenflow_torch.auto.sharding.overlap import USUAL, Overlap
from evenflow_torch.auto.stages.in_flight import assumed_schedule

ADAM_STATE_BYTES = 12
"""Bytes that mixed precision keeps beside a 16-bit parameter and its gradient: a 32-bit copy and two moments.
[ZeRO, arXiv:1910.02054, §3.1]"""


NUM_MICROBATCHES = 16
"""Microbatches of a step where nothing is said."""
TIME_LIMIT_S = 60.0
"""Seconds for an answer where nothing is said."""


def silent(_step: str) -> None:
    """Ignore a progress message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLevelRequest:
    """The cluster, how a model is trained on it, at which rates its operators run, and until when to search.

    Raises InputError for sizes below their least and for a schedule that stages cannot be chosen for.
    """

    cluster: Cluster
    num_microbatches: int = NUM_MICROBATCHES
    """Microbatches of one step."""
    accelerator: Accelerator | None = A100
    """Rates of one device. Without them computation costs nothing, and stages are chosen by communication alone."""
    optimizer_bytes_per_parameter: int = ADAM_STATE_BYTES
    """Bytes kept for each parameter beside itself and its gradient."""
    overlap: Overlap = USUAL
    """What runs under the computation of a stage."""
    schedule: str = "1f1b"
    """The schedule that stages are chosen for; the refinement tries others."""
    deadline: Deadline = field(default_factory=lambda: Deadline.after(TIME_LIMIT_S), compare=False)
    """When the best answer so far is given: tracing, shardings, stages and refinement share what is left."""
    most_axes: int = FEWEST_AXES
    """Axes of the logical meshes that stages are tried on: 2, or 3, which takes longer and may find more."""
    fixed: Fixed = field(default_factory=Fixed)
    """What every plan must keep to."""
    expert_capacity: float | None = None
    """Shares of an equal load that an expert takes at most of the tokens that a device routes; what exceeds them is
    dropped. None: as many tokens as come."""

    def __post_init__(self) -> None:
        for name, least in (("num_microbatches", 1), ("optimizer_bytes_per_parameter", 0)):
            value = getattr(self, name)
            if value < least:
                raise InputError(value=value, rule=_("must be at least {least}", least=least), place=name)
        if not FEWEST_AXES <= self.most_axes <= MOST_AXES:
            rule = _("must be {fewest} or {most}", fewest=FEWEST_AXES, most=MOST_AXES)
            raise InputError(value=self.most_axes, rule=rule, place="most_axes")
        if self.expert_capacity is not None:
            EXPERT_CAPACITY.check(self.expert_capacity, place="expert_capacity")
        assumed_schedule(self.schedule)
