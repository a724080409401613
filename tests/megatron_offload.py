"""What Megatron-LM leaves on the device of what it may move to the host, group by group, in its own steps."""

from collections.abc import Sequence
from dataclasses import dataclass

from evenflow.model import NONE, HostLink, Layer, LayerRun, Mode, Network, with_chain
from evenflow.predict.training import moved_chain

WHOLE = "offload_core_attn+offload_expert_fc1"
CHAIN = moved_chain(WHOLE)


@dataclass(eq=False)
class Group:
    """What a module of a layer keeps for one backward."""

    name: int
    size: int
    offload: bool = True


def decide(backwards: Sequence[Sequence[Group]], *, rank: int, fraction: float, delta: int) -> None:
    """Set which groups move, of a rank's backwards in their order (`PipelineOffloadManager.post_warmup_callback`)."""
    margin = max((len({group.name for group in groups}) for groups in backwards), default=0)
    last_with_name = {}
    for groups in reversed(backwards):
        for group in groups:
            last_with_name[group.name] = group
    for group in last_with_name.values():
        if margin > 0:
            group.offload = False
            margin -= 1
        else:
            break
    keep = rank * delta
    for groups in backwards:
        for group in groups:
            if group.offload and keep > 0:
                keep -= group.size
                group.offload = False
    for groups in backwards:
        eligible = [group for group in groups if group.offload and group.size > 0]
        disabled = int(len(eligible) * (1 - fraction))
        for group in reversed(eligible):
            if disabled > 0:
                disabled -= 1
                group.offload = False
            else:
                break


def network_of(parts: list[tuple[int, int]], link: HostLink) -> Network:
    """Layers that keep 1,000 bytes, of which so many move."""

    def layer(own: tuple[int, int]) -> Layer:
        whole = Mode(activation_bytes=1000 - sum(own), offloaded_bytes=sum(own), moved_parts=own, backward_ns=2000)
        modes = {NONE: Mode(activation_bytes=1000, backward_ns=2000), WHOLE: whole}
        return Layer(name=str(own), forward_ns=1000, parameter_bytes=10, modes=modes)

    runs = tuple(LayerRun(layer=layer(own), count=1) for own in parts)
    network = with_chain(Network(name="moving", runs=runs, host_link=link), CHAIN)
    assert network is not None
    return network
