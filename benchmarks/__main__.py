"""`python -m benchmarks`: a command for each table of numbers in the documentation."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from benchmarks import (
    aa,
    alpa,
    alpa_images,
    auto,
    certificates,
    fidelity,
    first_plan,
    group_size,
    interruptions,
    kept,
    layouts,
    links,
    measure,
    offload,
    orders,
    page_frames,
    peer_schedulers,
    plans,
    published_orders,
    random_settings,
    sharding,
    simulator,
    stages,
    throughput,
    traces,
    tune_time,
    zero_bubble,
)
from benchmarks import cases as named
from benchmarks.published import accuracy, defaults, differences, mixtures, recipes, sweeps, transfer, verdicts
from benchmarks.published.prediction import calibrated, predicted
from evenflow.cluster.reached import Reached
from evenflow.errors import InputError
from evenflow.predict import expected_error, memory_error
from evenflow.tune import error as tune_error
from evenflow.units import megabytes

ALPA = alpa.CASES + alpa_images.CASES
_CONTEXT = {
    "help_option_names": ["-h", "--help"],
    "token_normalize_func": lambda name: name.replace("_", "-"),  # zero_bubble is zero-bubble
}


@click.group(context_settings=_CONTEXT, invoke_without_command=True)
@click.pass_context
def benchmarks(context: click.Context) -> None:
    """Measure evenflow; without a command, everything that needs no torch."""
    if context.invoked_subcommand is None:
        context.invoke(first_plan_command)
        context.invoke(simulator_command)
        context.invoke(traces_command)
        context.invoke(zero_bubble_command)
        context.invoke(group_size_command)
        context.invoke(orders_command)
        context.invoke(stages_command)
        context.invoke(plans_command)
        context.invoke(published_command)


@benchmarks.command("list")
def list_command() -> None:
    """List the cases with their sizes and limits."""
    for case in named.cases().values():
        sizes = f"{case.num_ranks} x {case.num_chunks} x {case.num_microbatches}"
        limit = f"{megabytes(case.memory_limit_bytes):,.0f} MB, {case.time_limit_s:g} s"
        click.echo(f"{case.name:14}  {case.network.name:16}  {case.network.num_layers:3} layers  {sizes:13}  {limit}")


@benchmarks.command("plans")
@click.argument("names", nargs=-1)
@click.option("--time-limit", type=float, help="Seconds for each case (default: the case's own).")
@click.option("--isolated", is_flag=True, help="A new process for each case: honest first-use time and memory.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write all measurements.")
def plans_command(
    names: tuple[str, ...] = (), time_limit: float | None = None, isolated: bool = False, json_path: Path | None = None
) -> None:
    """Plan the named cases (default: all). Example: python -m benchmarks plans 70b-8x1 --time-limit 20"""
    every = named.cases()
    unknown = [name for name in names if name not in every]
    if unknown:
        raise click.BadParameter(f"no case is named {', '.join(unknown)}; there are {', '.join(every)}")
    chosen = {name: every[name] for name in names} if names else every
    sys.exit(plans.run_plans(chosen, time_limit_s=time_limit, isolated=isolated, json_path=json_path))


@benchmarks.command("first-plan")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write all measurements.")
def first_plan_command(json_path: Path | None = None) -> None:
    """Measure the time to a first plan in new processes, with nothing compiled yet and with everything compiled."""
    rows = list(first_plan.measure_all())
    click.echo(first_plan.table(rows))
    if json_path:
        json_path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


@benchmarks.command("simulator")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write all speeds.")
def simulator_command(json_path: Path | None = None) -> None:
    """Measure actions per second of the simulator, and how its cost grows."""
    speeds, growth = simulator.measure_all()
    click.echo(simulator.report(speeds, growth))
    if json_path:
        values = {"speeds": [asdict(speed) for speed in speeds], "growth": [asdict(speed) for speed in growth]}
        json_path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


@benchmarks.command("traces")
@click.option("--size", "size_mb", type=click.IntRange(min=1), default=800, show_default=True, help="Megabytes a file.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write all speeds.")
def traces_command(size_mb: int = 800, json_path: Path | None = None) -> None:
    """Measure speed and peak memory of reading traces, beside json.load (which needs some 6 bytes a byte)."""
    speeds = traces.measure_traces(size_mb)
    click.echo(traces.report(speeds))
    if json_path:
        json_path.write_text(json.dumps([asdict(speed) for speed in speeds], indent=1) + "\n", encoding="utf-8")


@benchmarks.command("page-frames")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write all frames.")
def page_frames_command(json_path: Path | None = None) -> None:
    """Measure frames a second of the report page as the pointer moves over 262,144 actions; needs a browser."""
    rows = page_frames.measure_all()
    click.echo(page_frames.table(rows))
    if json_path:
        json_path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


@benchmarks.command("offload")
@click.option("--peer", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Make their answers anew.")
@click.option("--seconds", type=float, default=2.0, show_default=True, help="Work of a search, of usual seconds.")
@click.option("--processes", type=int, default=2, show_default=True, help="Settings that are planned at a time.")
@click.option("--write", is_flag=True, help="Write the table into docs/tables.")
def offload_command(peer: Path | None, seconds: float, processes: int, write: bool) -> None:
    """Compare plans that move activations to the host with those of PipeOffload's scheduler, at the same memory."""
    if peer is not None:
        offload.write(offload.their_answers(peer))
    table = offload.report(offload.kept_answers(), seconds=seconds, processes=processes)
    click.echo(table)
    if write:
        fidelity.write("offload", table)


