"""A process knows its rank from the environment, and torchrun from a shell that happens to have a RANK."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow_torch.run.job.rank_environment import RankEnvironment, is_started_by_torchrun, rank_environment

COUNT = st.integers(0, 999)


@given(COUNT, COUNT, st.text())
def test_what_is_written_is_read_again(rank: int, count: int, address: str) -> None:
    own = RankEnvironment(
        rank=rank, num_processes=count, local_rank=rank // 2, num_local=2, address=address, port=count
    )
    assert rank_environment(own.variables()) == own


def test_only_torchrun_is_taken_for_torchrun() -> None:
    assert is_started_by_torchrun({"RANK": "0", "TORCHELASTIC_RUN_ID": "none"})
    assert not is_started_by_torchrun({"RANK": "0", "WORLD_SIZE": "2"})


def test_missing_variables_are_named() -> None:
    with pytest.raises(InputError, match=r"missing: WORLD_SIZE, LOCAL_RANK, .*MASTER_PORT; start .* torchrun"):
        rank_environment({"RANK": "0"})
