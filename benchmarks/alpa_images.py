"""The wide residual networks of Alpa's evaluation, with the strategies that its authors published for them.

Sizes and strategies are those of alpa-projects/alpa, benchmark/alpa/suite_wresnet.py (`wresnet_specs` and
`perf_test_auto_suite`, found for p3.16xlarge), the model that of alpa/model/wide_resnet.py and the optimizer, SGD with
momentum, that of benchmark_one_case_wresnet.py; Alpa, arXiv:2201.12023, table 6 and §8.1: pictures of 224 x 224,
32 bits.

Layers are the residual blocks, as many as Alpa clusters operators into; its own clusters are of even work and may begin
elsewhere.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.alpa import DATA, TENSOR, Case, Published
from evenflow.profiles.accelerator_file import accelerator_given
from evenflow_torch.auto import AutoPlan, plan

if TYPE_CHECKING:
    from benchmarks.residual_networks import ResidualNetwork

CLASSES = 1024
MOMENTUM_BYTES = 4


@dataclass(frozen=True)
class WideResNetCase(Case):
    """A wide ResNet."""

    pictures: int
    """Of a step."""
    groups: tuple[int, ...]
    channels: int
    width_factor: int

    def model(self) -> "ResidualNetwork":
        """Return the network on torch's current device."""
        from benchmarks.residual_networks import Bottleneck, ResidualNetwork

        block = partial(Bottleneck, width_factor=self.width_factor)
        return ResidualNetwork(self.groups, block, channels=self.channels, classes=CLASSES)

    def planned(self, *, time_limit_s: float) -> AutoPlan:
        """Return the two-level plan in 32 bits, with the residual blocks as layers."""
        import torch

        device = accelerator_given("v100-16")
        with torch.device("meta"):
            model, batch = self.model(), torch.zeros(self.pictures // self.microbatches, 3, 224, 224)
        return plan(
            model.blocks,
            batch,
            self.cluster(device),
            num_microbatches=self.microbatches,
            head=model.head,
            tail=model.tail,
            accelerator=device,
            optimizer_bytes_per_parameter=MOMENTUM_BYTES,
            time_limit_s=time_limit_s,
        )


FIFTY = (3, 4, 6, 3)
CASES = (
    WideResNetCase("wide-250M", (1, 1), 24, (Published(16, (1, 1)),), 1536, FIFTY, 160, 2),
    WideResNetCase("wide-500M", (1, 2), 24, (Published(16, (1, 2), None),), 1536, FIFTY, 224, 2),
    WideResNetCase("wide-1B", (1, 4), 24, (Published(16, (1, 4), None),), 1536, FIFTY, 320, 2),
    WideResNetCase(
        "wide-2B", (1, 8), 24, (Published(8, (1, 4), None), Published(8, (1, 4), (TENSOR,))), 1536, FIFTY, 448, 2
    ),
    WideResNetCase(
        "wide-4B", (2, 8), 32,
        (Published(5, (1, 4), (DATA,)), Published(4, (1, 4), (DATA,)), Published(7, (1, 8), None)),
        1536, FIFTY, 640, 2,
    ),
    WideResNetCase(
        "wide-6.8B", (4, 8), 32,
        (Published(5, (1, 8), (DATA,)), *(Published(layers, (1, 8), None) for layers in (4, 4, 3))),
        1536, FIFTY, 320, 16,
    ),
)  # fmt: skip
