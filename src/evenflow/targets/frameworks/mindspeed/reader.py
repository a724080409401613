"""The plan that a training script of MindSpeed asks for."""

from dataclasses import replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL
from evenflow.model.plan import cells
from evenflow.ranges import LAYERS, RANKS
from evenflow.targets.megatron_family.arguments import Arguments, flag_name, is_printed, line_place
from evenflow.targets.megatron_family.baseline import LAYOUT, baseline, read_run
from evenflow.targets.megatron_family.even_cuts import even_cut
from evenflow.targets.megatron_family.mindspeed_cuts import (
    MATRIX,
    METHOD,
    NOOP,
    OWN,
    is_before_mindspeed,
    parse_matrix,
    parse_numbers,
    real_layers,
    with_layers,
)
from evenflow.targets.megatron_family.settings import FB_OVERLAP
from evenflow.targets.megatron_family.shell_arguments import Flag, flags_of, shell_arguments, training_words
from evenflow.targets.megatron_family.shell_words import line_of
from evenflow.targets.target import Baseline, GivenSizes

BY_LIST, BY_MATRIX, BY_LAYOUT = "1.0", "26.0", "26.1"
"""The versions by how they cut the network."""


def read_script(text: str, file: str, sizes: GivenSizes) -> Baseline:
    """Return the plan of a training script, of a file with flags, or of the arguments that a run printed; in these,
    what is MindSpeed's own is not understood.

    Raises:
        InputError: as `baseline` does; flags of MindSpeed that it refuses together, and an order that no family has.
    """
    if is_printed(text):
        return read_run(text, file, sizes, in_pairs=FB_OVERLAP)
    arguments = shell_arguments(text, file=file)
    own, places = _own_flags(text, file)
    if not own:
        return baseline(arguments, sizes, in_pairs=FB_OVERLAP)
    key = next(iter(own))
    others = [other for other in own if other != key] + ([LAYOUT] if LAYOUT in arguments.values else [])
    if others:
        rule = _("must not be given beside {other}", other=others[0])
        raise InputError(rule=rule, place=places[key])
    names = {flag_name(key), f"--{key}"}
    known = tuple(entry for entry in arguments.unknown if entry.rpartition(": ")[2] not in names)
    return _with_cut(replace(arguments, unknown=known), own[key], places[key], sizes)


def real_arguments(text: str, file: str) -> tuple[Arguments, bool]:
    """Return the arguments of a script with the layers that do something, and whether others are among them.

    Raises:
        InputError: an order that no family has, or layers that do nothing which are no numbers.
    """
    arguments = shell_arguments(text, file=file)
    own, places = _own_flags(text, file)
    if NOOP not in own:
        return arguments, False
    noop = parse_numbers(" ".join(own[NOOP].texts), place=places[NOOP])
    num_layers = arguments.integer("num_layers", LAYERS)
    if num_layers is None:
        raise InputError(rule=_("must be given"), place=arguments.place("num_layers"))
    values = {**arguments.values, "num_layers": num_layers - len(set(noop))}
    return replace(arguments, values=values), True


def told_version(text: str, file: str) -> str | None:
    """Return the version whose cut a script has: 26.0 has a matrix, scripts without the name of MindSpeed a list.

    None where it may have any.
    """
    if is_printed(text):
        return None
    try:
        own, _places = _own_flags(text, file)
    except InputError:
        return None
    if MATRIX in own:
        return BY_MATRIX
    return BY_LIST if NOOP not in own and is_before_mindspeed(text, file) else None


def _own_flags(text: str, file: str) -> tuple[dict[str, Flag], dict[str, str]]:
    """Return MindSpeed's own flags by key, and their places; raises InputError for an order that no family has."""
    flags = {flag.key: flag for flag in flags_of(training_words(text, file=file)) if flag.key in OWN}
    own = {key: flag for key, flag in flags.items() if not flag.word.is_conditional}
    places = {key: f"{line_place(file, line_of(text, flag.word.start))}: {key}" for key, flag in own.items()}
    if METHOD in own:
        rule = _("must not be given: its order of work and its cut are MindSpeed's own")
        raise InputError(value=" ".join(own[METHOD].texts), rule=rule, place=places[METHOD])
    return own, places


def _with_cut(arguments: Arguments, flag: Flag, place: str, sizes: GivenSizes) -> Baseline:
    """Return the plan of arguments with the cut that a flag of MindSpeed makes."""
    text = " ".join(flag.texts)
    if flag.key == NOOP:
        return _with_noop_layers(arguments, parse_numbers(text, place=place), place, sizes)
    layers = parse_matrix(text, place=place) if flag.key == MATRIX else cells([parse_numbers(text, place=place)])
    return with_layers(arguments, layers, place, sizes)


def _with_noop_layers(arguments: Arguments, noop: tuple[int, ...], place: str, sizes: GivenSizes) -> Baseline:
    """Return the plan of arguments whose even cut has layers that do nothing, which count for recomputation."""
    num_layers = arguments.integer("num_layers", LAYERS)
    if num_layers is None or max(noop) >= num_layers:
        rule = _("must be layers of the {count} of num_layers, from 0", count=num_layers or 0)
        raise InputError(value=list(noop), rule=rule, place=place)
    ranks = arguments.integer("pipeline_model_parallel_size", RANKS) or sizes.num_ranks or 1
    table = real_layers(even_cut(arguments, num_layers=num_layers, num_ranks=ranks), noop)
    padded = replace(arguments, values={key: arguments.values[key] for key in arguments.values if key != "num_layers"})
    found = with_layers(padded, cells([[sum(cell) for cell in row] for row in table]), place, sizes)
    number = arguments.values.get("recompute_num_layers")
    if FULL not in found.plan.recompute or arguments.values.get("recompute_method") != "block":
        return found
    first = int(str(number))
    recompute = {FULL: cells([[sum(cell[:first]) for cell in row] for row in table])}
    return replace(found, plan=replace(found.plan, recompute=recompute))