@benchmarks.command("zero-bubble")
@click.option(
    "--order-seconds", type=float, default=10.0, show_default=True, help="Search of each order, where there is one."
)
@click.option(
    "--only",
    type=click.Choice(["published", "random"]),
    help="The published settings or the random ones (default: both).",
)
@click.option(
    "--search-seconds", type=float, default=5.0, show_default=True, help="Search of each order for random settings."
)
@click.option(
    "--every", type=click.IntRange(min=1), default=1, show_default=True, help="Take each n-th random setting."
)
@click.option(
    "--peer",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help=f"A checkout of {peer_schedulers.SOURCE}: run its schedulers again and store what their orders take.",
)
@click.option("--write", is_flag=True, help="Write the table of random settings into docs/tables.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write all numbers.")
def zero_bubble_command(
    order_seconds: float = 10.0,
    only: str | None = None,
    search_seconds: float = 5.0,
    every: int = 1,
    peer: Path | None = None,
    write: bool = False,
    json_path: Path | None = None,
) -> None:
    """Compare with the zero-bubble schedules: published bubble rates, and the authors' orders for random settings."""
    values: dict[str, object] = {}
    if only != "random":
        settings = list(zero_bubble.settings())
        rates = [rate for setting in settings for rate in zero_bubble.families(setting)]
        rates += [rate for setting in settings for rate in zero_bubble.orders(setting, seconds=order_seconds)]
        click.echo(zero_bubble.report(rates))
        values["published"] = [asdict(rate) for rate in rates]
    if only != "published":
        if peer:
            published_orders.store(peer)
        rows = published_orders.compare_all(list(random_settings.random_settings())[::every], seconds=search_seconds)
        table = published_orders.report(rows)
        click.echo(table)
        values["random"] = [asdict(row) for row in rows]
        if write:
            fidelity.write("random-settings", table)
    if json_path:
        json_path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


@benchmarks.command("group_size")
@click.option("--time-limit", type=float, default=30.0, show_default=True, help="Seconds for each plan.")
def group_size_command(time_limit: float = 30.0) -> None:
    """Measure what other group sizes of interleaved schedules save in memory and in time."""
    click.echo(group_size.report(time_limit))


@benchmarks.command("links")
def links_command() -> None:
    """Search orders for pipelines with a slow link, beside PipeMorph's."""
    click.echo(links.report(links.compare()))


