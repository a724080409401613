"""What the page's script needs to simulate a plan that somebody changes there, or why it is not offered to.

The script has the same rules as `evenflow.simulate`, in `web/src/stage_costs.ts` and `web/src/simulation.ts`; a test
holds both to the same numbers. What those rules leave out is refused here, each with its sentence.
"""

from collections.abc import Callable, Mapping, Sequence

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, Communication, EndBlock, Layer, Network, Plan
from evenflow.schedule import FAMILIES, Schedule, schedule_of
from evenflow.simulate import Simulation, link_delays_ns, network_of_units, plan_counts


def what_if_of(simulation: Simulation) -> Mapping[str, object]:
    """Return the costs of the layers of a plan and what else its simulation takes, or ``why_not`` alone.

    ::

        kinds       recompute kinds in the order of a cell, none last
        counts      layers of every stage under each kind
        layers      a list for each property, with an entry for each run of equal layers: name, count, whether a stage
                    may begin with one (begins), rules for its stage, bytes, and the time of what a stage sends on that
                    ends with one (message_ns); what depends on the kind is a list for each kind
        head, tail  bytes of what is beside the layers in the first and last stage; message_ns as of layers
        times       forward_ns, weight_ns and backward_ns (a list for each kind) of the runs, and of head and tail as
                    forward, backward and weight gradient; one for each speed that ranks have
        speed       index in times, for each rank
        segments    kinds that compute layers again in segments: their index in kinds, the length (0: all of a cell),
                    and bytes of the runs under full, which count in the place of those under such a kind
        constant_bytes   what each rank holds whatever its layers
        link_ns     what messages behind each stage take longer on their link
        family, group_size   which order it is; family is null for one of the plan's own

    All costs are of one microbatch (part).
    """
    reason = _why_not(simulation)
    if reason:
        return {"why_not": reason}
    schedule, plan = simulation.timeline.schedule, simulation.plan
    network = network_of_units(simulation.network, schedule)
    links = link_delays_ns(network, schedule.stage_table)
    reserved = [traits.reserved_bytes for traits in network.ranks] or [0] * schedule.num_ranks
    return {
        "kinds": network.kinds,
        "counts": plan_counts(plan, network.kinds, schedule.stage_table).tolist(),
        "layers": _layer_fields(network, simulation.communication),
        "head": _end_fields(network.head, simulation.communication),
        "tail": _end_fields(network.tail, simulation.communication),
        "times": [_time_fields(network.at_speed(speed)) for speed in network.speeds],
        "segments": _segment_fields(network),
        "speed": [network.speeds.index(network.speed_of(rank)) for rank in range(schedule.num_ranks)],
        "constant_bytes": [network.constant_bytes + own for own in reserved],
        "link_ns": [0] * schedule.num_stages if links is None else links.tolist(),
        "family": None if plan.order or plan.schedule not in FAMILIES else plan.schedule,
        "group_size": plan.group_size,
    }


def change_code(plan: Plan, what_if: Mapping[str, object] | None, schedule: Schedule, limit_bytes: int) -> str:
    """Return what changes the plan of `what_if` (see `what_if_of`) into another of its order, under a memory limit.

    It is a part of the page's address, as `web/src/change_code.ts` reads it; empty where the plan cannot be changed.
    """
    kinds = None if what_if is None else what_if.get("kinds")
    if not isinstance(kinds, Sequence):
        return ""
    counts = plan_counts(plan, kinds, schedule.stage_table)
    layers = f"l{'.'.join(map(str, counts.sum(axis=1).tolist()))}"
    of_kinds = [f"k{place}.{'.'.join(map(str, counts[:, place].tolist()))}" for place in range(len(kinds) - 1)]
    return "~".join([layers, *of_kinds, f"g{limit_bytes}"])


def costs_of_stages() -> Mapping[str, object]:
    """Return why a two-level plan is not offered."""
    return {
        "why_not": _("This plan cannot be changed here: its layers cost what they do on the devices of their stage.")
    }


def _why_not(simulation: Simulation) -> str:
    """Return why the page does not simulate a plan; an empty text where it does."""
    network, plan, schedule = simulation.network, simulation.plan, simulation.timeline.schedule
    if schedule.has_pairs:
        return _("This plan cannot be changed here: the page does not simulate forwards that run beside backwards.")
    if network_of_units(network, schedule).offloads:
        return _("This plan cannot be changed here: the page does not simulate copies to the host.")
    if network.encoder_work is not None:
        return _("This plan cannot be changed here: the page does not simulate encoders beside the pipeline.")
    if simulation.communication is not None and simulation.communication.one_at_a_time:
        return _("This plan cannot be changed here: the page does not simulate messages that wait for each other.")
    if not _says_its_order(plan, schedule):
        return _("This plan cannot be changed here: it was simulated in an order that its file does not say.")
    return ""


def _says_its_order(plan: Plan, schedule: Schedule) -> bool:
    """Return whether the file of a plan says the order in which it was simulated."""
    try:
        return schedule_of(plan).same_order(schedule)
    except InputError:  # a name that is no family's, with an order from elsewhere
        return False


def _layer_fields(network: Network, messages: Communication | None) -> dict[str, object]:
    layers = [run.layer for run in network.runs]

    def by_kind(value: Callable[[Layer, str], int]) -> list[list[int]]:
        return [[value(layer, kind) for layer in layers] for kind in network.kinds]

    return {
        "name": [layer.name for layer in layers],
        "count": [run.count for run in network.runs],
        "begins": [layer.cut_before for layer in layers],
        "rules": [sorted(layer.stage_rules) for layer in layers],
        "parameter_bytes": [layer.parameter_bytes for layer in layers],
        "until_weight_bytes": [layer.until_weight_bytes for layer in layers],
        "activation_bytes": by_kind(lambda layer, kind: layer.modes[kind].activation_bytes),
        "working_bytes": by_kind(lambda layer, kind: layer.modes[kind].working_bytes),
        "message_ns": [_message_ns(layer, messages) for layer in layers],
    }


def _segment_fields(network: Network) -> list[dict[str, object]]:
    full = [run.layer.modes[FULL] for run in network.runs] if network.segments else []
    return [
        {
            "kind": network.kinds.index(kind),
            "length": length,
            "activation_bytes": [mode.activation_bytes for mode in full],
            "working_bytes": [mode.working_bytes for mode in full],
        }
        for kind, length in network.segments.items()
        if kind in network.kinds
    ]


def _end_fields(block: EndBlock, messages: Communication | None) -> dict[str, object]:
    return {
        "name": block.name,
        "parameter_bytes": block.parameter_bytes,
        "until_weight_bytes": block.until_weight_bytes,
        "activation_bytes": block.activation_bytes,
        "working_bytes": block.working_bytes,
        "message_ns": _message_ns(block, messages),
    }


def _message_ns(part: Layer | EndBlock, messages: Communication | None) -> int:
    return 0 if messages is None else messages.message_of_ns(part.boundary_bytes)


def _time_fields(network: Network) -> dict[str, object]:
    layers = [run.layer for run in network.runs]
    return {
        "forward_ns": [layer.forward_ns for layer in layers],
        "weight_ns": [layer.weight_ns for layer in layers],
        "backward_ns": [[layer.modes[kind].backward_ns for layer in layers] for kind in network.kinds],
        "head": _end_times(network.head),
        "tail": _end_times(network.tail),
    }


def _end_times(block: EndBlock) -> Sequence[int]:
    return (block.forward_ns, block.backward_ns, block.weight_ns)
