"""The verb ``evenflow auto``."""

import time
from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evenflow import ranges
from evenflow.cli.exit_status import INFEASIBLE
from evenflow.cli.shared import options
from evenflow.cli.shared.decided_plans import decided
from evenflow.cli.shared.dtype_option import dtype_option
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.model_config import MODEL, ModelConfig, config_path, read_config
from evenflow.cli.shared.numbers import Number
from evenflow.cli.shared.overlaps import STAGE_OVERLAPS, OverlapList, usual
from evenflow.cli.shared.plan_pictures import MADE_BY
from evenflow.cli.shared.progress import shown_step
from evenflow.cluster import FEWEST_AXES, Dtype
from evenflow.errors import InputError
from evenflow.export.chrome_trace import TracedStep, chrome_trace
from evenflow.export.results.json_text import format_object
from evenflow.language import _
from evenflow.profiles.accelerator_file import accelerator_given, accelerator_path
from evenflow.profiles.layer_file import format_layer_file
from evenflow.profiles.own_plan_file import DEGREES, SCHEDULES, OwnPlan, read_own_plan
from evenflow_torch.results.auto_fields import AutoSetting, auto_fields
from evenflow_torch.text.auto_text import answer_lines, auto_text, shortage_text
from evenflow_torch.verbs.auto.cluster_options import ClusterOptions, cluster_options, taken_notes
from evenflow_torch.verbs.auto.fix_option import fix_option
from evenflow_torch.verbs.auto.own_sizes import asked_sizes, search_note
from evenflow_torch.verbs.torch_extra import torch_extra

if TYPE_CHECKING:
    from evenflow_torch.auto.deadline import Deadline
    from evenflow_torch.auto.planner import AutoPlan
from evenflow.cluster import Accelerator, Cluster


