"""What the ranks of a run answer, from the first step to the result."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from evenflow_torch.run.values.aa_report import AAReport

ActionRow = tuple[int, int, int, int, int]
"""An action that was run: op, stage, microbatch, start and end in ns on the clock that all ranks share."""

Run = tuple[int, int, int]
"""Times of a stage in a run of it alone: forward, whole backward, and the part of it that a split leaves for later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """A step that has ended, from the rank that has the loss."""

    step: int
    """Step of the training, from 0."""
    loss: float
    step_ns: int
    """Time of the step on that rank."""
    eval_loss: float | None = None
    """Loss of the data to evaluate on, after the step; None where it was not evaluated."""
    tokens_per_s: float | None = None
    """Tokens of all replicas per second; None where no metrics are shown, as the following."""
    peak_share: float | None = None
    """Share of the peak rate of all devices; None also where device or model are not known."""
    memory_bytes: int | None = None
    """The most that a process has held so far, of the fullest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a rank could not go on."""

    time_ns: int
    """Time of the failure since the epoch."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """Time that the runtime takes for an action beside its work."""

    action_ns: int
    """Time for any action."""
    send_ns: int
    """Further time where the result goes to another rank."""
    receive_ns: int
    """Further time where the input comes from another rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How times were measured that a prediction is made of: how often, how well they are known, under which load."""

    runs: int
    """Of each stage, whose median counts."""
    error: float
    """Standard error of the times of a rank's stages, relative, on the rank that knows them least."""
    waiting: float | None
    """Share of that time in which a rank waited for a processor that others used; None where the system does not tell.
    """
    step_waiting: float | None = None
    """The same of the measured steps."""


def worst_conditions(ranks: Sequence[Conditions]) -> Conditions:
    """Return the conditions of the ranks that waited most."""

    def most(shares: Sequence[float | None]) -> float | None:
        known = [share for share in shares if share is not None]
        return max(known) if len(known) == len(shares) else None

    return Conditions(
        runs=ranks[0].runs,
        error=max(rank.error for rank in ranks),
        waiting=most([rank.waiting for rank in ranks]),
        step_waiting=most([rank.step_waiting for rank in ranks]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RankResult:
    """What one rank measured; times and bytes of a stage are for one microbatch, by stage."""

    forward_ns: dict[int, int]
    backward_ns: dict[int, int]
    """Whole backward, recomputation and weight gradients included."""
    weight_ns: dict[int, int]
    """Part of the backward that a split leaves for later; zero where no backward of the stage is split."""
    activation_bytes: dict[int, int]
    """Live after the forward."""
    until_weight_bytes: dict[int, int]
    """Live between input and weight gradient."""
    static_bytes: int
    """Parameters, gradients, optimizer state, and messages on the way."""
    working_bytes: int
    """Needed by an action for itself at most."""
    peak_bytes: int
    """Highest memory of the step in which it was measured."""
    actions: list[list[ActionRow]]
    """Actions of every measured step, in order."""
    offloaded_bytes: dict[int, int] = field(default_factory=dict)
    """Live after the forward beside the activation where nothing has left; for stages that move when the plan says."""
    copy_ns: dict[int, int] = field(default_factory=dict)
    """Time of a copy of these in one direction."""
    runs: dict[int, tuple[Run, ...]] = field(default_factory=dict)
    """Every run that was measured, of all stages of all ranks at the same time where they are at the same place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """How far the pipeline was from the unsplit model, over all steps."""

    loss_error: float
    """Largest relative error of a loss."""
    gradient_error: float
    """Largest difference of a parameter's gradient over its largest gradient."""
    worst_parameter: str
    """Parameter with that gradient."""
    tolerance: float
    """Largest error of either kind that is accepted."""

    @property
    def agrees(self) -> bool:
        """Whether losses and gradients are within the tolerance."""
        return self.loss_error <= self.tolerance and self.gradient_error <= self.tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a run, from rank 0."""

    model: str
    num_parameters: int
    losses: list[float]
    """Loss of every step."""
    message_ns: int
    """Time from the end of an action to the start of the next one that waits for it on another rank."""
    overhead: Overhead
    ranks: list[RankResult]
    """Results of the ranks of the pipeline, in order."""
    verification: Verification | None
    """None if it was not asked for."""
    aa_check: AAReport | None = None
    """None if it was not asked for."""
    conditions: Conditions | None = None
    """How the times were measured that the prediction is made of."""
    rehearsals_ns: tuple[int, ...] = ()
    """Length of steps before the training, the shortest and longest of which the steps of it are between in 8 of 10
    cases; none where they take too long."""