@benchmarks.command("throughput")
@click.option("--write", is_flag=True, help="Write the table into docs/tables.")
def throughput_command(write: bool = False) -> None:
    """Predict runs of mixtures of experts whose throughput is published."""
    table = throughput.report([throughput.predict(run) for run in throughput.RUNS])
    click.echo(table)
    if write:
        fidelity.write("throughput", table)


@benchmarks.command("layouts")
@click.option("--time-limit", type=float, default=60.0, show_default=True, help="Seconds for each plan.")
@click.option("--write", is_flag=True, help="Write the table into docs/tables.")
def layouts_command(time_limit: float = 60.0, write: bool = False) -> None:
    """Plan beside the layouts of published recipes, under the same predicted costs."""
    table = layouts.report([layouts.compare(layout, time_limit_s=time_limit) for layout in layouts.LAYOUTS])
    click.echo(table)
    if write:
        fidelity.write("layouts", table)


@benchmarks.command("kept")
@click.option("--time-limit", type=float, default=60.0, show_default=True, help="Seconds for each plan.")
@click.option("--write", is_flag=True, help="Write the table into docs/tables.")
def kept_command(time_limit: float = 60.0, write: bool = False) -> None:
    """Plan large models whose layers may recompute modules or segments, or move activations to the host."""
    table = kept.report(time_limit_s=time_limit)
    click.echo(table)
    if write:
        fidelity.write("kept", table)


@benchmarks.command("auto")
@click.argument("names", nargs=-1)
def auto_command(names: tuple[str, ...] = ()) -> None:
    """Compare two-level plans with hand-written ones: all settings, or those that begin with NAMES. Needs torch."""
    chosen = [one for one in auto.SETTINGS if not names or one.name.startswith(names)]
    click.echo(auto.report([auto.measure(one) for one in chosen]))


@benchmarks.command("images")
@click.option("--time-limit", type=float, default=120.0, show_default=True, help="Seconds for each plan.")
def images_command(time_limit: float = 120.0) -> None:
    """Compare plans of ViT-L and ResNet-34 with data parallelism and other plain plans. Needs torch."""
    from benchmarks import images

    rows = [images.measure(name, count, time_limit_s=time_limit) for name in images.MODELS for count in images.PICTURES]
    click.echo(images.report(rows))


@benchmarks.command("alpa")
@click.option("--only", multiple=True, type=click.Choice([one.name for one in ALPA]), help="A case; several times.")
@click.option("--time-limit", type=float, default=60.0, show_default=True, help="Seconds for each case.")
def alpa_command(only: tuple[str, ...] = (), time_limit: float = 60.0) -> None:
    """Plan models of Alpa's evaluation, GPT and wide ResNet, beside the strategies that it published. Needs torch."""
    chosen = [one for one in ALPA if not only or one.name in only]
    click.echo(alpa.report([alpa.measure(one, time_limit_s=time_limit) for one in chosen]))


@benchmarks.command("sharding")
def sharding_command() -> None:
    """Measure how long operator sharding takes, for a block and for whole models. Needs torch."""
    click.echo(sharding.report(sharding.measure_all()))


@benchmarks.command("stages")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write all times.")
def stages_command(json_path: Path | None = None) -> None:
    """Compare the dynamic program over stages with a straightforward one of six loops, both compiled."""
    speeds = stages.measure_all()
    click.echo(stages.report(speeds))
    if json_path:
        json_path.write_text(json.dumps([asdict(speed) for speed in speeds], indent=1) + "\n", encoding="utf-8")
    if any(speed.loops_step_ns not in (None, speed.step_ns) for speed in speeds):
        sys.exit(1)


