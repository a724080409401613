import pytest

from evenflow.cluster.data_sheets import ACCELERATORS
from evenflow.cluster.operator_cost import OperatorCost
from evenflow_torch.models.live_storage import ExecutedOperator
from evenflow_torch.models.part_trace import trace
from evenflow_torch.profile.part_times import Roofline
from tests.cluster.accelerators import plain_accelerator
from tests_torch.models.layers import gpt_part

EASY = plain_accelerator(flops_per_s=2e12, memory_bytes_per_s=8e9)


def operator(*, flops: int = 0, moved_bytes: int = 0, dtype: str = "float32") -> ExecutedOperator:
    cost = OperatorCost(flops=flops, tensor_bytes=(moved_bytes,), dtype=dtype)
    return ExecutedOperator(name="x", cost=cost, reads=frozenset(), writes=frozenset({1}))


class TestRoofline:
    def test_operators_run_one_after_another(self) -> None:
        roofline = Roofline(accelerator=EASY.reaching(0.5))  # 1000 operations or 8 bytes per nanosecond
        assert roofline.time_ns([operator(flops=7_000, moved_bytes=8), operator(moved_bytes=80)]) == 17
        assert [roofline.time_ns([]), roofline.time_ns([operator(moved_bytes=1)])] == [0, 1]

    def test_large_matrix_product_at_the_stated_efficiency(self) -> None:
        product = operator(flops=2 * 8192**3, moved_bytes=3 * 2 * 8192**2, dtype="bfloat16")
        time_ns = Roofline(accelerator=ACCELERATORS["h100"].reaching(0.7)).time_ns([product])
        assert 2 * 8192**3 / time_ns / 1e3 == pytest.approx(0.7 * 989.4, rel=1e-3)

    @pytest.mark.parametrize("name", ACCELERATORS)
    def test_faster_devices_need_less_time(self, name: str) -> None:
        found = trace(gpt_part(width=64, heads=4, sequence=32), "none")
        slow, fast = (
            Roofline(accelerator=ACCELERATORS[name].reaching(efficiency)).times({"none": found})
            for efficiency in (0.1, 1.0)
        )
        assert 0 < fast.forward_ns <= slow.forward_ns
        assert 0 < fast.weight_ns < fast.backward_ns["none"]
