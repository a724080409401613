"""The verb ``evenflow auto``."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evenflow.asking import asked, asked_as, optional
from evenflow.cli.exit_status import INFEASIBLE
from evenflow.cli.shared import options
from evenflow.cli.shared.decided_plans import decided
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.model_config import MODEL, ModelConfig, config_path, read_config
from evenflow.cli.shared.plan_pictures import MADE_BY
from evenflow.cli.shared.progress import shown_step
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.cluster import Cluster
from evenflow.errors import InputError
from evenflow.export.chrome_trace import TracedStep, chrome_trace
from evenflow.export.results.json_text import format_object
from evenflow.language import _
from evenflow.profiles.accelerator_file import accelerator_given, accelerator_path
from evenflow.profiles.layer_file import format_layer_file
from evenflow.profiles.own_plan_file import DEGREES, OwnPlan, read_own_plan
from evenflow.questions import SEARCH_TIME
from evenflow_torch.requests import AutoRequest
from evenflow_torch.results.auto_fields import auto_fields
from evenflow_torch.text.auto_text import answer_lines, auto_text, shortage_text
from evenflow_torch.verbs.auto.cluster_options import ClusterOptions, taken_notes
from evenflow_torch.verbs.auto.fix_option import FIX, parse_fixed
from evenflow_torch.verbs.auto.own_sizes import search_note, with_sizes
from evenflow_torch.verbs.torch_extra import torch_extra

if TYPE_CHECKING:
    from evenflow_torch.auto.deadline import Deadline
    from evenflow_torch.auto.planner import AutoPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoOptions:
    """What ``evenflow auto`` is asked for: an option for each field."""

    model: str = field(metadata=MODEL)
    described: ClusterOptions = field(metadata=asked(group=ClusterOptions))
    training: AutoRequest = field(metadata=asked(group=AutoRequest))
    fix: tuple[str, ...] = field(default=(), metadata=FIX)
    own_file: Path | None = optional(
        "--evaluate",
        metavar="PLAN",
        help="Search nothing: price the plan in this file, YAML with degrees of parallelism or a plan of evenflow "
        "auto.",
    )
    time_limit: float = field(default=60.0, metadata=SEARCH_TIME)
    layer_file: Path | None = optional(
        "--output", letter="-o", is_written=True, help="Write a layer file with the layers as each device holds them."
    )
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    svg_file: Path | None = field(
        default=None, metadata=asked_as(options.SVG_FILE, help="Draw mesh, timeline and memory.")
    )
    html_file: Path | None = field(default=None, metadata=options.HTML_FILE)
    trace_file: Path | None = field(default=None, metadata=options.TRACE_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)


@click.command()
@options_as("request", AutoOptions)
def auto(request: AutoOptions) -> int:
    """Plan both levels of parallelism: stages on parts of a cluster, and in each the sharding of every operator.

    Operators of each kind of layer are sharded by an integer program on every submesh; stages and submeshes follow by
    dynamic programming; the exact solver refines the pipeline. The JSON file is also a plan file: with the layer file
    it goes to `evenflow simulate`. After --time-limit seconds the best plan so far is the answer, which says what was
    left out.

    Exit status: 0 a plan, 2 bad input, 3 the model does not fit, 130 interrupted, 143 ended.

    \b
    Examples:
      evenflow auto --model examples/configs/llama3_70b.json --mesh 4x8 --memory 80GB --microbatches 16 \\
        --intra-bandwidth 200GBps --inter-bandwidth 25GBps --json auto_plan.json --svg auto.svg
      evenflow auto --model config.json --cluster examples/cluster_2x8.yaml --global-batch 512 -o layers.json
      evenflow auto --model config.json --mesh 2x8 --microbatches 32 --fix tensor=8,zero=1
    """
    from evenflow_torch.auto.deadline import Deadline
    from evenflow_torch.auto.step_sizes import step_sizes

    fixed, training, described = parse_fixed(request.fix), request.training, request.described
    started, deadline = time.monotonic(), Deadline.after(request.time_limit)
    path = config_path(request.model)
    outputs = Outputs(
        paths_of(request),
        inputs={
            "--model": Path(path),
            "--cluster": described.file,
            "--accelerator": accelerator_path(str(training.accelerator)),
            "--evaluate": request.own_file,
        },
        overwrite=request.overwrite,
        formats={"--output": ".json"},
    )
    device = accelerator_given(str(training.accelerator), place="--accelerator")
    cluster = described.cluster(device)
    own = None if request.own_file is None else read_own_plan(request.own_file)
    if own is not None:
        training = with_sizes(training, own)
    sizes = step_sizes(training, usual=cluster.num_devices, can_choose=own is None)
    if own is not None:
        fixed = _degrees(own, fixed, cluster)
    config = read_config(path)
    with shown_step(_("loading PyTorch")) as progress:
        result = _plan(config, cluster, replace(training, accelerator=device), fixed, own, deadline, progress)
    to_compare = (search_note(training),) if result.is_own else ()
    if sizes is not None:
        size, count = sizes
        training = replace(training, global_batch=None, microbatch=size, num_microbatches=count)
    elif result.batches:
        assert training.global_batch is not None
        training = replace(training, microbatch=training.global_batch // result.num_microbatches)
    result = replace(result, notes=(*taken_notes(cluster, device), *result.notes, *to_compare))
    return _answer(result, training, outputs, seconds=time.monotonic() - started)


def _plan(
    config: ModelConfig,
    cluster: Cluster,
    training: AutoRequest,
    fixed: dict[str, Any],
    own: OwnPlan | None,
    deadline: "Deadline",
    progress: Callable[[str], None],
) -> "AutoPlan":
    """Return the plan of the model."""
    with torch_extra(place="evenflow auto"):
        import evenflow_torch.models.training_row  # noqa: F401 - it imports both
        from evenflow_torch.auto.config_planner import Decided, plan_training
        from evenflow_torch.auto.evaluate import OwnCut
        from evenflow_torch.auto.fixing.fixed import Fixed
    decisions = Decided(
        fixed=Fixed(**fixed),
        own=None if own is None else OwnCut(layers=own.layers, recompute=own.recompute),
        deadline=deadline,
        name=config.name,
        progress=progress,
    )
    return plan_training(config.fields, cluster, training, decisions)


def _degrees(own: OwnPlan, fixed: dict[str, Any], cluster: Cluster) -> dict[str, Any]:
    """Return all degrees of a person's plan, as keywords of `Fixed`; what it does not say is 1, and data the rest."""
    if fixed:
        raise InputError(
            rule=_("must not be given beside --evaluate, whose plan says it"),
            place="--fix",
            remedy=_("leave one of the two out"),
        )
    degrees = {name: own.degrees.get(name, 1) for name in DEGREES}
    if "data" not in own.degrees:
        used = prod(size for name, size in degrees.items() if name not in ("data", "expert"))
        degrees["data"] = max(1, cluster.num_devices // used)
    return {**degrees, "zero": own.zero, "placements": own.placements}


def _answer(result: "AutoPlan", training: AutoRequest, outputs: Outputs, *, seconds: float) -> int:
    """Write the files and print the answer."""
    from evenflow_torch.pages.two_level_picture import two_level_svg

    def fields() -> dict[str, object]:
        return auto_fields(result, training)

    outputs.write_json(fields)
    if result.two_level is None:
        click.echo(shortage_text(result), err=True)
        return INFEASIBLE
    outputs.write("--output", lambda: format_layer_file(replace(result.simulation.network, name=result.row.name)))
    title = f"{result.row.name} on {result.cluster.num_nodes}x{result.cluster.devices_per_node} devices"
    outputs.write("--svg", lambda: two_level_svg(result.simulation, result.cluster, result.stages, title=title))
    outputs.write("--html", lambda: _page(result, fields(), title=title))
    traced = TracedStep.of(result.simulation, memory_limit_bytes=result.cluster.memory_bytes)
    most = outputs.most_traced(result.simulation.timeline.schedule.num_actions)
    outputs.write("--trace", lambda: chrome_trace([traced], most_actions=most))
    text = auto_text(result, training, seconds=seconds)
    outputs.say(text)
    return 0


def _page(result: "AutoPlan", fields: dict[str, object], *, title: str) -> str:
    """Return the report of a plan that was found."""
    from evenflow.report import report_html
    from evenflow_torch.pages.of_auto import auto_configurations, shown_auto

    notes = [*answer_lines(result), *result.notes]
    shown = shown_auto(result, notes=notes, plan=format_object(fields))
    return report_html(decided([shown]), title=title, configurations=auto_configurations(result), made_by=MADE_BY)
