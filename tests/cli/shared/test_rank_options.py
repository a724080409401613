from dataclasses import replace

import pytest

from evenflow.cli.shared.rank_options import RankOptions
from evenflow.errors import InputError
from evenflow.model import RankTraits
from evenflow.units import MEGABYTE
from tests.networks import plain_network

GB = 1024 * MEGABYTE


def applied(limit=None, *, num_ranks=4, network=None, **options):
    return RankOptions(**options).applied(network or plain_network(num_layers=8), limit, num_ranks=num_ranks)


def test_nothing_asked_changes_nothing():
    network = plain_network(num_layers=8)
    assert RankOptions().applied(network, 5, num_ranks=4) == (network, 5)


@pytest.mark.parametrize(
    ("text", "speeds"),
    [("1,1,0.5,1", [1, 1, 0.5, 1]), ("2:0.5", [1, 1, 0.5, 1]), ("1-2:0.5, 3:0.9", [1, 0.5, 0.5, 0.9])],
)
def test_speeds(text, speeds):
    network, limit = applied(7, rank_speed=text)
    assert [rank.speed for rank in network.ranks] == speeds
    assert limit == 7


@pytest.mark.parametrize(
    ("memory", "limit", "text", "short"),
    [
        (8 * GB, 8 * GB, "3:6GB", [0, 0, 0, 2]),
        (8 * GB, 9 * GB, "0:9GB", [0, 1, 1, 1]),
        (None, 8 * GB, "8GB,8GB,4GB,8GB", [0, 0, 4, 0]),
        (None, 8 * GB, "0-1:8GB,2-3:4GB", [0, 0, 4, 4]),
    ],
)
def test_memory(memory, limit, text, short):
    network, largest = applied(memory, rank_memory=text)
    assert largest == limit
    assert [rank.reserved_bytes // GB for rank in network.ranks] == short


@pytest.mark.parametrize(
    ("text", "delays"), [("1:2ms", [0, 2_000_000, 0, 0]), ("0us,0us,30us,1s", [0, 0, 30_000, 1_000_000_000])]
)
def test_links(text, delays):
    network, limit = applied(7, rank_link=text)
    assert [rank.link_ns for rank in network.ranks] == delays
    assert limit == 7


@pytest.mark.parametrize(("text", "sharers"), [("0-1:2", [2, 2, None, None]), ("1,2,3,4", [1, 2, 3, 4])])
def test_links_to_the_host(text, sharers):
    network, _limit = applied(7, rank_host_sharers=text)
    assert [rank.host_sharers for rank in network.ranks] == sharers


def test_an_option_changes_only_what_it_is_about():
    ranks = (RankTraits(speed=0.5, reserved_bytes=7),) * 4
    network, _limit = applied(9, network=replace(plain_network(num_layers=8), ranks=ranks), rank_speed="0:0.9")
    assert network.ranks[0] == RankTraits(speed=0.9, reserved_bytes=7)
    assert network.ranks[1] == RankTraits(reserved_bytes=7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank_speed": "1,1"}, "must have a value for each of the 4 ranks"),
        ({"rank_speed": "4:0.5"}, "must be of ranks from 0 to 3"),
        ({"rank_speed": "3-1:0.5"}, "must be of ranks from 0 to 3"),
        ({"rank_speed": "0:0.5,1"}, "must name its ranks"),
        ({"rank_speed": "0:fast"}, "must be a number"),
        ({"rank_speed": "0:1.2"}, "must be a number from 0.01 to 1"),
        ({"rank_memory": "0:8"}, "--rank-memory"),
        ({"rank_host_sharers": "0:0"}, "--rank-host-sharers must be an integer from 1 to 64"),
        ({"rank_host_sharers": "0:two"}, "--rank-host-sharers must be an integer from 1 to 64"),
        ({"rank_memory": "0:8GB"}, "must have a value for each rank"),
    ],
)
def test_values_that_are_wrong(options, message):
    with pytest.raises(InputError, match=message):
        applied(**options)
