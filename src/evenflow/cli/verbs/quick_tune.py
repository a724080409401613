"""The verb ``evenflow quick-tune``."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from evenflow import solve
from evenflow.baselines.named_plans import NamedPlan
from evenflow.baselines.quick_tune import SCHEDULE, TuningStep, with_full_only
from evenflow.baselines.quick_tune import quick_tune as rule_of_thumb
from evenflow.cli.exit_status import status_code
from evenflow.cli.shared import options
from evenflow.cli.shared.files.input_files import read_network
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.progress import shown_progress
from evenflow.cli.shared.reproducible import may_be_reproducible
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.cli.text.comparison_table import comparison_table
from evenflow.cli.text.next_text import simulate_line
from evenflow.cli.text.plan_text import no_plan_text
from evenflow.cli.text.quick_tune_text import quick_tune_text
from evenflow.cli.text.tables import binding_note
from evenflow.errors import Interrupted
from evenflow.export.results.outcome_fields import RECOMMENDED
from evenflow.export.results.quick_tune_fields import quick_tune_fields
from evenflow.language import _
from evenflow.model import FULL, NONE, Network, Plan, Request, Sizes
from evenflow.questions import NUM_MICROBATCHES, NUM_RANKS, SEARCH_TIME
from evenflow.solve import Outcome
from evenflow.solve.time_left import TimeLeft

RULE = "rule_of_thumb"
FULL_ONLY = "optimum_full_only"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickTuneOptions:
    """What ``evenflow quick-tune`` is asked for: an option for each field."""

    ranks: int = field(metadata=NUM_RANKS)
    microbatches: int = field(metadata=NUM_MICROBATCHES)
    memory: str | None = field(default=None, metadata=options.MEMORY_TEXT)
    time_limit: float = field(default=60.0, metadata=SEARCH_TIME)
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)


@click.command("quick-tune")
@click.argument("layers", metavar="LAYERS.json")
@options_as("request", QuickTuneOptions)
@may_be_reproducible
def quick_tune(layers: str, request: QuickTuneOptions) -> int:
    """Tune by the SAPP guide's rule of thumb, step by step, and set the result beside the proven optimum.

    The rule is for 2 or 4 ranks, one chunk and full recomputation: offset 0 first, recompute until every rank fits,
    then (4 ranks) move layers while that evens out the stage times. The optimum is searched with full recomputation
    only, and with every kind in the layer file where there are more; --time-limit holds for each search.

    Exit status: that of the last optimum, as for evenflow plan.

    \b
    Example:
      evenflow quick-tune examples/llama2_70b.json --ranks 4 --microbatches 16 --memory 56GB
    """
    limit = options.memory_limit(request.memory)
    sizes = Sizes(num_ranks=request.ranks, num_microbatches=request.microbatches)
    network = read_network(layers)
    outputs = Outputs(
        paths_of(request),
        inputs={_("the layer file"): Path(layers)},
        overwrite=request.overwrite,
        without_mark=("--json",),
    )
    if not network.has_memory:
        limit = None
    steps = rule_of_thumb(
        network, num_ranks=sizes.num_ranks, num_microbatches=sizes.num_microbatches, memory_limit_bytes=limit
    )
    click.echo(quick_tune_text(steps, limit) + "\n")
    outcomes: dict[str, Outcome] = {}
    time_left, offers = TimeLeft.of_command(request.time_limit), _offers(network)
    for name, offered in offers.items():
        try:
            found = [step.simulation.plan for step in steps]
            seconds = time_left.seconds / (len(offers) - len(outcomes))
            found += [outcome.plan for outcome in outcomes.values() if outcome.plan is not None]
            outcomes[name] = _solve(offered, sizes, limit=limit, time_limit_s=seconds, known=found)
        except Interrupted:
            if not outcomes:
                raise
            break
    _print_comparison(steps[-1], outcomes, limit, layers=layers)
    outputs.write_json(lambda: quick_tune_fields(steps, outcomes, sizes, limit))
    outputs.say(is_apart=True)
    return status_code(list(outcomes.values())[-1].status)


def _offers(network: Network) -> dict[str, Network]:
    """Return the networks whose optimum is compared: with full recomputation only, and with every kind."""
    if set(network.kinds) == {FULL, NONE}:
        return {RECOMMENDED: network}
    return {FULL_ONLY: with_full_only(network), RECOMMENDED: network}


def _solve(network: Network, sizes: Sizes, *, limit: int | None, time_limit_s: float, known: Sequence[Plan]) -> Outcome:
    with shown_progress(time_limit_s=time_limit_s) as progress:
        request = Request(network=network, sizes=sizes, memory_limit_bytes=limit, allow_empty=False)
        return solve.solve(request, schedule=SCHEDULE, time_limit_s=time_limit_s, progress=progress, known=known)


def _print_comparison(rule: TuningStep, outcomes: dict[str, Outcome], limit: int | None, *, layers: str) -> None:
    """Print a table of all plans, the certificates, and how to keep the rule's; say on stderr why a plan is missing."""
    plans = [NamedPlan(name=RULE, simulation=rule.simulation)]
    notes = []
    for name, outcome in outcomes.items():
        if outcome.simulation is None:
            click.echo(f"{name}: {no_plan_text(outcome)}", err=True)
        else:
            plans.append(NamedPlan(name=name, simulation=outcome.simulation))
            notes += [f"{name}: {note}" for note in (outcome.certificate(), binding_note(outcome)) if note]
    click.echo(comparison_table(plans, limit))
    if notes:
        click.echo("\n" + "\n".join(notes))
    if rule.simulation.fits(limit):
        click.echo(f"\n{RULE}: {simulate_line(rule.simulation.plan, layers=layers)}")
