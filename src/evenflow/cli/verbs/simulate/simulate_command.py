"""The verb ``evenflow simulate``."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from evenflow.aa import RankChecks, coverage_of, plan_checks
from evenflow.asking import asked, optional
from evenflow.baselines.named_plans import NamedPlan
from evenflow.cli.shared import options
from evenflow.cli.shared.decided_plans import decided
from evenflow.cli.shared.defaults import without_defaults
from evenflow.cli.shared.files.given_model import MESSAGES_OF_PLANS, SIZES_OF_PLANS
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.group_sizes import best_simulated
from evenflow.cli.shared.host_options import HostOptions
from evenflow.cli.shared.message_options import MessageOptions
from evenflow.cli.shared.model_config import config_path
from evenflow.cli.shared.plan_pictures import plan_svg, plans_html
from evenflow.cli.shared.rank_options import RankOptions
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import ResultFiles, paths_of
from evenflow.cli.shared.segment_options import SegmentOptions
from evenflow.cli.shared.training.configuration_options import (
    ConfigurableCommand,
    ConfigurationOptions,
    only_for_configurations,
)
from evenflow.cli.shared.training.configured_model import check_rank_options, configured_model
from evenflow.cli.shared.training.training_options import options_given
from evenflow.cli.text.aa_coverage_text import aa_coverage_text
from evenflow.cli.text.next_text import export_line
from evenflow.cli.text.plan_text import plan_text
from evenflow.cli.verbs.simulate.given_plan import GivenPlan, read_files
from evenflow.errors import InputError
from evenflow.export.chrome_trace import TracedStep, chrome_trace
from evenflow.export.results.aa_coverage_fields import aa_coverage_fields
from evenflow.language import _
from evenflow.profiles.plan_fields import plan_file_fields
from evenflow.simulate import Simulation
from evenflow.simulate import simulate as run_on_paper
from evenflow.units import milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    """What ``evenflow simulate`` is asked for beside its files."""

    plan: GivenPlan = field(metadata=asked(group=GivenPlan))
    memory: str | None = field(default=None, metadata=options.MEMORY_TEXT)
    unequal_ranks: RankOptions = field(metadata=asked(group=RankOptions))
    segments: SegmentOptions = field(metadata=asked(group=SegmentOptions))
    host: HostOptions = field(metadata=asked(group=HostOptions))
    messages: MessageOptions = field(metadata=asked(group=MessageOptions))
    aa_check: bool = optional(
        "--aa-check",
        default=False,
        help="Also say what the A/A check of evenflow run does again in which step, and what that covers.",
    )
    results: ResultFiles = field(metadata=asked(group=ResultFiles))
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)
    configuration: ConfigurationOptions = field(metadata=asked(group=ConfigurationOptions))


@click.command(cls=ConfigurableCommand)
@click.argument("files", metavar="[LAYERS.json|CONFIG.json] [PLAN.json]", nargs=-1, required=True)
@options_as("request", SimulateOptions)
def simulate(files: tuple[str, ...], request: SimulateOptions) -> int:
    """Run a plan on paper: exact timeline, memory and bubbles.

    The plan is a PLAN.json that --json wrote, or is given by --microbatches with --layers and --recompute. Without
    --layers, the layers are dealt evenly to --ranks x --chunks cells. The two files may stand in any order. A PLAN.json
    alone is simulated with the model and the messages that it was made for. CONFIG.json is the configuration of a
    model, as for evenflow plan.

    Exit status: 0 simulated (also when over the memory limit, which is said), 2 bad input.

    \b
    Examples:
      evenflow simulate examples/llama2_70b.json plan.json --memory 56GB --svg plan.svg
      evenflow simulate examples/llama2_70b.json --microbatches 8 --layers 20,20,20,20 --recompute full=5,4,3,2
    """
    written = options_given()
    model, plan = read_files(
        files,
        lambda config, plan: configured_model(
            config,
            request.configuration,
            replace(request.plan.pipeline(plan), in_turn=request.messages.p2p_exclusive),
            written=written,
        ),
        only_configured=only_for_configurations(written),
    )
    check_rank_options(request)
    if plan is not None:
        messages = MESSAGES_OF_PLANS if len(files) == 1 else ()  # beside a layer file those of the plan do not count
        request = without_defaults(request, (*SIZES_OF_PLANS, *messages))
    model.say_remarks()
    network = model.network
    limit = model.memory_limit_bytes if request.memory is None else options.memory_limit(request.memory)
    if plan is None:
        plan = request.plan.plan(network)
    else:
        request.plan.check_unused()
    network, limit = request.unequal_ranks.applied(network, limit, num_ranks=plan.num_ranks)
    for_optimizer = bool(request.configuration.optimizer_offload)
    moving = request.host.applied(network, num_ranks=plan.num_ranks, for_optimizer=for_optimizer)
    network = request.segments.applied(moving)
    outputs = Outputs(
        paths_of(request),
        inputs={_("the input file {file}", file=file): Path(config_path(file)) for file in files},
        overwrite=request.overwrite,
    )
    communication = request.messages.communication_or(
        model.communication, network, sequence_splits=plan.sequence_splits
    )
    if not network.has_memory:
        limit = None
    choice = ""
    if request.plan.group_size == options.EVERY:
        simulation, choice = best_simulated(
            lambda size: run_on_paper(network, replace(plan, group_size=size), communication=communication),
            schedule=plan.schedule,
            sizes=plan.sizes,
            memory_limit_bytes=limit,
        )
    else:
        simulation = run_on_paper(network, plan, communication=communication)
    outputs.warn_of_size(simulation.timeline.schedule.num_actions)
    checks = _checks(simulation, limit) if request.aa_check else ()
    coverage = coverage_of(checks, step_ns=simulation.makespan_ns) if checks else None
    covered = {"aa_check": aa_coverage_fields(coverage, checks)} if coverage else {}
    outputs.write_json(lambda: plan_file_fields(simulation, limit) | covered)
    named = NamedPlan(name="simulated", simulation=simulation)
    outputs.write("--svg", lambda: plan_svg(named, memory_limit_bytes=limit))
    outputs.write("--html", lambda: plans_html([named], memory_limit_bytes=limit, decide=decided))
    most = outputs.most_traced(simulation.timeline.schedule.num_actions)
    outputs.write(
        "--trace",
        lambda: chrome_trace([TracedStep.of(simulation, memory_limit_bytes=limit)], most_actions=most),
    )
    makespan = _("one step takes {step_ms:,.3f} ms", step_ms=milliseconds(simulation.makespan_ns))
    makespan = f"{makespan}; {choice}" if choice else makespan
    ahead = export_line(request.results.json_file, simulation)
    answer = plan_text(simulation, limit, first=[makespan], ahead=[ahead])
    answer = f"{answer}\n\n{aa_coverage_text(coverage)}" if coverage else answer
    outputs.say(answer)
    return 0


def _checks(simulation: Simulation, memory_limit_bytes: int | None) -> tuple[RankChecks, ...]:
    """Return the A/A checks of a plan that ``evenflow run`` can check."""
    if simulation.plan.sequence_splits > 1 or simulation.timeline.schedule.is_forward_only:
        raise InputError(
            value=simulation.plan.schedule,
            rule=_("must train on whole sequences, which is all that evenflow run checks"),
            place="--aa-check",
            remedy=_("leave it out"),
        )
    return plan_checks(
        simulation.timeline,
        simulation.costs,
        communication=simulation.communication,
        memory_limit_bytes=memory_limit_bytes,
    )