@benchmarks.command("certificates")
@click.argument("names", nargs=-1)
@click.option("--time-limit", type=float, default=60.0, show_default=True, help="Seconds to plan, and to write.")
@click.option("--write", is_flag=True, help="Write the table into docs/tables.")
def certificates_command(names: tuple[str, ...] = (), time_limit: float = 60.0, write: bool = False) -> None:
    """Write and verify certificates of the named cases (default: all).

    Example: python -m benchmarks certificates 70b-8x1 --time-limit 20
    """
    every = named.cases()
    unknown = [name for name in names if name not in every]
    if unknown:
        raise click.BadParameter(f"no case is named {', '.join(unknown)}; there are {', '.join(every)}")
    chosen = {name: every[name] for name in names or every}
    table = certificates.report(certificates.measure_all(chosen, time_limit_s=time_limit))
    click.echo(table)
    if write:
        fidelity.write("certificates", table)


@benchmarks.command("orders")
@click.argument("names", nargs=-1)
@click.option("--time-limit", type=float, default=30.0, show_default=True, help="Seconds for each row.")
def orders_command(names: tuple[str, ...] = (), time_limit: float = 30.0) -> None:
    """Measure the gain of searched orders over schedule families. Example: python -m benchmarks orders 70b-8x1"""
    every = named.cases()
    unknown = [name for name in names if name not in every]
    if unknown:
        raise click.BadParameter(f"no case is named {', '.join(unknown)}; there are {', '.join(every)}")
    orders.run_orders({name: every[name] for name in names or orders.STANDARD}, time_limit_s=time_limit)


@benchmarks.command("fidelity")
@click.option("--ranks", type=int, multiple=True, default=fidelity.RANKS, show_default=True, help="Processes.")
@click.option(
    "--stage-ms", type=float, multiple=True, default=fidelity.STAGE_MS, show_default=True, help="Shortest forwards."
)
@click.option("--write", is_flag=True, help="Write the tables into docs/tables.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write all cases.")
def fidelity_command(ranks: tuple[int, ...], stage_ms: tuple[float, ...], write: bool, json_path: Path | None) -> None:
    """Compare predicted with measured step times and peak memory, on real processes (20 minutes)."""
    memory = fidelity.measure_memory()
    click.echo(fidelity.memory_report(memory))
    cases = fidelity.measure(ranks, stage_ms)
    click.echo(fidelity.details(cases) + "\n\n" + fidelity.report(cases))
    if write:
        fidelity.write("fidelity-times", fidelity.report(cases))
        fidelity.write("fidelity-memory", fidelity.memory_report(memory))
    if json_path:
        json_path.write_text(json.dumps({"times": cases, "memory": memory}, indent=1) + "\n", encoding="utf-8")


@benchmarks.command("published")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--write", is_flag=True, help="Write the tables into docs/tables.")
def published_command(files: tuple[Path, ...] = (), write: bool = False) -> None:
    """Score predictions of published runs: FILES of the form in benchmarks/published/README.md (default: those there).

    Example: python -m benchmarks published mine.csv
    """
    try:
        runs, timelines = accuracy.read_all(files)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    sections, picture = {}, ""
    if runs:
        scored, picture = accuracy.score_sections(runs, predicted, calibrated)
        sections = {"contents": accuracy.contents_table(runs), **scored}
    sections |= accuracy.timeline_sections(timelines)
    click.echo("\n\n".join(sections.values()))
    if write:
        accuracy.write_sections(sections)
        accuracy.PICTURE.write_text(picture, encoding="utf-8")


@benchmarks.command("transfer")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--write", is_flag=True, help="Write the tables into docs/tables.")
def transfer_command(files: tuple[Path, ...] = (), write: bool = False) -> None:
    """Calibrate on each source of published runs and score every other one, and each half of it on the other half.

    FILES are CSV files of the form in benchmarks/published/README.md (default: those there).
    """
    try:
        sources = transfer.read_sources(files or transfer.FILES)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    tables = {
        "transfer": transfer.pairs_table(transfer.over_pairs(sources)),
        "calibrated-halves": transfer.within_table(transfer.within(sources)),
    }
    click.echo("\n\n".join(tables.values()))
    for name, text in tables.items() if write else ():
        fidelity.write(name, text)


