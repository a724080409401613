"""Data sheets by the names that drivers give to devices."""

import pytest

from evenflow.profiles.measured.logs.device_names import accelerator_of


@pytest.mark.parametrize(
    ("device", "memory_gib", "name"),
    [
        ("NVIDIA A100-SXM4-40GB", None, "a100-40"),
        ("NVIDIA H100 80GB HBM3", None, "h100"),
        ("NVIDIA H200", None, "h200"),
        ("NVIDIA H100", None, None),
        ("a device", None, None),
        ("NVIDIA RTX A1000 Laptop GPU", 4.0, None),
        ("NVIDIA GeForce RTX 3090", 24.0, None),
        ("Ascend910B2", None, "910b2"),
        ("Ascend910B", None, "910b"),
        ("Ascend 910C", None, "910c"),
        ("Ascend910_9392", None, "910c"),
        ("NVIDIA H100 80GB HBM3", 79.1, "h100"),
        ("NVIDIA H100", 95.0, "h100-96"),
        ("NVIDIA A100-SXM4-40GB", 39.39, "a100-40"),
        ("NVIDIA A100-SXM4-80GB", 79.15, "a100-80"),
        ("NVIDIA GB200", 184.0, "gb200"),
        ("NVIDIA B200", 178.36, "b200"),
        ("AMD Instinct MI300X", 191.98, "mi300x"),
        ("Tesla V100-SXM2-32GB", 31.75, "v100-32"),
        ("Intel(R) Data Center GPU Max 1550", 63.98, None),
    ],
)
def test_the_nearest_size_of_the_family(device: str, memory_gib: float | None, name: str | None) -> None:
    assert accelerator_of(device, memory_gib) == name