@click.command()
@MODEL
@cluster_options
@click.option(
    "--global-batch",
    type=options.SEQUENCE_COUNT,
    help="Sequences of a step: size and number of its microbatches are chosen.",
)
@click.option("--microbatches", type=options.MICROBATCH_COUNT, help="Microbatches of one step.")
@click.option(
    "--seq", "sequence", type=options.TOKEN_COUNT, default=4096, show_default=True, help="Tokens of a sequence."
)
@click.option(
    "--target-seq",
    "target_sequence",
    type=options.TOKEN_COUNT,
    help="Tokens of a target, of a model with encoder and decoder; --seq is its source.  [default: as --seq]",
)
@click.option(
    "--microbatch",
    type=options.SEQUENCE_COUNT,
    help="Sequences of a microbatch, on all devices of a stage together.  [default: chosen with --global-batch, else "
    "one for each device of the mesh]",
)
@click.option("--accelerator", default="a100", show_default=True, metavar="NAME|FILE", help=options.ACCELERATOR_HELP)
@click.option(
    "--efficiency",
    type=options.EFFICIENCY,
    metavar="SHARE",
    help="Share of the accelerator's peak that large matrix products reach.  [default: the accelerator's own]",
)
@dtype_option(Dtype.BFLOAT16, Dtype.FLOAT16, Dtype.FLOAT32, help="Number format of parameters and activations")
@options.OPTIMIZER
@click.option(
    "--bytes-per-parameter",
    type=Number(ranges.BYTES_PER_PARAMETER),
    metavar="BYTES",
    help="Bytes of weight, gradient and optimizer state together, instead of those of --optimizer.",
)
@click.option(
    "--overlap",
    type=OverlapList(STAGE_OVERLAPS),
    default=usual(STAGE_OVERLAPS),
    show_default=True,
    help=f"What runs under the computation of a stage: some of {', '.join(STAGE_OVERLAPS)}; or none.",
)
@click.option(
    "--expert-capacity",
    type=Number(ranges.EXPERT_CAPACITY),
    metavar="FACTOR",
    help="Times an equal share of a device's tokens that an expert takes at most; others are dropped.  "
    "[default: no limit]",
)
@click.option(
    "--axes",
    "most_axes",
    type=Number(ranges.MESH_AXES),
    default=FEWEST_AXES,
    show_default=True,
    help="Axes of the meshes that stages are tried on; 3 also splits the devices of a node in two ways, takes longer.",
)
@click.option(
    "--schedule",
    type=click.Choice(SCHEDULES),
    default="1f1b",
    show_default=True,
    help="Order of work that the stages are chosen for; the refinement tries others.",
)
@fix_option
@click.option(
    "--evaluate",
    "own_file",
    type=options.FILE,
    metavar="PLAN",
    help="Search nothing: price the plan in this file, YAML with degrees of parallelism or a plan of evenflow auto.",
)
@options.TIME_LIMIT
@click.option(
    "-o",
    "--output",
    "layer_file",
    type=options.FILE,
    metavar="FILE",
    help="Write a layer file with the layers as each device holds them.",
)
@options.JSON
@click.option("--svg", "svg_file", type=options.FILE, metavar="FILE", help="Draw mesh, timeline and memory.")
@options.HTML
@options.TRACE
@options.OVERWRITE
def auto(
    model: str,
    described: ClusterOptions,
    global_batch: int | None,
    microbatch: int | None,
    microbatches: int | None,
    sequence: int,
    schedule: str,
    fixed: dict[str, Any],
    own_file: Path | None,
    time_limit: float,
    layer_file: Path | None,
    json_file: Path | None,
    svg_file: Path | None,
    html_file: Path | None,
    trace_file: Path | None,
    overwrite: bool,
    **setting_options: Any,
) -> int:
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

    started, deadline = time.monotonic(), Deadline.after(time_limit)
    path = config_path(model)
    outputs = Outputs(
        {"--json": json_file, "--output": layer_file, "--svg": svg_file, "--html": html_file, "--trace": trace_file},
        inputs={
            "--model": Path(path),
            "--cluster": described.file,
            "--accelerator": accelerator_path(setting_options["accelerator"]),
            "--evaluate": own_file,
        },
        overwrite=overwrite,
    )
    device = accelerator_given(setting_options["accelerator"], place="--accelerator")
    cluster = described.cluster(device)
    own = None if own_file is None else read_own_plan(own_file)
    step = asked_sizes(
        own,
        global_batch=global_batch,
        microbatch=microbatch,
        microbatches=microbatches,
        sequence=sequence,
        schedule=schedule,
    )
    sizes = step_sizes(
        global_batch=step.global_batch,
        microbatch=step.microbatch,
        num_microbatches=step.microbatches,
        usual=cluster.num_devices,
        can_choose=own_file is None,
    )
    size, count = sizes or (1, 1)
    chosen = step.global_batch if sizes is None else None
    setting = AutoSetting(
        global_batch=chosen,
        microbatch=size,
        num_microbatches=count,
        sequence=step.sequence,
        schedule=step.schedule,
        time_limit_s=time_limit,
        **setting_options,
    )
    if own is not None:
        fixed = _degrees(own, fixed, cluster)
    config = read_config(path)
    with shown_step(_("loading PyTorch")) as progress:
        result = _plan(config, cluster, device, setting, fixed, own, deadline, progress)
    if result.batches:
        count = result.num_microbatches
        assert chosen is not None
        setting = replace(setting, microbatch=chosen // count, num_microbatches=count)
    to_compare = (search_note(step),) if result.is_own else ()
    result = replace(result, notes=(*taken_notes(cluster, device), *result.notes, *to_compare))
    return _answer(result, setting, outputs, seconds=time.monotonic() - started)


def _plan(
    config: ModelConfig,
    cluster: "Cluster",
    device: "Accelerator",
    setting: AutoSetting,
    fixed: dict[str, Any],
    own: OwnPlan | None,
    deadline: "Deadline",
    progress: Callable[[str], None],
) -> "AutoPlan":
    """Return the plan of the model."""
    with torch_extra(place="evenflow auto"):
        import evenflow_torch.models.training_row  # noqa: F401 - it imports both
        from evenflow_torch.auto.config_planner import plan_config
        from evenflow_torch.auto.evaluate import OwnCut
        from evenflow_torch.auto.fixing.fixed import Fixed
        from evenflow_torch.auto.sharding.overlap import Overlap
    return plan_config(
        config.fields,
        cluster,
        sequence=setting.sequence,
        target_sequence=setting.target_sequence,
        global_batch=setting.global_batch,
        microbatch=None if setting.global_batch else setting.microbatch,
        num_microbatches=None if setting.global_batch else setting.num_microbatches,
        accelerator=device,
        efficiency=setting.efficiency,
        dtype=setting.dtype,
        optimizer=setting.optimizer,
        bytes_per_parameter=setting.bytes_per_parameter,
        overlap=Overlap.of(setting.overlap),
        expert_capacity=setting.expert_capacity,
        most_axes=setting.most_axes,
        schedule=setting.schedule,
        fixed=Fixed(**fixed),
        own=None if own is None else OwnCut(layers=own.layers, recompute=own.recompute),
        deadline=deadline,
        name=config.name,
        progress=progress,
    )


def _degrees(own: OwnPlan, fixed: dict[str, Any], cluster: "Cluster") -> dict[str, Any]:
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


def _answer(result: "AutoPlan", setting: AutoSetting, outputs: Outputs, *, seconds: float) -> int:
    """Write the files and print the answer."""
    from evenflow_torch.pages.two_level_picture import two_level_svg

    def fields() -> dict[str, object]:
        return auto_fields(result, setting, seconds=seconds)

    outputs.write_json(fields)
    if result.two_level is None:
        click.echo(shortage_text(result), err=True)
        return INFEASIBLE
    outputs.write("--output", lambda: format_layer_file(replace(result.simulation.network, name=result.row.name)))
    title = f"{result.row.name} on {result.cluster.num_nodes}x{result.cluster.devices_per_node} devices"
    outputs.write("--svg", lambda: two_level_svg(result.simulation, result.cluster, result.stages, title=title))
    outputs.write("--html", lambda: _page(result, fields(), title=title, seconds=seconds))
    traced = TracedStep.of(result.simulation, memory_limit_bytes=result.cluster.memory_bytes)
    outputs.write("--trace", lambda: chrome_trace([traced]))
    text = auto_text(result, microbatch=setting.microbatch, sequence=setting.sequence, seconds=seconds)
    outputs.say(text)
    return 0


def _page(result: "AutoPlan", fields: dict[str, object], *, title: str, seconds: float) -> str:
    """Return the report of a plan that was found."""
    from evenflow.report import report_html
    from evenflow_torch.pages.of_auto import shown_auto

    notes = [*answer_lines(result, seconds), *result.notes]
    shown = shown_auto(result, notes=notes, plan=format_object(fields))
    return report_html(decided([shown]), title=title, made_by=MADE_BY)
