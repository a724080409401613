"""The block to paste into the framework's configuration, and notes on it."""

import click

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import check_no_keepers
from evenflow.simulate import Simulation, simulate
from evenflow.targets.frameworks.mindformers.block import format_bodies, format_mindformers
from evenflow.targets.frameworks.mindformers.values import TITLE, check_writable, why_not
from evenflow.targets.frameworks.mindformers.values import without_environment as run_without
from evenflow.targets.further_tokens import without_mtp
from evenflow.units import megabytes


def block_to_paste(simulation: Simulation, memory_limit_bytes: int | None) -> str:
    """Return the fragment for the framework's configuration; none, with a note on stderr, for a plan it cannot express.

    A plan that the framework refuses has a comment in the fragment and a note on stderr. Several kinds of body layers
    have lists of their own below.
    """
    plan, title = simulation.plan, TITLE
    without = without_environment(simulation, memory_limit_bytes)
    try:
        check_writable(plan)
        if any(simulation.pool_bytes):
            check_no_keepers(simulation.network, title=title)
        counted, network = without_mtp(plan), simulation.network.without_mtp()
        block = format_mindformers(counted, without_environment=without) + format_bodies(network, counted)
    except InputError as error:
        click.echo(_("note: no block for {target}; {reason}", target=title, reason=str(error)), err=True)
        return ""
    refused = why_not(plan)
    if refused is not None:
        click.echo(_("note: {target} refuses this plan; {reason}", target=title, reason=str(refused)), err=True)
    return block.rstrip("\n")


def without_environment(simulation: Simulation, memory_limit_bytes: int | None) -> str:
    """Return what would run if the plan's environment variables were not set; empty where it has none."""
    plan = run_without(simulation.plan)
    if plan == simulation.plan:
        return ""
    other = simulate(simulation.network, plan, communication=simulation.communication)
    if not other.network.has_memory:
        return _("the order is {schedule}", schedule=plan.schedule)
    peak = f"{megabytes(max(other.peak_memory_bytes)):,.0f} MB"
    if memory_limit_bytes is None:
        planned = f"{megabytes(max(simulation.peak_memory_bytes)):,.0f} MB"
        return _("the peak is {peak}, not {planned}", peak=peak, planned=planned)
    over = sum(held > memory_limit_bytes for held in other.peak_memory_bytes)
    if not over:
        return _("the peak is {peak}, also within the limit", peak=peak)
    return _(
        "the peak is {peak}, over the limit on {over} of {count} ranks",
        peak=peak,
        over=over,
        count=plan.num_ranks,
    )
