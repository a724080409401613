"""Options of a command, made from the fields of its request."""

from dataclasses import dataclass, field
from pathlib import Path

import click
from click.testing import CliRunner

from evenflow.asking import asked, optional
from evenflow.cli.shared.request_options import options_as, options_of
from evenflow.cli.shared.sections import SectionedCommand
from evenflow.cluster import Dtype
from evenflow.errors import InputError
from evenflow.ranges import RANKS


@dataclass(frozen=True, kw_only=True)
class Label:
    """A group of one option."""

    colour: str | None = field(default=None, metadata=asked(option="--colour"))


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """A request with a field of every kind."""

    weight: int = field(metadata=asked(RANKS, option="--weight"))
    size: int = field(metadata=asked(RANKS, option="--size", is_optional=True))
    copies: int = field(default=2, metadata=asked(RANKS, option="--copies", shows_default=True, help="Copies."))
    fragile: bool = field(default=False, metadata=asked(option="--fragile"))
    insured: bool = field(default=True, metadata=asked(option="--insured/--uninsured"))
    stamps: tuple[str, ...] = field(default=(), metadata=asked(option="--stamp", is_multiple=True))
    label: Label = field(metadata=asked(group=Label))
    note: str = ""


def two_words(text: str) -> tuple[str, ...]:
    """Return the words of a text; raises InputError for another number than two."""
    words = tuple(text.split())
    if len(words) != 2:
        raise InputError(value=text, rule="must be two words", place="--names")
    return words


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A request whose options take files, choices and what a function reads."""

    scan: Path | None = optional("--scan")
    kind: str = optional("--kind", default="plain", choices=("plain", "express"), shows_default=True)
    names: tuple[str, ...] = optional("--names", read=two_words)
    dtype: Dtype = optional("--dtype", default=Dtype.FLOAT32, choices=(Dtype.FLOAT32, Dtype.BFLOAT16))


@click.command()
@options_as("letter", Letter)
def post(letter):
    """Print what the request is."""
    click.echo(repr(letter))


@click.command()
@options_of(Parcel)
def send(**keywords):
    """Print what the request is."""
    click.echo(repr(Parcel(**keywords)))


def test_every_field_is_answered_by_its_option():
    arguments = "--weight 3 --size 4 --copies 5 --fragile --uninsured --stamp a --stamp b --colour red"
    parcel = Parcel(
        weight=3, size=4, copies=5, fragile=True, insured=False, stamps=("a", "b"), label=Label(colour="red")
    )
    assert CliRunner().invoke(send, arguments).output == f"{parcel!r}\n"


def test_defaults_are_those_of_the_fields():
    parcel = Parcel(weight=3, size=None, label=Label())
    assert CliRunner().invoke(send, "--weight 3").output == f"{parcel!r}\n"


def test_an_option_without_a_default_must_be_given():
    assert "Missing option '--weight'" in CliRunner().invoke(send, "").output


def test_a_number_outside_of_its_range_names_the_option():
    error = CliRunner().invoke(send, "--weight 0").exception
    assert str(error) == "--weight must be an integer from 1 to 10,000, got 0"


def test_options_stand_in_the_order_of_the_fields():
    shown = CliRunner().invoke(send, "--help").output
    order = ["--weight", "--size", "--copies", "--fragile", "--insured", "--stamp", "--colour"]
    assert sorted(order, key=shown.index) == order
    assert "Copies.  [default: 2]" in shown
    assert "note" not in shown


@dataclass(frozen=True, kw_only=True)
class Way:
    """A request whose options stand in a section, one of them with a letter and one with a default that is typed."""

    route: str | None = field(default=None, metadata=asked(option="--route", letter="-r", section="The way"))
    stops: int = field(metadata=asked(RANKS, option="--stops", typed_default="07", shows_default=True))


@click.command(cls=SectionedCommand)
@options_as("way", Way)
def go(way):
    """Print what the request is."""
    click.echo(repr(way))


def test_a_command_gets_its_request_as_one_value():
    assert CliRunner().invoke(go, "-r coast").output == f"{Way(route='coast', stops=7)!r}\n"
    assert CliRunner().invoke(go, "--route coast --stops 3").output == f"{Way(route='coast', stops=3)!r}\n"


def test_a_typed_default_is_shown_as_it_is_typed_and_sections_have_their_titles():
    shown = CliRunner().invoke(go, "--help").output
    assert "[default: 07]" in shown
    assert shown.index("The way:") < shown.index("-r, --route") < shown.index("Other options:") < shown.index("--stops")


def test_the_type_of_a_value_follows_from_its_field_and_its_question():
    answers = ["--scan", "a.png", "--kind", "express", "--names", "Ann Bo", "--dtype", "bf16"]
    letter = Letter(scan=Path("a.png"), kind="express", names=("Ann", "Bo"), dtype=Dtype.BFLOAT16)
    assert CliRunner().invoke(post, answers).output == f"{letter!r}\n"
    assert CliRunner().invoke(post, []).output == f"{Letter()!r}\n"


def test_other_answers_are_refused():
    assert "'slow' is not one of 'plain', 'express'" in CliRunner().invoke(post, ["--kind", "slow"]).output
    assert "must be two words" in str(CliRunner().invoke(post, ["--names", "Ann"]).exception)


def test_the_help_says_what_an_answer_is():
    shown = CliRunner().invoke(post, "--help").output
    assert all(part in shown for part in ("--scan FILE", "--kind [plain|express]", "--dtype [fp32|bf16]"))
