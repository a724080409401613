import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from evenflow.profiles.from_model.measure import measure
from evenflow.torch_model.live_storage import StorageLog
from evenflow.torch_model.optimizers import OPTIMIZERS, parameter_bytes
from tests.torch_model.layers import gpt_part


class TestOperators:
    def test_products_and_lookups(self) -> None:
        table, rows = torch.zeros(1000, 8), torch.zeros(4, dtype=torch.long)
        with StorageLog([table, rows]) as log:
            torch.zeros(3, 5) @ torch.zeros(5, 7)
            nn.functional.embedding(rows, table)
            torch.zeros(3, 5).t()[1:]
        found = {one.name: one for one in log.operators}
        assert set(found) == {"aten.zeros.default", "aten.mm.default", "aten.embedding.default"}
        product, lookup = found["aten.mm.default"], found["aten.embedding.default"]
        assert (product.flops, product.moved_bytes) == (2 * 3 * 5 * 7, 4 * (15 + 35 + 21))
        assert (lookup.flops, lookup.moved_bytes) == (0, 2 * 4 * 8 * 4 + 4 * 8)

    @pytest.mark.parametrize("causal", [False, True])
    def test_attention(self, causal: bool) -> None:
        query, key = (torch.zeros(2, 4, 16, 8, requires_grad=True) for _ in "qk")
        with StorageLog() as log:
            scaled_dot_product_attention(query, key, key, is_causal=causal).sum().backward()
        products = 2 * 4 * 16 * 16 * 8 * 2 // (2 if causal else 1)
        assert [one.flops for one in log.operators if one.flops] == [2 * products, 5 * products]

    def test_grouped_products_in_all_three_forms(self) -> None:
        rows, matrices = torch.zeros(24, 16, requires_grad=True), torch.zeros(3, 16, 8, requires_grad=True)
        ends = torch.tensor([8, 16, 24], dtype=torch.int32)
        with StorageLog() as log:
            torch._grouped_mm(rows.bfloat16(), matrices.bfloat16(), offs=ends).square().sum().backward()
        assert [one.flops for one in log.operators if one.flops] == [2 * 24 * 16 * 8] * 3

    def test_storages_are_counted_while_they_live(self) -> None:
        with StorageLog() as log:
            one = torch.zeros(100)
            view = one[:10]
            two = one + 1
            del one
            assert log.live_bytes == 800
            del view
            assert log.live_bytes == 400
            del two
        assert (log.live_bytes, log.peak_bytes) == (0, 800)


class TestParameterMemory:
    @pytest.mark.parametrize(
        ("dtype", "expected"),
        [
            (torch.bfloat16, {"adam": 16, "torch-adam": 8, "sgd": 4}),
            (torch.float32, {"adam": 16, "torch-adam": 16, "sgd": 8}),
        ],
    )
    def test_bytes_of_a_parameter(self, dtype: torch.dtype, expected: dict[str, int]) -> None:
        layer = nn.Linear(3, 5).to(dtype)
        assert {name: parameter_bytes(layer.parameters(), name) / 20 for name in OPTIMIZERS} == expected

    def test_torch_adam_is_what_torch_keeps(self) -> None:
        layer = nn.Linear(3, 5, bias=False)
        optimizer = torch.optim.Adam(layer.parameters())
        layer(torch.zeros(3)).sum().backward()
        optimizer.step()
        state = optimizer.state[layer.weight]
        kept = [layer.weight, layer.weight.grad, state["exp_avg"], state["exp_avg_sq"]]
        assert sum(tensor.nbytes for tensor in kept) == parameter_bytes(layer.parameters(), "torch-adam")

    def test_frozen_parameters_are_weights_alone(self) -> None:
        layer = nn.Linear(3, 5).requires_grad_(False)
        assert parameter_bytes(layer.parameters(), "adam") == 20 * 4


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[needs_cuda, pytest.mark.gpu])])
def test_measured_times_hold_together(device: str) -> None:
    part = gpt_part(width=64, heads=2, sequence=64, dtype=torch.float32)
    times = measure(part, ["none", "comm", "full"], device=torch.device(device))
    plain_ns = times.backward_ns["none"]
    assert times.forward_ns > 0
    assert 0 <= times.weight_ns <= plain_ns
    assert all(time_ns >= plain_ns for time_ns in times.backward_ns.values())
    assert times.spread is not None
    assert times.spread >= 0
