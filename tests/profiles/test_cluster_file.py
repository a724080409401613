"""Cluster files in both formats, and what is wrong with others."""

import json
from pathlib import Path

import pytest

from evenflow.cluster.cluster import Cluster, Link
from evenflow.errors import InputError
from evenflow.profiles.cluster_file import read_cluster_file

FIELDS = {
    "mesh": "2x8",
    "memory": "80GB",
    "intra_bandwidth": "200GBps",
    "inter_bandwidth": "200Gbps",
    "intra_latency": "5us",
    "peak": "312TFLOPS",
}
CLUSTER = Cluster(
    name="racks",
    num_nodes=2,
    devices_per_node=8,
    memory_bytes=80 * 2**30,
    intra=Link(bytes_per_s=200 * 10**9, latency_ns=5000),
    inter=Link(bytes_per_s=25 * 10**9),
    peak_flops=312e12,
)


def test_yaml_and_json(tmp_path: Path) -> None:
    yaml, other = tmp_path / "racks.yaml", tmp_path / "other.json"
    yaml.write_text("".join(f"{key}: {value}\n" for key, value in FIELDS.items()), encoding="utf-8")
    other.write_text(json.dumps({**FIELDS, "name": "racks", "memory": 81920}), encoding="utf-8")
    assert read_cluster_file(yaml) == read_cluster_file(str(other)) == CLUSTER


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mesh": "2"}, r"line 1: mesh must be .*2x4"),
        ({"mesh": None}, "mesh must be a text that is not empty"),
        ({"memory": "lots"}, "line 2: memory must be a number with"),
        ({"intra_bandwidth": 200}, "line 3: intra_bandwidth must .*200GBps"),
        ({"inter_bandwidth": "300GBps"}, r"c\.yaml: c, inter-bandwidth must be at most the 200 GB/s inside a node"),
        ({"intra_latency": 5}, "line 5: intra_latency must .*5us"),
        ({"peak": "fast"}, "line 6: peak must .*312TFLOPS"),
        ({"intra_bandwith": "1GBps"}, "did you mean 'intra_bandwidth'"),
    ],
)
def test_wrong_fields(tmp_path: Path, change: dict[str, object], words: str) -> None:
    path = tmp_path / "c.yaml"
    fields = {**FIELDS, **change}
    path.write_text("".join(f"{key}: {'' if value is None else value}\n" for key, value in fields.items()), "utf-8")
    with pytest.raises(InputError, match=words):
        read_cluster_file(path)


@pytest.mark.parametrize("missing", ["mesh", "memory", "intra_bandwidth", "inter_bandwidth"])
def test_missing_fields(tmp_path: Path, missing: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps({key: value for key, value in FIELDS.items() if key != missing}), encoding="utf-8")
    with pytest.raises(InputError, match=f"must have the field '{missing}'"):
        read_cluster_file(path)


def test_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: no such file"):
        read_cluster_file(tmp_path / "none.yaml")
