"""The flags of the SAPP pipeline balancer, with its long names and defaults. [SAPP guide, Step 4]"""

import argparse
import difflib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

import evenflow
from evenflow import ranges
from evenflow.cli.shared.help_language import HELP, OPTION
from evenflow.cli.shared.numbers import as_number
from evenflow.cli.text.display_width import wrapped
from evenflow.errors import shown
from evenflow.language import ENGLISH, LANGUAGES, _, looked_up, spoken, to_translate
from evenflow.ranges import Range

PROGRAM = "run_pipeline_balance.py"
_REFUSED = {
    "memory_folder": to_translate("memory files (-mf) are not read; give the memory of each layer in the layer file"),
    "compute_memory": to_translate("memory is not computed (-cm); give the memory of each layer in the layer file"),
}


class _Help(argparse.HelpFormatter):
    """Writes help in the language spoken; in English exactly as argparse does."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return super()._split_lines(text, width) if spoken() == ENGLISH else wrapped(looked_up(text), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if spoken() == ENGLISH:
            return super()._fill_text(text, width, indent)
        return "\n".join(indent + line for line in wrapped(looked_up(text), width - len(indent)))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Report a wrong flag like any other bad input."""
        raise click.UsageError(_("{message}; see: {program} --help", message=message, program=PROGRAM))


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the values of the flags; raises UsageError for a flag that is wrong or refused.

    A flag that a file may say as well is None where it is not given.
    """
    known = parser()
    _check_spelling(arguments, known)
    flags = known.parse_args(arguments)
    for name, sentence in _REFUSED.items():
        if getattr(flags, name) not in (None, False):
            raise click.UsageError(looked_up(sentence))
    return flags


def says_nothing(arguments: Sequence[str]) -> bool:
    """Whether the arguments have no flag, except perhaps the language."""
    return all(argument.startswith(OPTION) or argument in LANGUAGES for argument in arguments)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the flags, which has their help."""
    parser = _Parser(
        prog=PROGRAM,
        allow_abbrev=False,
        formatter_class=_Help,
        description="Balance a pipeline: layers and recomputation of every stage, from a layer file or an init file. "
        "Without any flag it asks.",
        epilog=f"examples: python {PROGRAM} -m llama2_70b -mb 32 -mem 56000 -s 8; "
        f"python {PROGRAM} --init cfgs/init_demo.yaml -m demo -s 16 -i 3 -mb 16 -mem 56000 -lm 1",
    )
    add = parser.add_argument
    ranks, chunks, splits = _number(ranges.RANKS), _number(ranges.CHUNKS), _number(ranges.SEQUENCE_SPLITS)
    microbatches = _number(ranges.MICROBATCHES)
    add("-m", "--model_name", default="model_name", metavar="NAME", help="layer file NAME.json in the layer folder")
    add("-s", "--stage", type=ranks, metavar="N", help="pipeline stages (4)")
    add("-mb", "--micro_batch", type=microbatches, metavar="N", help="microbatches (4)")
    add("-i", "--interleave_degree", type=chunks, metavar="N", help="pipeline interleave (1)")
    add("-seq", "--seq_split_num", "--seq", type=splits, default=1, metavar="N", help="parts of a sequence (1)")
    add("-mem", "--max_memory", metavar="MB", help="memory limit of a device in MB (56000)")
    add(
        "--confidence",
        type=_number(ranges.CONFIDENCE),
        metavar="P",
        help="probability with which fitted memory must fit (the standard error of a peak is left free)",
    )
    add("-mc", "--constant_memory", metavar="MB", help="constant memory of a stage in MB (that of the layer file)")
    _add_flag(parser, "-lm", "--less_memory", "with interleave above 1: the schedule with less memory", default=None)
    _add_flag(parser, "-dual", "--dualpipe_v", "the schedule DualPipe-V, with interleave 2")
    add("-t", "--time_limit", type=_number(ranges.SECONDS), default=90.0, metavar="S", help="seconds of search (90)")
    add(
        "-train",
        "--training_config",
        type=Path,
        metavar="FILE",
        help="take stages and microbatches from this training YAML, where no flag gives them",
    )
    _add_flag(parser, "-naive", "--simulate_naive", "also simulate even plans, all or nothing recomputed")
    add("-manual", "--manual_config", type=Path, metavar="FILE", help="also simulate the plans of this YAML file")
    add(
        "-o",
        "--output_folder",
        type=Path,
        default=Path("output"),
        metavar="DIR",
        help="folder that pictures are written to (./output)",
    )
    add(
        "-lf",
        "--layer_folder",
        type=Path,
        default=Path("layers"),
        metavar="DIR",
        help="folder of layer files (./layers)",
    )
    add("-html", "--html", type=Path, metavar="FILE.html", help="also write all plans as one page for the browser")
    _add_flag(parser, "-overwrite", "--overwrite", "also replace files that evenflow did not write, or changed ones")
    _add_flag(parser, "-exec", "--exec", "0: only simulate the other plans, without solving", default=True)
    _add_flag(parser, "-dump", "--dump_layer", "print the layers as they were read")
    add("-q", "--quiet", action="store_true", help="no progress, and no comparison with other -lm and -i")
    add("-O", "--optimization_level", type=int, choices=(0, 1, 2), help="accepted for old scripts, without effect")
    add(
        "-init",
        "--init",
        type=Path,
        metavar="FILE",
        help="make the layer file NAME.json from this init file, and take from it what no flag gives",
    )
    add("-guide", "--guide", action="store_true", help="ask for the sizes, and say which dry runs to do")
    add("-mf", "--memory_folder", metavar="DIR", help=argparse.SUPPRESS)
    _add_flag(parser, "-cm", "--compute_memory", argparse.SUPPRESS)
    add(OPTION, choices=LANGUAGES, help=HELP)
    parser.add_argument("--version", action="version", version=f"evenflow {evenflow.__version__}")
    return parser


def _check_spelling(arguments: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Refuse flags that argparse would take apart: to it, ``-tarin`` is ``-t`` with the value ``arin``.

    A number may stand right behind a flag of one letter, as in ``-O2``.
    """
    names = list(parser._option_string_actions)
    for argument in arguments:
        name = argument.partition("=")[0]
        if not re.match(r"--?[A-Za-z]", argument) or name in names:
            continue
        if name[:2] in names and name[2:].isdecimal():
            continue
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.65)
        hint = _("did you mean {flag}?", flag=near[0]) if near else _("see: {program} --help", program=PROGRAM)
        raise click.UsageError(_("{flag} is an unknown flag; {hint}", flag=name, hint=hint))


def _add_flag(
    parser: argparse.ArgumentParser, short: str, long: str, text: str, *, default: bool | None = False
) -> None:
    """Add a yes/no flag, which may stand alone for yes."""
    parser.add_argument(short, long, type=_yes, nargs="?", const=True, default=default, metavar="0|1", help=text)


def _yes(text: str) -> bool:
    if text.lower() in {"1", "true", "yes", "y", "t"}:
        return True
    if text.lower() in {"0", "false", "no", "n", "f"}:
        return False
    raise argparse.ArgumentTypeError(_("{text!r} is neither 1, true, yes nor 0, false, no", text=text))


def _number(within: Range) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = as_number(text, within)
        if value not in within:
            raise argparse.ArgumentTypeError(_("{text} {rule}", text=shown(text), rule=within.rule))
        return value

    return read
