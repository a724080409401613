"""Plans are run with torch, an extra: without it there is nothing to test here."""

import importlib.util
from collections.abc import Iterator

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["*.py"]


@pytest.fixture
def one_rank() -> Iterator[None]:
    """This process alone as a group of ranks."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()
