"""What a run is asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from evenflow.cluster import Dtype, MeshPlan
from evenflow.model import HostLink, Plan
from evenflow_torch.run.values.aa_report import Fault
from evenflow_torch.run.values.run_files import RunFiles

WARM_UP_STEPS = 2
"""First steps, which are not in the measured times. In the second one memory is measured, which slows a CPU down."""
LEAST_STEPS = WARM_UP_STEPS + 1
"""Steps of the shortest run that measures anything."""
MOST_MEASURED_STEPS = 100
"""Most steps whose times are kept: the last ones of a longer run."""
RANK_TIMEOUT_SECONDS = 10.0
"""Time without a sign of life after which a rank is given up, unless told otherwise."""

TINY = "llama-tiny"
"""Name of the model that needs no configuration: a small Llama with as many layers as its plan."""


class Device(StrEnum):
    """What the ranks compute on, under the name that PyTorch gives it."""

    CPU = "cpu"
    CUDA = "cuda"


TOLERANCES: Mapping[Dtype, float] = {Dtype.FLOAT64: 1e-12, Dtype.FLOAT32: 1e-3, Dtype.BFLOAT16: 5e-2}
"""Number formats that can be run, each with its largest error of a loss or gradient.

The error is the difference from the unsplit model, relative to the loss or to the largest gradient of a parameter. The
two add the same numbers in another order. float64: what is left of 2.2e-16 after thousands of additions.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """One training run of ``evenflow run``."""

    plan: Plan
    model: str
    """`TINY`, or the name of the file that `config` comes from."""
    config: str
    """Text of a ``config.json``; empty for `TINY`."""
    num_layers: int | None
    """Layers instead of the configuration's, as the following sizes; None for the configuration's own."""
    hidden_size: int | None
    num_heads: int | None
    vocab_size: int | None
    num_steps: int
    sequence_length: int
    """Tokens of a sequence; of a model with encoder and decoder, of a source."""
    microbatch_size: int
    dtype: Dtype
    learning_rate: float
    device: Device | None
    """None: GPUs where every rank has one, else the CPU."""
    seed: int
    verify: bool
    target_length: int = 0
    """Tokens of a target, which follows its source, of a model with encoder and decoder; else 0."""
    memory_limit_bytes: int | None = None
    """What no rank may exceed by the plan; None where it has no limit."""
    mesh_plan: MeshPlan | None = None
    """Devices of every stage, if a stage has several; each device is a process then."""
    host_link: HostLink | None = None
    """When what layers keep on the host moves; None: layer by layer."""
    aa_check: bool = False
    """Re-execute work in the bubbles, in every other measured step, and compare."""
    aa_everywhere: bool = False
    """Also re-execute work that fits no bubble."""
    faults: tuple[Fault, ...] = ()
    frozen_layers: int = 0
    """First layers that are not trained, nor is anything before them."""
    adapter_rank: int = 0
    """Width of adapters that are trained alone, beside every product of the layers; 0: all is trained."""
    data_parallel: int = 1
    """Replicas of the pipeline, which share the parameters of their stages; with a `mesh_plan` they have copies."""
    files: RunFiles = field(default_factory=RunFiles)
    """Data and checkpoints."""

    @property
    def num_processes(self) -> int:
        """Processes of the run: one per device."""
        devices = self.plan.num_ranks if self.mesh_plan is None else self.mesh_plan.cluster.num_devices
        return devices * self.data_parallel

    @property
    def processes_of_rank(self) -> Sequence[Sequence[int]]:
        """Processes of every rank of the pipeline: replicas of a stage, or of a device, stand side by side."""
        devices = (
            [[rank] for rank in range(self.plan.num_ranks)]
            if self.mesh_plan is None
            else self.mesh_plan.devices_of_rank()
        )
        count = self.data_parallel
        return [[device * count + replica for device in own for replica in range(count)] for own in devices]

    @property
    def num_samples(self) -> int:
        """Sequences of a step, those of all replicas."""
        return self.microbatch_size * self.plan.num_microbatches * self.data_parallel

    @property
    def input_length(self) -> int:
        """Tokens of a sample: of a sequence, or of a source and its target."""
        return self.sequence_length + self.target_length

    def has_aa_checks(self, step: int) -> bool:
        """Whether a step has A/A checks: every other measured step from the second on, and steps with a fault."""
        in_turn = step > WARM_UP_STEPS and (step - WARM_UP_STEPS) % 2 == 1
        return self.aa_check and (in_turn or any(fault.step == step for fault in self.faults))