@benchmarks.command("verdicts")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--states", default="", metavar="WORDS", help="What software did in all runs, beside what they state.")
@click.option("--write", is_flag=True, help="Write the values into the package, and the tables into docs/tables.")
def verdicts_command(files: tuple[Path, ...] = (), states: str = "", write: bool = False) -> None:
    """Say of published runs whether they fit, and how far off predicted memory was, also of sources left out.

    FILES are CSV files of the form in benchmarks/published/README.md (default: those there); notes of runs that died
    begin with OUT OF MEMORY.
    """
    try:
        every, _ = accuracy.read_all(files)
        runs = [verdicts.stating(run, states) for of in every.values() for run in of]
        ratios = verdicts.ratios(runs)
        tables = {"memory-verdicts": verdicts.verdict_table(verdicts.verdicts(runs))}
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    if ratios:
        tables["memory-margins"] = verdicts.left_out_table(ratios)
    click.echo("\n\n".join(tables.values()))
    if write and ratios:
        lines = verdicts.quantile_lines(verdicts.quantiles(ratios))
        defaults.write_lines(lines, into=memory_error, mark="memory")
        accuracy.write_sections(tables)


@benchmarks.command("defaults")
@click.option("--write", is_flag=True, help="Write the values into the package, and the tables into docs/tables.")
def defaults_command(write: bool = False) -> None:
    """Fit what generations of accelerators reach to published runs, and see how far off runs of other sources are.

    Steps, differences between configurations, and what a choice of degrees costs on published sweeps.
    """
    runs, _ = accuracy.read_all(())
    rows = defaults.rows_of(run for of in runs.values() for run in of)
    done: dict[object, Reached] = {}
    known = defaults.fitted_generations(rows, done=done)
    compared = defaults.left_out(rows, done)
    ranges = defaults.ranges(defaults.residuals(compared))
    of_pairs = differences.difference_ranges(differences.differences(compared))
    tables = {
        "expected": defaults.ranges_table(ranges),
        "differences": differences.difference_table(of_pairs),
        "sweeps": sweeps.sweep_table({each.run: each.predicted_s for each in compared} | sweeps.held_out_s()),
    }
    click.echo("\n\n".join([defaults.generations_text(known), *tables.values()]))
    if write:
        defaults.write_generations(known)
        dense = {kind: of for kind, of in ranges.items() if "experts" not in kind}
        defaults.write_ranges(dense, expected_error)
        defaults.write_ranges(of_pairs, tune_error)
        accuracy.write_sections(tables)


@benchmarks.command("mixtures")
@click.option("--write", is_flag=True, help="Write the values into the package, and the tables into docs/tables.")
def mixtures_command(write: bool = False) -> None:
    """Score mixtures of experts, also where nothing was fitted to their source, and runs with and without overlap.

    Fits how much slower computation is beside exchanges of tokens, and how wide intervals are.
    """
    rows = mixtures.read_mixtures()
    known = mixtures.fitted_slowdown(rows)
    if write:
        defaults.write_generations(known)
    compared = mixtures.compare(rows, known)
    ranges = mixtures.ranges(compared)
    tables = {
        "mixtures": mixtures.table(compared),
        "mixture-intervals": defaults.ranges_table(ranges),
        "overlapped-runs": mixtures.pairs_table(mixtures.overlapped_pairs(rows, known)),
    }
    click.echo("\n\n".join([f"pair_slowdown {known['Hopper'].pair_slowdown:.3g}", *tables.values()]))
    if write:
        defaults.write_ranges(ranges, expected_error, "mixtures")
        accuracy.write_sections(tables)


