"""The formats of logs that are read are those of all targets, and the first of two counts where a log has both."""

import pytest

from evenflow.profiles.measured.logs.log_file import parse_log
from evenflow.profiles.measured.logs.log_format import LogFormat
from evenflow.targets.frameworks.deepspeed.logs import DEEPSPEED
from evenflow.targets.megatron_family.logs import MEGATRON
from evenflow.targets.registry import all_targets, log_formats
from tests.profiles.measured.logs.written import deepspeed_step, iteration


@pytest.mark.parametrize("log_format", [each for target in all_targets().values() for each in target.logs])
def test_every_target_brings_its_own(log_format: LogFormat) -> None:
    assert log_formats().formats.count(log_format) == 1
    assert log_format.names <= log_formats().names.names


def test_names_are_of_one_format_each() -> None:
    names = [log_format.name for log_format in log_formats().formats]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("is_turned", [False, True])
def test_a_format_that_gives_way_does_not_count_beside_another(is_turned: bool) -> None:
    pairs = [[iteration(number, 2000.0) + "\n", deepspeed_step(number, 25.0, 30.5)] for number in range(1, 9)]
    lines = [line for pair in pairs for line in (reversed(pair) if is_turned else pair)]
    assert DEEPSPEED.gives_way
    assert parse_log(lines, place="log", formats=log_formats()).format is MEGATRON
