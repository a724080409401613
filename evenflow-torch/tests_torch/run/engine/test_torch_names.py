"""The private names of torch that are used exist in the installed release, and a missing one is named with it."""

import runpy

import pytest
import torch
from torch.distributed.pipelining import schedules

from evenflow.errors import InputError
from evenflow_torch.run.engine import torch_names

RELEASE = ".".join(torch.__version__.split(".")[:2])
OF_RELEASE = [torch_names.USED, *(used for releases, used in torch_names.USED_BY_SOME.items() if RELEASE in releases)]


@pytest.mark.parametrize(
    ("owner", "name"), [(owner, name) for used in OF_RELEASE for owner, names in used.items() for name in names]
)
def test_what_is_overridden_or_called_is_there(owner: type, name: str) -> None:
    assert hasattr(owner, name), f"torch {torch.__version__} has no {owner.__name__}.{name}"


def test_the_installed_release_has_been_tried() -> None:
    assert RELEASE in torch_names.TORCH_VERSIONS
    assert {name for names in torch_names.USED_BY_SOME for name in names} == set(torch_names.TORCH_VERSIONS)


def test_a_release_without_a_name_is_refused_by_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(schedules, "_PipelineScheduleRuntime")
    with pytest.raises(InputError) as caught:
        runpy.run_path(torch_names.__file__)
    for word in (torch.__version__, *torch_names.TORCH_VERSIONS, "_PipelineScheduleRuntime", "evenflow[torch]"):
        assert word in str(caught.value)


def test_forwards_keep_their_order_and_gather_only_what_they_use() -> None:
    order = "0UNSHARD 0RECV_F0 0F0 0SEND_F0 2UNSHARD 2F0 0RESHARD 0UNSHARD 0B0 0REDUCE_GRAD 2F1 2RESHARD 0RESHARD"
    forwards = torch_names.forwards_of([torch_names.TorchAction.from_str(action) for action in order.split()])
    assert " ".join(map(str, forwards)) == "0UNSHARD 0RECV_F0 0F0 0SEND_F0 2UNSHARD 2F0 0RESHARD 2F1 2RESHARD"
