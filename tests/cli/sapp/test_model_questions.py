import click
import pytest
from click.testing import CliRunner, Result

from evenflow.cli.exit_status import exit_status
from evenflow.cli.sapp.model_questions import AnsweredModel, ask_model
from evenflow.model import Sizes
from evenflow.units import MEGABYTE

ANSWERS = (
    "y", "2", "4", "*", "5000", "toy",
    "emb", "1.5", "100",
    "", "2.5", "8", "50", "30", "", "", "", "5",
    "", "1", "80",
)  # fmt: skip
"""Sizes and name; head; body with its five activations; tail."""


def ask(*answers: str) -> tuple[Result, list[AnsweredModel | None]]:
    asked: list[AnsweredModel | None] = []

    @click.command()
    @click.pass_context
    def command(context: click.Context) -> None:
        context.exit(exit_status(lambda: asked.append(ask_model()) or 0))

    return CliRunner().invoke(command, input="".join(f"{answer}\n" for answer in answers)), asked


def test_the_answers_are_a_model_and_its_sizes():
    result, [asked] = ask(*ANSWERS)
    assert result.exit_code == 0
    assert asked is not None
    assert asked.settings.sizes == Sizes(num_ranks=2, num_microbatches=4)
    assert (asked.settings.schedule, asked.settings.memory_limit_bytes) == ("1f1b", 5000 * MEGABYTE)
    network = asked.network
    assert (network.name, network.num_layers, network.kinds) == ("toy", 8, ("full", "none"))
    assert (network.head.name, network.head.forward_ns, network.head.parameter_bytes) == (
        "emb",
        1_500_000,
        100 * MEGABYTE,
    )
    assert network.tail.parameter_bytes == 80 * MEGABYTE
    layer = network.runs[0].layer
    assert (layer.forward_ns, layer.parameter_bytes) == (2_500_000, 50 * MEGABYTE)
    assert {kind: mode.activation_bytes // MEGABYTE for kind, mode in layer.modes.items()} == {"none": 30, "full": 5}


def test_wrong_answers_are_asked_for_again():
    wrong = ("y", "two", "0", "2", "4", "2", "much", "5000", "toy", "", "-1", "0", "", "", "", "0", "x", "1", "4")
    result, [asked] = ask(*wrong, "50", "", "", "", "", "", "", "", "")
    assert asked is not None
    assert asked.settings.sizes == Sizes(num_ranks=2, num_microbatches=4, num_chunks=2)
    assert not asked.network.has_memory
    for reason in (
        "'two'",
        "above zero, got '0'",
        "'much'",
        "from 0 to 100,000,000, got '-1'",
        "no memory limit is checked",
    ):
        assert reason in result.stderr


@pytest.mark.parametrize("answer", ["n", ""])
def test_nobody_has_to_answer(answer):
    result, asked = ask(answer)
    assert (result.exit_code, asked) == (0, [None])


@pytest.mark.parametrize("count", range(len(ANSWERS)))
def test_the_end_of_the_answers_ends_the_command(count):
    result, asked = ask(*ANSWERS[:count])
    assert (result.exit_code, asked) == (130, [])
    assert "interrupted" in result.stderr
