"""The private names of torch that are used exist in the installed release, and a missing one is named with it."""

import runpy

import pytest
import torch
from torch.distributed.pipelining import schedules

from evenflow.errors import InputError
from evenflow_torch.run.engine import torch_names


@pytest.mark.parametrize(
    ("owner", "name"), [(owner, name) for owner, names in torch_names.USED.items() for name in names]
)
def test_what_is_overridden_or_called_is_there(owner: type, name: str) -> None:
    assert hasattr(owner, name), f"torch {torch.__version__} has no {owner.__name__}.{name}"


def test_the_installed_release_is_the_pinned_one() -> None:
    assert torch.__version__.startswith(f"{torch_names.TORCH_VERSIONS}.")


def test_a_release_without_a_name_is_refused_by_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(schedules, "_PipelineScheduleRuntime")
    with pytest.raises(InputError) as caught:
        runpy.run_path(torch_names.__file__)
    for word in (torch.__version__, torch_names.TORCH_VERSIONS, "_PipelineScheduleRuntime", "evenflow[torch]"):
        assert word in str(caught.value)
