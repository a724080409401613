"""The least memory of a job: never more than a run really held, and refused where nothing has as much."""

import os
from dataclasses import replace

import pytest
import torch

from evenflow.errors import InputError
from evenflow_torch.run.engine.order import runnable_order
from evenflow_torch.run.engine.stages import cut
from evenflow_torch.run.job.models import build_model
from evenflow_torch.run.job.needed_memory import check_memory, least_bytes
from evenflow_torch.run.values.run_job import RunJob
from tests_torch.run.job.launched import job


def least(asked: RunJob) -> list[int]:
    model = build_model(asked)
    return least_bytes(asked, model, cut(model, asked.plan, runnable_order(asked.plan)))


def test_the_least_is_what_must_be_there_by_hand() -> None:
    """Tiny: 64 wide, 256 words, layers of 46,208 parameters; in 4 bytes, with gradients and two moments."""
    layer, embedding, norm = 46_208, 256 * 64, 64
    assert sum(parameter.numel() for parameter in build_model(job(2)).body[0].module.parameters()) == layer
    tokens = 8
    assert least(job(2)) == [
        2 * tokens * 8 + 16 * (embedding + layer) + 2 * tokens * 64 * 4,
        2 * tokens * 8 + 16 * (layer + norm + embedding) + 3 * tokens * 64 * 4 + 2 * tokens * 256 * 4,
    ]
    assert least(replace(job(2), verify=True))[0] - least(job(2))[0] == 16 * (2 * layer + 2 * embedding + norm)


@pytest.mark.parametrize(("changes", "least_mb"), [({"sequence_length": 10**7}, 10**2), ({"vocab_size": 10**8}, 10**5)])
def test_what_no_machine_holds_is_refused_with_what_it_needs(changes: dict[str, int], least_mb: int) -> None:
    asked = replace(job(2), **changes)
    with pytest.raises(InputError, match="the memory that this run needs at least must be at most the") as caught:
        check_memory(asked, least(asked), here=2)
    assert int(str(caught.value.value).split()[0].replace(",", "")) > least_mb


def test_a_machine_needs_room_for_its_own_ranks_only() -> None:
    room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    words = room * 2 // 3 // (16 * 64)  # of a rank at each end
    asked = replace(job(2), vocab_size=words)
    model = build_model(asked)
    check_memory(asked, least(asked), here=1)
    with pytest.raises(InputError):
        check_memory(asked, least(asked), here=2)
    assert all(parameter.device == torch.device("meta") for parameter in model.whole.parameters())
