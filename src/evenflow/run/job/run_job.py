"""What a run is asked for and what it answers: values that travel between processes as JSON. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from evenflow.cluster.dtypes import Dtype
from evenflow.cluster.mesh_plan import MeshPlan
from evenflow.model import Plan

ActionRow = tuple[int, int, int, int, int]
"""An action that was run: op, stage, microbatch, start and end in ns on the clock of all ranks."""

WARM_UP_STEPS = 2
"""Left out of the measured times. In the second of them memory is measured, which slows a CPU down."""
LEAST_STEPS = WARM_UP_STEPS + 1
MOST_MEASURED_STEPS = 100
"""Of longer runs the last ones are measured."""

TINY = "llama-tiny"
"""The model that needs no configuration: a small Llama with as many layers as its plan."""


class Device(StrEnum):
    """What the ranks compute on, under the name that PyTorch gives it."""

    CPU = "cpu"
    CUDA = "cuda"


TOLERANCES: Mapping[Dtype, float] = {Dtype.FLOAT64: 1e-12, Dtype.FLOAT32: 1e-4, Dtype.BFLOAT16: 5e-2}
"""The number formats that can be run, each with its largest relative error.

That is how far losses and gradients may be from those of the unsplit model, relative to the largest of a parameter.

The two add the same numbers in another order. float64: what is left of 2.2e-16 after thousands of additions.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One flipped bit, to see that the A/A check finds it."""

    rank: int
    step: int
    """From 0."""
    microbatch: int | None = None
    """None, as for `direction`: what is checked in that step."""
    direction: str | None = None
    """forward or backward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """One training run of ``evenflow run``."""

    plan: Plan
    model: str
    """`TINY`, or the name of the file that `config` comes from."""
    config: str
    """The text of a ``config.json``; empty for `TINY`."""
    num_layers: int | None
    hidden_size: int | None
    num_heads: int | None
    vocab_size: int | None
    num_steps: int
    sequence_length: int
    microbatch_size: int
    dtype: Dtype
    learning_rate: float
    device: Device | None
    """None: what there is."""
    seed: int
    verify: bool
    mesh_plan: MeshPlan | None = None
    """Where every stage lies, if on several devices, each of which is a process then."""
    aa_check: bool = False
    """Re-execute work in the bubbles, in every other measured step, and compare."""
    aa_everywhere: bool = False
    """Also work that fits no bubble."""
    faults: tuple[Fault, ...] = ()

    @property
    def num_processes(self) -> int:
        """One for every device."""
        return self.plan.num_ranks if self.mesh_plan is None else self.mesh_plan.cluster.num_devices

    def has_aa_checks(self, step: int) -> bool:
        """Whether a step has A/A checks: every other of the measured ones, the second first, and where a fault is."""
        in_turn = step > WARM_UP_STEPS and (step - WARM_UP_STEPS) % 2 == 1
        return self.aa_check and (in_turn or any(fault.step == step for fault in self.faults))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """A step that has ended, from the rank that has the loss."""

    step: int
    loss: float
    step_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a rank could not go on."""

    time_ns: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankResult:
    """What one rank measured."""

    forward_ns: dict[int, int]
    """By stage, as the following ones: see `evenflow.run.measure.calibrate.StageMeasurement`."""
    backward_ns: dict[int, int]
    weight_ns: dict[int, int]
    activation_bytes: dict[int, int]
    weight_bytes: dict[int, int]
    static_bytes: int
    """Parameters, gradients, optimizer state, and the working memory of the actions."""
    peak_bytes: int
    actions: list[list[ActionRow]]
    """For every measured step, its actions in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """How far the pipeline was from the unsplit model, over all steps."""

    loss_error: float
    """Relative."""
    gradient_error: float
    """The largest difference of a parameter's gradient over its largest gradient."""
    worst_parameter: str
    tolerance: float

    @property
    def agrees(self) -> bool:
        """Whether losses and gradients are within the tolerance."""
        return self.loss_error <= self.tolerance and self.gradient_error <= self.tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What a rank spends on an action of the runtime beside its work."""

    action_ns: int
    send_ns: int
    """More, where its result goes to another rank."""
    receive_ns: int
    """More, where its input comes from another rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A tensor that came out differently the second time."""

    rank: int
    stage: int
    microbatch: int
    step: int
    """From 0."""
    direction: str
    tensor: str
    num_different: int
    """Numbers that differ in some bit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAudit:
    """What the A/A check did on one rank."""

    num_checks: int
    share_per_step: float
    """Of the rank's actions that were checked, in a step with checks."""
    share_of_run: float
    """Of the rank's actions that were checked in some step."""
    check_ns: int
    """Re-executing and comparing, in a step with checks."""
    never_checked: list[tuple[int, str]]
    """Stage and direction."""
    fits_no_bubble: list[tuple[int, str]]
    """Stage and direction."""
    mismatches: list[Mismatch]
    injected: list[str]
    """Where bits were flipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AAReport:
    """What the A/A check found, and what it cost."""

    ranks: list[RankAudit]
    num_checked_steps: int
    checked_step_ns: int
    """Median of the measured steps with checks."""
    plain_step_ns: int
    """Median of those without."""

    @property
    def cost(self) -> float:
        """Of the checks in step time: 0.01 means one per cent."""
        return self.checked_step_ns / self.plain_step_ns - 1

    @property
    def mismatches(self) -> list[Mismatch]:
        """Of all ranks, in the order of steps."""
        return sorted((one for rank in self.ranks for one in rank.mismatches), key=lambda one: one.step)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run gives, on rank 0."""

    model: str
    num_parameters: int
    losses: list[float]
    """By step."""
    message_ns: int
    """From the end of an action to the start of the next that waits for it on another rank."""
    overhead: Overhead
    ranks: list[RankResult]
    verification: Verification | None
    aa_check: AAReport | None = None
