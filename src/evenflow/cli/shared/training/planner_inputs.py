"""What the planner is told of a predicted training: its layers, one time for all messages, a memory limit."""

from collections.abc import Sequence
from dataclasses import dataclass

from evenflow.cli.shared.training.encoder_options import BESIDE, BUBBLES, FIRST, SPREAD, needs_inputs
from evenflow.cli.shared.training.recompute_sets import with_module_sets
from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.model import Communication, HostLink, Network, without_idle_kinds
from evenflow.predict.apart_tower import with_apart_tower
from evenflow.predict.half_blocks import with_half_blocks
from evenflow.predict.layer_work import message_bytes
from evenflow.predict.memory import usable_bytes
from evenflow.predict.prediction import Prediction
from evenflow.predict.separate_mtp import with_separate_mtp
from evenflow.predict.separate_tower import with_separate_tower
from evenflow.predict.step.messages import planned_messages
from evenflow.predict.step_network import priced_network
from evenflow.predict.training import sets_among
from evenflow.units import MEGABYTE


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerInputs:
    """The network of one device, and what else the planner needs to plan the pipeline of a training."""

    network: Network
    communication: Communication | None
    """Cost of a message, here the longest of all, with a bandwidth where sizes depend on the cut; None without any."""
    memory_limit_bytes: int | None
    """Whole megabytes that a rank may hold beside the allocator's reserve and the driver; None: no limit is known."""
    message_bytes: int
    """Of what a stage sends on whose last layer does not say it."""


def planner_inputs(
    prediction: Prediction,
    topology: Topology,
    *,
    memory_limit_bytes: int,
    encoder: str = FIRST,
    half_blocks: bool = False,
    recompute_sets: str | None = None,
    known_kinds: frozenset[str] | None = None,
    used_kinds: Sequence[str] = (),
    host_link: HostLink | None = None,
    in_turn: bool = False,
) -> PlannerInputs:
    """Return the inputs that stand for a prediction on devices of `memory_limit_bytes`, 0 where these are not known.

    Kinds that save nothing are left out, but for that of the prediction and `used_kinds`, those of a plan.

    `encoder` says where encoders may be, `half_blocks` that a stage may begin inside a block, `host_link`
    over what modules move that `recompute_sets` names, `in_turn` that messages wait for each other: then the time that
    each keeps a link busy counts, which otherwise is part of one time for all.

    Raises:
        InputError: encoders that are to be spread where there is none, or half blocks of a model without any.
    """
    training = prediction.training
    network = prediction.network
    used_sets = sets_among(used_kinds)
    if recompute_sets is not None or used_sets:
        training = with_module_sets(
            training, recompute_sets, topology, known_kinds, used=used_sets, host_link=host_link
        )
        network = priced_network(training, topology).network
    if encoder != FIRST and not training.model.towers:
        raise InputError(value=encoder, rule=needs_inputs(), place="--encoder")
    if encoder in BESIDE:
        network = with_apart_tower(training, topology, in_bubbles=encoder == BUBBLES)
    network = with_separate_mtp(training, topology, network)
    if encoder == SPREAD:
        network = with_separate_tower(training, topology, network)
    if half_blocks:
        network = with_half_blocks(training, topology, network)
    network = without_idle_kinds(network, used=(training.recompute, *used_kinds))
    simulation = prediction.simulation
    messages = simulation.communication
    # The planner knows neither the reserve, a share of what a rank holds, nor what the driver takes.
    usable = usable_bytes(memory_limit_bytes, topology.accelerator.reached)
    limit = max(usable // MEGABYTE, 1) * MEGABYTE if memory_limit_bytes else 0
    communication = None if messages is None else Communication(latency_ns=messages.message_ns)
    if messages is not None and (in_turn or network.boundaries is not None):
        communication = planned_messages(training, topology, simulation.timeline.schedule.stage_ranks)
    return PlannerInputs(
        network=network,
        communication=communication,
        memory_limit_bytes=limit or None,
        message_bytes=message_bytes(training),
    )
