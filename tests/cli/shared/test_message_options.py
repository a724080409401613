from dataclasses import replace

import pytest

from evenflow.cli.shared.message_options import MessageOptions
from evenflow.errors import InputError
from evenflow.model import Communication
from tests.networks import plain_network

NETWORK = plain_network(4)


@pytest.mark.parametrize("splits", [1, 3])
def test_both_spellings_say_the_same(splits):
    old = MessageOptions(p2p_latency_us=500, p2p_bandwidth_gbps=200, boundary_mb=64)
    for bandwidth in ("200Gbps", "25GBps", "25GB/s"):
        new = MessageOptions(p2p_latency="500us", p2p_bandwidth=bandwidth, boundary="64MB")
        assert new.communication(NETWORK, sequence_splits=splits) == old.communication(NETWORK, sequence_splits=splits)


def test_the_transfer_is_the_boundary_over_the_bandwidth():
    options = MessageOptions(p2p_bandwidth="1GBps", boundary="1MB")
    assert options.communication(NETWORK) == Communication(latency_ns=0, transfer_ns=2**20)
    assert options.communication(NETWORK, sequence_splits=4) == Communication(latency_ns=0, transfer_ns=2**18)


def test_nothing_given_is_no_cost():
    assert MessageOptions().communication(NETWORK) is None


def test_bandwidth_is_enough_where_every_layer_says_what_it_sends_on():
    runs = [replace(run, layer=replace(run.layer, boundary_bytes=8)) for run in NETWORK.runs]
    network = replace(NETWORK, runs=tuple(runs))
    assert MessageOptions(p2p_bandwidth="1GBps").communication(network) == Communication(bytes_per_s=10**9)
    both = MessageOptions(p2p_bandwidth="8Gbps", boundary="1MB", p2p_latency="1us")
    assert both.communication(network) == Communication(latency_ns=1000, transfer_ns=2**20, bytes_per_s=10**9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            MessageOptions(p2p_latency="5us", p2p_latency_us=5),
            "--p2p-latency-us must not be given beside --p2p-latency",
        ),
        (MessageOptions(boundary="4MB"), "--boundary must come with --p2p-bandwidth"),
        (MessageOptions(boundary_mb=4), "--boundary-mb must come with --p2p-bandwidth"),
        (MessageOptions(p2p_bandwidth="4Gbps"), "--p2p-bandwidth must come with --boundary"),
        (MessageOptions(p2p_bandwidth="4", boundary="4MB"), "--p2p-bandwidth must be a number"),
        (MessageOptions(p2p_latency="5"), "--p2p-latency must be"),
        (MessageOptions(p2p_latency_us=float("nan")), "--p2p-latency-us must be a number from 0 to 1e.11 us"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(InputError, match=f"^{message}"):
        options.communication(NETWORK)
