"""Files that a user names a framework for, with nothing in them that the framework reads."""

import pytest

from evenflow.errors import InputError
from evenflow.targets.registry import all_targets
from evenflow.targets.target import GivenSizes

SIZES = GivenSizes(num_layers=16, num_ranks=8, num_microbatches=32)
READING = sorted(name for name, target in all_targets().items() if target.read is not None)


@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("learning: 1\nfarm:\n  pp: 16\n", "run.yaml"),
        ('{"learning": 1}', "run.json"),
        ("echo learning\n", "run.sh"),
        ("[learning]\nrate = 1\n", "run.toml"),
    ],
)
def test_a_file_of_something_else_is_no_plan(name: str, text: str, file: str) -> None:
    read = all_targets()[name].read
    assert read is not None
    with pytest.raises(InputError):
        read(text, file, SIZES)
