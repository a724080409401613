"""Small networks to plan, with numbers that a person can check."""

from collections.abc import Sequence

from evenflow.cluster.cluster import Cluster, submeshes
from evenflow.model import EndBlock, Layer, LayerRun, Mode, Network
from evenflow_torch.auto.stages.analytic import AnalyticStages
from evenflow_torch.auto.stages.candidates import Asker, Candidates, evaluate
from evenflow_torch.auto.stages.in_flight import in_flight_microbatches
from evenflow_torch.auto.stages.mixed_recompute import MixedRecompute

FULL_ACTIVATION = 100


def layer(forward_ns: int, *, parameter_bytes: int = 800, activation_bytes: int = 1000, name: str = "layer") -> Layer:
    """The backward takes twice the forward; with full recompute three times, and a tenth of the activation."""
    return Layer(
        name=name,
        forward_ns=forward_ns,
        parameter_bytes=parameter_bytes,
        modes={
            "none": Mode(activation_bytes=activation_bytes, backward_ns=2 * forward_ns),
            "full": Mode(activation_bytes=activation_bytes // 10, backward_ns=3 * forward_ns),
        },
    )


def network(forwards_ns: Sequence[int], *, head: EndBlock | None = None, tail: EndBlock | None = None) -> Network:
    return Network(
        name="small",
        runs=tuple(LayerRun(layer=layer(forward), count=1) for forward in forwards_ns),
        head=head or EndBlock(),
        tail=tail or EndBlock(),
    )


def stages(of: Network, cluster: Cluster, *, num_microbatches: int = 8, samples: int = 4) -> AnalyticStages:
    return AnalyticStages(
        network=of, cluster=cluster, num_microbatches=num_microbatches, samples=samples, boundary_bytes=400
    )


def everything(provider: AnalyticStages, *, schedule: str | None = None) -> Candidates:
    """Every stage, without limits; with a schedule also those of two recompute kinds that help under its memory."""
    mixed = None
    if schedule is not None:
        live = in_flight_microbatches(
            schedule,
            num_microbatches=provider.num_microbatches,
            most_stages=min(len(provider.kinds), provider.cluster.num_devices),
        )
        mixed = MixedRecompute(provider=provider, memory_limit_bytes=provider.cluster.memory_bytes, in_flight=live)
    return evaluate(
        Asker(provider, mixed),
        submeshes(provider.cluster),
        num_microbatches=provider.num_microbatches,
        first_in_flight=1,
        memory_limit_bytes=None,
    )
