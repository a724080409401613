"""The model that an init file describes, and its layer file."""

from pathlib import Path

import click

from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.standard_streams import filtered, live_console
from evenflow.cli.text.fit_text import fit_summary
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Network
from evenflow.profiles.init.init_file import InitFile, read_init_file
from evenflow.profiles.init.init_network import network_of_fit
from evenflow.profiles.init.init_times import PROFILING, LayerTimes, PassTimes, Profiling
from evenflow.profiles.layer_entry import plain_backward_ns
from evenflow.profiles.layer_file import format_layer_file
from evenflow.profiles.memory.fit import MemoryFit, fit_memory


def write_layer_file(init_file: Path, layer_file: Path, *, name: str, overwrite: bool) -> None:
    """Decompose the memory of an init file, print it, and write the layer file.

    Raises:
        InputError: a bad init file, or a layer file that is not to be replaced.
    """
    outputs = Outputs({"-m": layer_file}, inputs={_("the init file"): init_file}, overwrite=overwrite)
    init = read_init_file(init_file)
    fit = fit_memory(init.dry_runs)
    text = format_layer_file(model_of(init, fit, name=name))
    for note in time_notes(init):
        click.echo(_("note: {note}", note=note), err=True)
    click.echo(_("memory of {file}:", file=init_file) + f"\n{fit_summary(fit)}")
    outputs.write("-m", lambda: text)
    click.echo(_("layer file: {file}", file=layer_file) + "\n")


def model_of(init: InitFile, fit: MemoryFit, *, name: str) -> Network:
    """Return the network of a fit, with the given times or those of the timelines.

    Raises:
        InputError: an init file without times, or timelines that cannot be read.
    """
    return network_of_fit(fit, _times(init), name=name)


def notes_of(init: InitFile) -> tuple[str, ...]:
    """Return a sentence for each part of the file that the fit does not use."""
    unused = [key for key in init.planning.stated if key != "use_backward_time"]
    notes = []
    if unused:
        notes.append(
            _(
                "not needed for a fit: {fields} of pipeline_config, with which run_pipeline_balance.py --init plans",
                fields=", ".join(unused),
            )
        )
    return (*notes, *time_notes(init))


def time_notes(init: InitFile) -> tuple[str, ...]:
    """Return a sentence where timelines are not read."""
    if init.times is None or init.profiling is None:
        return ()
    return (_("time_config is used, so the timelines of profiling_config are not read"),)


def _times(init: InitFile) -> LayerTimes:
    if init.times is not None:
        return init.times
    if init.profiling is not None:
        return _profiled_times(init, init.profiling)
    raise InputError(
        rule=_("must have the times of the layers, which a layer file needs"),
        place=init.file,
        remedy=_(
            "add time_config with head, body and tail in ms, or profiling_config with the folder of the timelines"
        ),
    )


def _profiled_times(init: InitFile, profiling: Profiling) -> LayerTimes:
    """Return head, one layer and tail as the timelines show them.

    The backward is the plain one where none is visible, and where the file says not to use those that are.
    """
    from evenflow.profiles.traces import BlockTime, LayerNames, read_traces

    if len(profiling.body_layers) > 1:
        raise InputError(
            value=profiling.body_layers,
            rule=_("must name one kind of body layer, which the memory equations are for"),
            place=f"{profiling.place}.body_layers",
            remedy=_("name one in body_layers, or give the mean time of a layer in time_config"),
        )
    names = LayerNames(
        head=profiling.head_layers,
        body=profiling.body_layers,
        tail=profiling.tail_layers,
        given_by=_("{{role}}_layers in {profiling} of {file}", profiling=PROFILING, file=init.file),
    )
    folder = _timeline_folder(init, profiling)
    with filtered(live_console().status(_("reading timelines"))) as status:
        traces = read_traces(
            folder,
            num_microbatches=profiling.num_microbatches,
            num_layers=init.num_layers,
            names=names,
            progress=lambda done, total: status.update(
                _("reading timelines: {percent} %", percent=100 * done // max(total, 1))
            ),
        )
    for note in traces.notes:
        click.echo(_("note: {note}", note=note), err=True)

    uses_forwards_alone = init.planning.use_backward_time is False

    def part(key: str, block: BlockTime | None) -> PassTimes:
        if block is None:
            raise InputError(
                rule=_("must have a timeline that shows the {key}", key=key),
                place=str(folder),
                remedy=_(
                    "add the timeline of its stage, or name its layers in {key}_layers; a model without one has "
                    "time_config with 0",
                    key=key,
                ),
            )
        backward_ns = plain_backward_ns(block.forward_ns) if uses_forwards_alone else block.known_backward_ns
        return PassTimes(name=block.name, forward_ns=block.forward_ns, backward_ns=backward_ns)

    return LayerTimes(
        head=part("head", traces.head), body=part("body", traces.bodies[0]), tail=part("tail", traces.tail)
    )


def _timeline_folder(init: InitFile, profiling: Profiling) -> Path:
    """Return the folder as seen from the current folder, as in the original, or from the init file."""
    here = Path(profiling.folder)
    beside = Path(init.file).parent / here
    if here.exists():
        return here
    if beside.exists():
        return beside
    raise InputError(
        value=profiling.folder,
        rule=_(
            "must be a folder, seen from {cwd} or from {absolute}",
            cwd=Path.cwd(),
            absolute=Path(init.file).parent.absolute(),
        ),
        place=f"{profiling.place}.folder_path",
        remedy=_("put the timelines of the first, the last and a middle stage there, or give times in time_config"),
    )
