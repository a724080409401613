"""Cluster files in both formats, and what is wrong with others."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evenflow.cluster.cluster import Cluster, Link
from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.topology import usual_links
from evenflow.errors import InputError
from evenflow.profiles.cluster_file import read_cluster_file
from tests.paths import ROOT

FIELDS = {
    "mesh": "2x8",
    "memory": "80GB",
    "intra_bandwidth": "200GBps",
    "inter_bandwidth": "200Gbps",
    "intra_latency": "5us",
    "peak": "312TFLOPS",
    "host_bandwidth": "24GBps",
}
CLUSTER = Cluster(
    name="racks",
    num_nodes=2,
    devices_per_node=8,
    memory_bytes=80 * 2**30,
    intra=Link(bytes_per_s=200 * 10**9, latency_ns=5000),
    inter=Link(bytes_per_s=25 * 10**9),
    peak_flops=312e12,
    host=Link(bytes_per_s=24 * 10**9),
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
        ({"host_bandwidth": "fast"}, "line 7: host_bandwidth must .*200GBps"),
        ({"host_bandwidth": "0GBps"}, "line 7: host_bandwidth must be from 1"),
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


SECTIONS = {
    "mesh": "2x8",
    "memory": "80GB",
    "link": {"bandwidth": "200GBps", "latency": "5us"},
    "network": {"bandwidth": "200Gbps"},
    "peak": "312TFLOPS",
    "host_bandwidth": "24GBps",
}


def written(tmp_path: Path, fields: dict[str, object]) -> Path:
    path = tmp_path / "racks.json"
    path.write_text(json.dumps(fields), encoding="utf-8")
    return path


class TestSections:
    def test_they_say_the_same_as_the_short_fields(self, tmp_path: Path) -> None:
        assert read_cluster_file(written(tmp_path, SECTIONS)) == CLUSTER

    def test_devices_of_a_node_share_its_cards(self, tmp_path: Path) -> None:
        fields = {**SECTIONS, "network": {"bandwidth": "50GBps", "cards_per_node": 4}}
        assert read_cluster_file(written(tmp_path, fields)).inter == Link(bytes_per_s=25 * 10**9)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"intra_bandwidth": "1GBps"}, "intra_bandwidth must not be given beside link"),
            ({"inter_latency": "1us"}, "inter_latency must not be given beside network"),
            ({"link": {"latency": "1us"}}, "link must have the field 'bandwidth'"),
            ({"link": {"bandwidth": "1GBps", "cards_per_node": 2}}, r"link\.cards_per_node is an unknown field"),
            ({"link": {"bandwidth": 5}}, r"link\.bandwidth must .*200GBps"),
            ({"network": {"bandwidth": "1GBps", "latency": "1"}}, r"network\.latency must .*5us"),
            ({"network": {"bandwidth": "1GBps", "cards_per_node": 0}}, r"network\.cards_per_node must be"),
            ({"network": 1}, "network must be an object"),
        ],
    )
    def test_wrong_ones(self, tmp_path: Path, change: dict[str, object], words: str) -> None:
        with pytest.raises(InputError, match=words):
            read_cluster_file(written(tmp_path, {**SECTIONS, **change}))


class TestAccelerator:
    H100 = accelerator_named("h100")
    INTRA, INTER = usual_links(H100)

    def test_it_says_what_the_file_does_not(self, tmp_path: Path) -> None:
        found = read_cluster_file(written(tmp_path, {"mesh": "4x8"}), self.H100)
        assert (found.memory_bytes, found.intra, found.inter) == (self.H100.memory_bytes, self.INTRA, self.INTER)

    def test_a_bandwidth_leaves_its_latency(self, tmp_path: Path) -> None:
        found = read_cluster_file(written(tmp_path, {"mesh": "4x8", "link": {"bandwidth": "100GBps"}}), self.H100)
        assert found.intra == replace(self.INTRA, bytes_per_s=100 * 10**9)

    def test_a_latency_is_that_of_each_message_and_all_there_is(self, tmp_path: Path) -> None:
        found = read_cluster_file(written(tmp_path, {"mesh": "4x8", "inter_latency": "7us"}), self.H100)
        assert found.inter == Link(bytes_per_s=self.INTER.bytes_per_s, latency_ns=7000)

    def test_cards_without_their_bandwidth(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="network must have the field 'bandwidth'"):
            read_cluster_file(written(tmp_path, {"mesh": "4x8", "network": {"cards_per_node": 4}}), self.H100)

    def test_a_file_that_says_everything_needs_none(self, tmp_path: Path) -> None:
        fields = {**SECTIONS, "network": {"bandwidth": "200Gbps", "latency": "0s"}}
        assert read_cluster_file(written(tmp_path, fields), self.H100) == CLUSTER


def test_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: no such file"):
        read_cluster_file(tmp_path / "none.yaml")


def test_the_example_of_shared_cards_takes_the_rest_from_its_accelerator() -> None:
    device = accelerator_named("v100-16")
    cluster = read_cluster_file(ROOT / "examples" / "cluster_p3_16xlarge.yaml", device)
    intra, inter = usual_links(device)
    assert (cluster.num_nodes, cluster.devices_per_node, cluster.memory_bytes) == (2, 8, device.memory_bytes)
    assert cluster.intra == intra
    assert cluster.inter == replace(inter, bytes_per_s=25 * 10**9 // 8 // 8)
