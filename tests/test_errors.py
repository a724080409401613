"""One form for every message."""

import pytest

from evenflow.errors import FileError, InputError


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            InputError(value=200, rule="must be at most the number of layers (80)", place="--ranks"),
            "--ranks must be at most the number of layers (80), got 200",
        ),
        (
            InputError(value=None, rule="must be given", place="--mesh", remedy="add --mesh or --cluster"),
            "--mesh must be given; add --mesh or --cluster",
        ),
        (FileError("nofile.json", reason="no such file"), "cannot read nofile.json: no such file"),
        (
            FileError("out/plan.json", action="write", reason="permission denied", remedy="choose another folder"),
            "cannot write out/plan.json: permission denied; choose another folder",
        ),
    ],
)
def test_messages(error: InputError, message: str) -> None:
    assert str(error) == message
