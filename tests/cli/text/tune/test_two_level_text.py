from dataclasses import replace

from evenflow.cli.text.display_width import display_width
from evenflow.cli.text.tune.two_level_text import two_level_text
from evenflow.tune.answers.two_level import TwoLevel, TwoLevelStep
from tests.tune.rankings import ranking


def step(milliseconds: float, description: str) -> TwoLevelStep:
    return TwoLevelStep(
        step_ns=int(1e6 * milliseconds),
        microbatch=4,
        num_microbatches=16,
        schedule="1f1b",
        peak_bytes=2**31,
        description=description,
    )


FOUND = TwoLevel(
    row=1, degrees=step(440, "one stage: FSDP over 8"), plain=step(420, "2 stages"), free=step(399, "3 stages"),
    lower_bound_ns=315_000_000,
)  # fmt: skip
GOLDEN = """\
shardings of every operator beside degrees, all planned by `evenflow auto` at the costs of single operators
                       step ms     %  microbatches  schedule  peak GB
degrees of #1            440.0  +0.0       16 of 4  1f1b          2.0
best degrees there       420.0  -4.5       16 of 4  1f1b          2.0
every operator freely    399.0  -9.3       16 of 4  1f1b          2.0
degrees of #1: one stage: FSDP over 8
best degrees there: 2 stages
every operator freely: 3 stages
a free sharding could still gain 5.0 % over the best degrees
no plan at all could gain more than 25.0 %
the ranking has 400.0 ms for #1, with fused operators and what the framework overlaps: these steps compare with one
another, not with it
to plan freely for longer:
evenflow auto --model config.json"""
COMMAND = "evenflow auto --model config.json"


def test_golden() -> None:
    text = two_level_text(FOUND, ranking().best, command=COMMAND)
    assert text == GOLDEN
    assert max(map(display_width, text.splitlines())) <= 120


def test_the_degrees_of_a_later_row_may_be_the_best() -> None:
    found = replace(FOUND, row=2, degrees=step(410, "one stage"), free=step(410, "one stage"), lower_bound_ns=0)
    lines = two_level_text(found, ranking().ranked[1], command=COMMAND).splitlines()
    assert not any("best degrees there" in line for line in lines)
    assert "no free sharding was found that is faster than the best degrees" in lines
    assert "the degrees of the rows before #2 are not among the plain plans of `evenflow auto`" in lines
    assert not any("no plan at all" in line for line in lines)


def test_no_answer_has_a_reason() -> None:
    text = two_level_text(TwoLevel(row=0, reason="it rains"), None, command=COMMAND)
    assert text == "--refine auto has no answer: it rains"
