"""Aligned tables, and the lines around them."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from evenflow.cli.text.columns import Column, fitted_columns
from evenflow.cli.text.display_width import fits_output, output_width
from evenflow.language import _, _n
from evenflow.model import NONE, Network
from evenflow.plain_text import on_one_line
from evenflow.simulate import FillDrain, HostUse, Simulation, host_uses, message_times, run
from evenflow.solve import Outcome
from evenflow.solve.best_outcome import fetches_text
from evenflow.solve.outcome import BindingLimit, Status
from evenflow.solve.rank_orders import shown_order
from evenflow.units import MEGABYTE, megabytes, milliseconds

BAR_WIDTH = 10


def aligned(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Collection[int] = (),
    leaving: Sequence[int] = (),
    most: int | None = None,
) -> str:
    """Return a table with two spaces between columns; columns in `left` are flush left, the others flush right.

    Where it is wider than the output, or than `most` cells, the columns `leaving` are left out, in this order, as far
    as need be, and a line below names them. Where that is not enough, a last column of text goes on below itself.
    """
    table = [[on_one_line(cell) for cell in row] for row in (header, *rows)]
    columns = [Column([row[number] for row in table], is_left=number in left) for number in range(len(header))]
    limit = min((width for width in (output_width(), most) if width is not None), default=None)
    return fitted_columns(columns, limit, leaving=[columns[number] for number in leaving])


def headline(simulation: Simulation) -> str:
    """Return model, sizes and schedule of a plan."""
    plan = simulation.plan
    sizes = _(
        "{ranks} x {chunks}, {microbatches}",
        ranks=_n("1 rank", "{count} ranks", count=plan.num_ranks),
        chunks=_n("1 chunk", "{count} chunks", count=plan.num_chunks),
        microbatches=_n("1 microbatch", "{count} microbatches", count=plan.num_microbatches),
    )
    if plan.sequence_splits > 1:
        sizes = _("{sizes}, sequences in {parts} parts", sizes=sizes, parts=plan.sequence_splits)
    schedule = plan.schedule
    if plan.group_size is not None:
        schedule = _("{schedule} in groups of {size}", schedule=schedule, size=plan.group_size)
    return _(
        "{name}: {layers} on {sizes}, {schedule}",
        name=simulation.network.name,
        layers=_n("1 layer", "{count} layers", count=plan.num_layers),
        sizes=sizes,
        schedule=schedule,
    )


def plan_table(simulation: Simulation, memory_limit_bytes: int | None) -> str:
    """Return for each rank layers and recompute counts by chunk, time of a microbatch, peak memory, idle share.

    Where the table is too wide, first bars are left out.
    """
    table = _plan_table(simulation, memory_limit_bytes, has_bars=True)
    return table if fits_output(table) else _plan_table(simulation, memory_limit_bytes, has_bars=False)


def _plan_table(simulation: Simulation, memory_limit_bytes: int | None, *, has_bars: bool) -> str:
    plan, costs = simulation.plan, simulation.costs
    kinds = [kind for kind in simulation.network.kinds if kind != NONE and any(map(any, plan.recompute.get(kind, ())))]
    has_memory = simulation.network.has_memory
    header = [_("rank"), _("layers"), *kinds, _("ms/microbatch"), *([_("peak MB")] if has_memory else [])]
    left = {len(header)} if has_memory and memory_limit_bytes else set()
    header += [_("of limit"), _("idle %")] if left else [_("idle %")]
    stage_table = simulation.timeline.schedule.stage_table
    stage_ns = (costs.forward_ns + costs.backward_ns)[stage_table] * plan.sequence_splits
    rows = []
    for rank in range(plan.num_ranks):
        row = [str(rank), _by_chunk([chunk[rank] for chunk in plan.layers])]
        row += [_by_chunk([chunk[rank] for chunk in plan.recompute[kind]]) for kind in kinds]
        row.append(f"{milliseconds(int(stage_ns[:, rank].sum())):,.3f}")
        if has_memory:
            peak = simulation.peak_memory_bytes[rank]
            row.append(f"{megabytes(peak):,.1f}")
            if memory_limit_bytes:
                row.append((limit_bar if has_bars else limit_share)(peak, memory_limit_bytes))
        row.append(f"{100 * simulation.idle[rank].total_ns / simulation.makespan_ns:.1f}")
        rows.append(row)
    kinds_end, last = 2 + len(kinds), len(header) - 1
    leaving = () if has_bars else (last, kinds_end, *range(kinds_end - 1, 1, -1))
    return aligned(header, rows, left=left, leaving=leaving)


def limit_bar(peak_bytes: int, limit_bytes: int) -> str:
    """Return how full a rank is: ``████████░░  81.4 %``."""
    filled = min(BAR_WIDTH, BAR_WIDTH * peak_bytes // limit_bytes)
    return f"{'█' * filled}{'░' * (BAR_WIDTH - filled)} {limit_share(peak_bytes, limit_bytes)}"


def limit_share(peak_bytes: int, limit_bytes: int) -> str:
    """Return the share of the limit that a rank holds, and whether that is too much."""
    over = "  " + _("OVER") if peak_bytes > limit_bytes else ""
    return f"{100 * peak_bytes / limit_bytes:5.1f} %{over}"


def bubble_table(simulation: Simulation) -> str:
    """Return lost time by cause: of the pipeline as a fraction of the model's time, of each rank as % of the step.

    Below numbers that show as negative, a line says what they mean, as where tokens are exchanged inside of the work.
    """
    bubbles, communicates = simulation.bubbles, simulation.communication is not None
    copied, exposed_ns = bubbles.host_copies, simulation.exposed_ns
    causes = [_("fill/drain"), _("imbalance"), _("recompute"), *(["p2p"] if communicates else [])]
    causes += [] if copied is None else [_("host copies")]
    causes += [] if exposed_ns is None else [_("exchanges")]
    whole = [bubbles.ideal, bubbles.imbalance, bubbles.recompute, *([bubbles.communication] if communicates else [])]
    whole += [] if copied is None else [copied]
    whole += [] if exposed_ns is None else [(1 + bubbles.real) * float(exposed_ns.mean()) / simulation.makespan_ns]
    rows = [[_("bubble, of model time"), *(_signed(value, 4) for value in (bubbles.real, *whole))]]
    digits = len(str(simulation.plan.num_ranks - 1))
    for rank, idle in enumerate(simulation.idle):
        parts = [idle.total_ns, idle.fill_drain_ns, idle.imbalance_ns, idle.recompute_ns]
        parts += [idle.communication_ns] if communicates else []
        parts += [] if copied is None else [idle.host_copies_ns]
        parts += [] if exposed_ns is None else [int(exposed_ns[rank])]
        rows.append(
            [
                _("rank {rank} idle, % of step", rank=f"{rank:>{digits}}"),
                *(_signed(100 * part / simulation.makespan_ns, 1) for part in parts),
            ]
        )
    table = aligned(["", _("all"), *causes], rows, left={0}, leaving=range(len(causes) + 1, 1, -1))
    if exposed_ns is not None:
        table += "\n" + _("exchanges: of the work, what sends tokens to experts and back with nothing beside it")
    table += "\n" + fill_drain_note(simulation.fill_drain)
    if not any(cell.startswith("-") for row in rows for cell in row[1:]):
        return table
    return table + "\n" + _("below zero: less idle time, as unequal stages can fill and drain sooner than equal ones")


def fill_drain_note(idle: FillDrain) -> str:
    """Return one sentence on what equal stages would idle under the same order: by formula and simulated."""
    simulated = f"{round(idle.simulated, 4) + 0.0:.4f}"
    if idle.by_formula is None:
        return _(
            "fill/drain of equal stages: {simulated} simulated; no formula: {reason}",
            simulated=simulated,
            reason=idle.words,
        )
    return _(
        "fill/drain of equal stages: {value} by formula, {simulated} simulated; idle time {formula}",
        value=f"{round(idle.by_formula, 4) + 0.0:.4f}",
        simulated=simulated,
        formula=idle.words,
    )


def memory_note(simulation: Simulation, memory_limit_bytes: int | None) -> str:
    """Return one sentence on whether the plan fits, and by how much."""
    if not simulation.network.has_memory:
        return _("memory: the layer file has no memory data, so no limit is checked")
    peak = max(simulation.peak_memory_bytes)
    peak_text = _(
        "peak {peak_mb:,.1f} MB on rank {rank}",
        peak_mb=megabytes(peak),
        rank=simulation.peak_memory_bytes.index(peak),
    )
    if memory_limit_bytes is None:
        return _("memory: {where}; no limit was given (--memory), so none is checked", where=peak_text)
    limit = _("the limit of {limit_mb:,.1f} MB", limit_mb=megabytes(memory_limit_bytes))
    if simulation.fits(memory_limit_bytes):
        left_mb = megabytes(memory_limit_bytes - peak)
        return _("fits: {where}, {left_mb:,.1f} MB within {limit}", where=peak_text, left_mb=left_mb, limit=limit)
    over = [rank for rank, held in enumerate(simulation.peak_memory_bytes) if held > memory_limit_bytes]
    over_mb = megabytes(peak - memory_limit_bytes)
    verdict = _("does not fit: {where}, {over_mb:,.1f} MB over {limit}", where=peak_text, over_mb=over_mb, limit=limit)
    if len(over) == 1:
        return verdict
    return _("{verdict}; over it on ranks {ranks}", verdict=verdict, ranks=shown_order(over))


def host_note(simulation: Simulation) -> str:
    """Return a sentence each on what the host and what other ranks keep, and how busy the links there are.

    It is empty where nothing is moved.
    """
    uses = host_uses(simulation)
    kept = [_kept_by_host(simulation, uses), _kept_by_ranks(simulation, uses)]
    return "\n".join(filter(None, kept))


def _kept_by_ranks(simulation: Simulation, uses: Sequence[HostUse]) -> str:
    moving = [rank for rank, use in enumerate(uses) if use.pool_bytes]
    if not moving:
        return ""
    busiest = max(moving, key=lambda rank: uses[rank].copies_ns)
    pools = [
        _(
            "rank {keeper} {held_mb:,.1f} MB of rank {rank}",
            keeper=use.keeper,
            held_mb=megabytes(use.pool_bytes),
            rank=rank,
        )
        for rank, use in enumerate(uses)
        if use.pool_bytes
    ]
    return _(
        "ranks keep for others, as a part of their peaks: {pools}; links are busy up to {busy:.0f} % of the step in "
        "each direction (rank {busiest}), with {fetches}",
        pools=", ".join(pools),
        busy=100 * uses[busiest].copies_ns / simulation.makespan_ns,
        busiest=busiest,
        fetches="" if simulation.network.host_link is None else fetches_text(simulation.network.host_link),
    )


def _kept_by_host(simulation: Simulation, uses: Sequence[HostUse]) -> str:
    moving = [rank for rank, use in enumerate(uses) if use.held_bytes]
    if not moving:
        return ""
    fullest, busiest = (
        max(moving, key=lambda rank: uses[rank].held_bytes),
        max(moving, key=lambda rank: uses[rank].copies_ns),
    )
    return _(
        "the host keeps for ranks {ranks}: at most {held_mb:,.1f} MB for rank {fullest}; links are busy up to "
        "{busy:.0f} % of the step in each direction (rank {busiest}), with {fetches}",
        fetches="" if simulation.network.host_link is None else fetches_text(simulation.network.host_link),
        ranks=shown_order(moving),
        held_mb=megabytes(uses[fullest].held_bytes),
        fullest=fullest,
        busy=100 * uses[busiest].copies_ns / simulation.makespan_ns,
        busiest=busiest,
    )


def pairs_note(simulation: Simulation) -> str:
    """Return one sentence on what forwards beside backwards hide; empty without them."""
    hidden_ns, exposed_ns = simulation.hidden_ns, simulation.exposed_ns
    if hidden_ns is None or exposed_ns is None:
        return ""
    worst = int(exposed_ns.argmax())
    shown = _(
        "forwards beside backwards: exchanges of {least_ms:,.3f} ms (rank {least}) to {most_ms:,.3f} ms (rank {most}) "
        "are hidden, and up to {exposed_ms:,.3f} ms (rank {worst}) are not, {share:.0f} % of the step",
        least_ms=milliseconds(int(hidden_ns.min())),
        least=int(hidden_ns.argmin()),
        most_ms=milliseconds(int(hidden_ns.max())),
        most=int(hidden_ns.argmax()),
        worst=worst,
        exposed_ms=milliseconds(int(exposed_ns[worst])),
        share=100 * int(exposed_ns[worst]) / simulation.makespan_ns,
    )
    if simulation.plan.releases_attention:
        return _("{shown}; attention goes backward before the MLP beside it goes forward, to hold less", shown=shown)
    if not simulation.plan.delays_weights:
        return shown
    return _("{shown}; weight gradients of experts run behind what an exchange waits for", shown=shown)


def encoders_note(simulation: Simulation) -> str:
    """Return a sentence on encoders beside the pipeline, and the step with them; empty where there are none."""
    encoded, work = simulation.encoded, simulation.network.encoder_work
    if encoded is None or work is None:
        return ""
    times = _(
        "encoders, on all ranks, take {before_ms:,.3f} ms before the pipeline and {behind_ms:,.3f} ms behind it: a "
        "step of {step_ms:,.3f} ms",
        before_ms=milliseconds(encoded.before_ns),
        behind_ms=milliseconds(encoded.behind_ns),
        step_ms=milliseconds(encoded.step_ns),
    )
    if not work.in_bubbles:
        return times
    count = len(encoded.forwards.ranks)
    shares = _(
        "{forwards:,} of {count:,} forwards of a part and {backwards:,} of {all:,} backwards run in its bubbles",
        forwards=encoded.forwards_in_bubbles,
        count=count,
        backwards=encoded.backwards_in_bubbles,
        all=0 if encoded.backwards is None else count,
    )
    waits_ns = encoded.step_ns - encoded.pipeline_ns
    least = _("beside this pipeline they cannot take less")
    if waits_ns > encoded.least_ns:
        least = _("beside this pipeline they take {least_ms:,.3f} ms at least", least_ms=milliseconds(encoded.least_ns))
    return f"{times}; {shares}; {least}"


def without_host_note(kept: Outcome | None, outcome: Outcome) -> str:
    """Return one sentence on the best plan that keeps everything on the devices; empty where none was looked for."""
    if kept is None or outcome.makespan_ns is None or outcome.simulation is None:
        return ""
    uses = host_uses(outcome.simulation)
    with_ranks = _("the host and other ranks") if any(use.held_bytes for use in uses) else _("other ranks")
    place = with_ranks if any(use.pool_bytes for use in uses) else _("the host")
    if kept.makespan_ns is None:
        none = _("without {place} no plan fits", place=place) if kept.infeasibility else ""
        return none or _("without {place} no plan was found in the time of a quick look", place=place)
    return _(
        "without {place} the step is {percent:.1f} % longer: {step_ms:,.3f} ms, {status}",
        place=place,
        percent=100 * (kept.makespan_ns / outcome.makespan_ns - 1),
        step_ms=milliseconds(kept.makespan_ns),
        status=_("proven") if kept.status is Status.OPTIMAL else _("the best of a quick look"),
    )


def binding_note(outcome: Outcome, *, same_without_limit: bool = False) -> str:
    """Return one sentence on the memory limits that bind the plan; empty where none was checked.

    `same_without_limit` says that the plan is proven to be optimal without a limit too.
    """
    if outcome.binding is None:
        return ""
    if same_without_limit:
        return _("no memory limit binds: the same plan is optimal without a limit")
    return binding_words(outcome.binding)


def binding_words(binding: Sequence[BindingLimit]) -> str:
    """Return one sentence on the memory limits that bind."""
    if not binding:
        return _("no memory limit binds: with more memory, no rank alone would recompute less or take a layer for it")
    least = min(binding, key=lambda limit: limit.more_bytes)
    ranks = shown_order([limit.rank for limit in binding])
    values = {"ranks": ranks, "more": f"{round_up_megabytes(least.more_bytes):,} MB", "rank": least.rank}
    count = len(binding)
    if least.takes_layer:
        return _n(
            "memory binds on rank {ranks}: with {more} more it would take a layer from its neighbour",
            "memory binds on ranks {ranks}: with {more} more, rank {rank} would take a layer from its neighbour",
            count=count,
            **values,
        )
    return _n(
        "memory binds on rank {ranks}: with {more} more it would recompute less",
        "memory binds on ranks {ranks}: with {more} more, rank {rank} would recompute less",
        count=count,
        **values,
    )


def ranks_note(network: Network, rank_order: Sequence[int] = ()) -> str:
    """Return sentences on where ranks that differ were placed, and on those that are slower or have less memory.

    Empty where all are alike.
    """
    notes = []
    for traits in dict.fromkeys(network.ranks):
        ranks = shown_order([rank for rank, own in enumerate(network.ranks) if own == traits])
        if traits.speed != 1:
            notes.append(_("{ranks}: {speed:.4g} of the fastest rank's speed", ranks=ranks, speed=traits.speed))
        if traits.reserved_bytes:
            short = megabytes(traits.reserved_bytes)
            notes.append(_("{ranks}: {short_mb:,.1f} MB less memory, counted as held", ranks=ranks, short_mb=short))
        if traits.link_ns:
            slow = _(
                "{ranks}: messages to and from the next rank take {more_ms:,.3f} ms longer",
                ranks=ranks,
                more_ms=milliseconds(traits.link_ns),
            )
            notes.append(slow)
        if traits.host_sharers is not None:
            notes.append(_("{ranks}: links to the host among {count} devices", ranks=ranks, count=traits.host_sharers))
    unequal = _("unequal ranks: {notes}", notes="; ".join(notes)) if notes else ""
    if not rank_order:
        return unequal
    placed = _(
        "ranks placed: 0 to {last} are {ranks} as given", last=len(rank_order) - 1, ranks=shown_order(rank_order)
    )
    return f"{placed}\n{unequal}"


def message_note(simulation: Simulation) -> str:
    """Return one sentence on what a message costs; empty where messages are free."""
    message = simulation.communication
    if message is None:
        return ""
    costs = simulation.costs
    if costs.sent_bytes is not None and message.bytes_per_s is not None and len(costs.sent_bytes) > 1:
        transfers_ns = message_times(costs.sent_bytes[:-1], message) - message.latency_ns
        note = _(
            "messages between ranks: {latency_us:,.3f} us latency + {least_us:,.3f} to {most_us:,.3f} us transfer, "
            "by the layers that send them",
            latency_us=message.latency_ns / 1000,
            least_us=int(transfers_ns.min()) / 1000,
            most_us=int(transfers_ns.max()) / 1000,
        )
    else:
        note = _(
            "messages between ranks: {latency_us:,.3f} us latency + {transfer_us:,.3f} us transfer",
            latency_us=message.latency_ns / 1000,
            transfer_us=message.transfer_ns / 1000,
        )
    if not message.one_at_a_time:
        return note
    free = run(simulation.timeline.graph, costs.durations, costs.messages(replace(message, one_at_a_time=False)))
    longer = _(
        "each rank sends one at a time, which makes the step {more_ms:,.3f} ms longer",
        more_ms=milliseconds(simulation.makespan_ns - free.makespan_ns),
    )
    return f"{note}\n{longer}"


def round_up_megabytes(size_bytes: int) -> int:
    """Return whole megabytes that hold `size_bytes`, for a limit that a user can type."""
    return -(-size_bytes // MEGABYTE)


def _by_chunk(values: Sequence[int]) -> str:
    return " ".join(str(value) for value in values)


def _signed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:.{digits}f}"  # adding zero turns -0.0 into 0.0
