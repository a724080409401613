"""A plan and what is known of it, as the fields of ``docs/result-schema.md``."""

from collections.abc import Sequence

from evenflow.model import BOTH, COMM, FULL, SELECT, Cells, Communication, MovedShare
from evenflow.profiles.layer_file import layer_file_fields
from evenflow.simulate import FillDrain, Simulation, as_fractions, host_uses
from evenflow.solve import BindingLimit
from evenflow.units import megabytes, milliseconds

_ALWAYS_LISTED = (FULL, SELECT, COMM, BOTH)


def plan_fields(
    simulation: Simulation,
    *,
    status: str,
    lower_bound_ns: int | None,
    memory_limit_bytes: int | None,
    binding: Sequence[BindingLimit] | None = None,
    **more: object,
) -> dict[str, object]:
    """Return the fields of a simulated plan and of the evidence of a search, and `more` before the order of work.

    How long a search took is not among them, so that the same answer is the same file. `lower_bound_ns` is None where
    nothing is known of other plans, `memory_limit_bytes` where no limit was checked, and `binding` where limits that
    bind were not looked for. Recompute counts are exclusive: a layer is in one kind or in none.
    `evenflow.profiles.plan_file.parse_plan` reads the fields back.
    """
    plan = simulation.plan
    nothing: Cells = ((0,) * plan.num_ranks,) * plan.num_chunks
    named = [kind for kind in plan.recompute if kind not in _ALWAYS_LISTED]
    return {
        "status": status,
        "makespan_ms": milliseconds(simulation.makespan_ns),
        "lower_bound_ms": None if lower_bound_ns is None else milliseconds(lower_bound_ns),
        "gap": None if lower_bound_ns is None else 1 - lower_bound_ns / simulation.makespan_ns,
        "ranks": plan.num_ranks,
        "chunks": plan.num_chunks,
        "microbatches": plan.num_microbatches,
        "schedule": plan.schedule,
        "sequence_splits": plan.sequence_splits,
        **({} if plan.group_size is None else {"group_size": plan.group_size}),
        **({"mtp_layers": plan.mtp_layers} if plan.mtp_layers else {}),
        **({"encoder_layers": plan.encoder_layers} if plan.encoder_layers else {}),
        **({"encodes_apart": True} if plan.encodes_apart else {}),
        **({"continuing_layers": plan.continuing_layers} if plan.continuing_layers else {}),
        **({} if plan.delays_weights is None else {"delays_weights": plan.delays_weights}),
        **({"releases_attention": True} if plan.releases_attention else {}),
        "layers": plan.layers,
        **({"moved_share": _share_fields(plan.moved_share)} if plan.moved_share is not None else {}),
        "recompute": {kind: plan.recompute.get(kind, nothing) for kind in (*_ALWAYS_LISTED, *sorted(named))},
        "peak_memory_mb": [megabytes(peak) for peak in simulation.peak_memory_bytes],
        "memory_limit_mb": None if memory_limit_bytes is None else megabytes(memory_limit_bytes),
        "memory_binds": None if binding is None else [_binding_fields(limit) for limit in binding],
        "bubble": as_fractions(simulation.bubbles),
        "fill_drain": _fill_drain_fields(simulation.fill_drain),
        **_host_fields(simulation),
        **_pair_fields(simulation),
        **_encoder_fields(simulation),
        **more,
        **({"order": plan.order} if plan.order else {}),
    }


def simulation_fields(simulation: Simulation, memory_limit_bytes: int | None) -> dict[str, object]:
    """Return the fields of a plan that was only simulated: nothing is known of a bound."""
    return plan_fields(
        simulation,
        status="simulated",
        lower_bound_ns=None,
        memory_limit_bytes=memory_limit_bytes,
    )


def plan_file_fields(simulation: Simulation, memory_limit_bytes: int | None) -> dict[str, object]:
    """Return the plan file of a plan that was only simulated, with its model."""
    return simulation_fields(simulation, memory_limit_bytes) | network_fields(simulation)


def network_fields(simulation: Simulation) -> dict[str, object]:
    """Return the network that a plan is of, and the cost of its messages: what simulating the plan again needs.

    `evenflow.profiles.plan_file.parse_plan_file` reads the fields back; messages cost null if nothing. Where every
    message of a step has its own time (`evenflow auto`), the slowest stands for all.
    """
    messages = simulation.communication
    return {
        "network": layer_file_fields(simulation.network),
        "communication": None if messages is None else _communication_fields(messages),
    }


def _communication_fields(messages: Communication) -> dict[str, object]:
    """Return what messages cost; the bandwidth where it is known, for layers that say how many bytes they send on."""
    fields: dict[str, object] = {
        "latency_ms": milliseconds(messages.latency_ns),
        "transfer_ms": milliseconds(messages.transfer_ns),
    }
    fields |= {} if messages.bytes_per_s is None else {"bytes_per_s": messages.bytes_per_s}
    return fields | ({"one_at_a_time": True} if messages.one_at_a_time else {})


def _share_fields(moved: MovedShare) -> dict[str, object]:
    kept = {"kept_bytes": moved.kept_bytes} if moved.kept_bytes else {}
    return {"kind": moved.kind, "share": moved.share, **kept}


def _host_fields(simulation: Simulation) -> dict[str, object]:
    """Return what each rank keeps on the host, or another one for it, and the share of the step in which it copies in
    one direction.
    """
    uses = host_uses(simulation)
    if not uses:
        return {}
    host: dict[str, object] = {
        "held_mb": [megabytes(use.held_bytes) for use in uses],
        "busy": [use.copies_ns / simulation.makespan_ns for use in uses],
    }
    if any(use.keeper is not None for use in uses):
        host["keepers"] = [use.keeper for use in uses]
        host["pool_mb"] = [megabytes(use.pool_bytes) for use in uses]
    return {"host": host}


def _pair_fields(simulation: Simulation) -> dict[str, object]:
    """Return what forwards beside backwards hide of the exchanges of every rank, and what nothing hides."""
    times = {"hidden_ms": simulation.hidden_ns, "exposed_ms": simulation.exposed_ns}
    return {
        name: [milliseconds(time_ns) for time_ns in of_ranks.tolist()]
        for name, of_ranks in times.items()
        if of_ranks is not None
    }


def _encoder_fields(simulation: Simulation) -> dict[str, object]:
    """Return what encoders beside the pipeline add to the step."""
    encoded = simulation.encoded
    if encoded is None:
        return {}
    return {
        "encoders": {
            "step_ms": milliseconds(encoded.step_ns),
            "before_ms": milliseconds(encoded.before_ns),
            "behind_ms": milliseconds(encoded.behind_ns),
            "least_ms": milliseconds(encoded.least_ns),
            "parts": len(encoded.forwards.ranks),
            "forwards_in_bubbles": encoded.forwards_in_bubbles,
            "backwards_in_bubbles": encoded.backwards_in_bubbles,
        }
    }


def _binding_fields(limit: BindingLimit) -> dict[str, object]:
    return {
        "rank": limit.rank,
        "change": "take_layer" if limit.takes_layer else "recompute_less",
        "more_mb": megabytes(limit.more_bytes),
    }


def _fill_drain_fields(idle: FillDrain) -> dict[str, object]:
    known = idle.by_formula is not None
    return {
        "simulated": idle.simulated,
        "by_formula": idle.by_formula,
        "formula": idle.words if known else None,
        "no_formula": None if known else idle.words,
    }