@benchmarks.command("tune")
@click.option("--time-limit", type=float, default=60.0, show_default=True, help="Seconds for each choice.")
@click.option("--write", is_flag=True, help="Write the tables into docs/tables.")
def tune_command(time_limit: float = 60.0, write: bool = False) -> None:
    """Choose degrees for models and devices with published recipes, beside these."""
    every = [recipes.compare(recipe, time_limit_s=time_limit) for recipe in recipes.RECIPES]
    tables = {"recipes": recipes.table(every), "recipes-why": recipes.reasons(every)}
    click.echo("\n\n".join(tables.values()))
    for name, text in tables.items() if write else ():
        fidelity.write(name, text)


@benchmarks.command("tune-time")
@click.argument("names", nargs=-1, type=click.Choice(list(tune_time.CASES)))
@click.option("--time-limit", type=float, default=60.0, show_default=True, help="Seconds for each question.")
@click.option("--write", is_flag=True, help="Write the table into docs/tables.")
def tune_time_command(names: tuple[str, ...] = (), time_limit: float = 60.0, write: bool = False) -> None:
    """Measure time and memory of a choice of degrees. Example: python -m benchmarks tune-time 70b-256"""
    table = tune_time.report([tune_time.measure(name, time_limit) for name in names or tuple(tune_time.CASES)])
    click.echo(table)
    if write:
        fidelity.write("tune-time", table)


@benchmarks.command("one-tune", hidden=True)
@click.argument("name", type=click.Choice(list(tune_time.CASES)))
@click.option("--time-limit", type=float, required=True)
def one_tune_command(name: str, time_limit: float) -> None:
    """Answer one question in this process and print what it took as JSON; tune-time starts this."""
    click.echo(tune_time.to_json(tune_time.answer(name, time_limit)))


@benchmarks.command("aa")
@click.option("--steps", type=click.IntRange(min=4), default=40, show_default=True, help="Measured steps of a plan.")
@click.option("--checks", type=click.IntRange(min=1), default=aa.CHECKS_OF_SOUND_WORK, show_default=True,
              help="Checks of sound work.")  # fmt: skip
def aa_command(steps: int, checks: int) -> None:
    """Measure the cost of the A/A check, and check sound work many times. Needs torch and transformers."""
    click.echo(aa.report(aa.measure_costs(steps)))
    done, mismatches = aa.check_sound_work(checks)
    click.echo(f"\n{done:,} checks of sound work: {mismatches} differences")
    sys.exit(1 if mismatches else 0)


@benchmarks.command("interruptions")
@click.argument("names", nargs=-1)
@click.option("--trials", "count", type=click.IntRange(min=1), default=200, show_default=True, help="Trials in all.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of moments and signals.")
def interruptions_command(names: tuple[str, ...], count: int, seed: int) -> None:
    """Tell commands to end at random moments. Example: python -m benchmarks interruptions plan --trials 60"""
    done = []
    for trial in interruptions.trials(names or tuple(interruptions.COMMANDS), count, seed=seed):
        done.append(trial)
        if trial.fault not in ("", interruptions.START):
            click.echo(f"{trial.command} {trial.signal} after {trial.at_s:.3f} s: {trial.fault}", err=True)
    click.echo(interruptions.report(done))
    sys.exit(1 if any(trial.fault not in ("", interruptions.START) for trial in done) else 0)


@benchmarks.command("one-trace", hidden=True)
@click.argument("reader", type=click.Choice(traces.READERS))
@click.argument("path", type=click.Path(path_type=Path))
def one_trace_command(reader: str, path: Path) -> None:
    """Print seconds and peak memory of one reading as JSON."""
    click.echo(json.dumps(traces.read_one(reader, path)))


@benchmarks.command("one", hidden=True)
@click.argument("name")
@click.option("--time-limit", type=float, required=True)
def one_command(name: str, time_limit: float) -> None:
    """Plan one case in this process and print its measurement as JSON; --isolated starts this."""
    if name == "warm-up":
        click.echo(measure.warm_up())
    else:
        click.echo(plans.to_json(measure.measure(named.cases()[name], time_limit)))


if __name__ == "__main__":
    benchmarks()
