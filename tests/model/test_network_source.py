"""Functions that take a network take the path of its layer file: the answers are those for the network in it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evenflow
from evenflow.errors import InputError
from tests.paths import ROOT

FILE = ROOT / "examples" / "llama2_70b.json"
PLAN = evenflow.Plan(schedule="1f1b", num_microbatches=4, layers=((40, 40),))
SIZES = {"num_ranks": 2, "num_microbatches": 4, "time_limit_s": 20.0}
TAKING: dict[str, Callable[[Any], Any]] = {
    "plan": lambda network: evenflow.plan(network, **SIZES).makespan_ns,
    "plan_best": lambda network: evenflow.plan_best(network, families=("1f1b",), num_chunks=(1,), **SIZES).best,
    "plan_any_order": lambda network: evenflow.plan_any_order(network, **SIZES).lower_bound_ns,
    "plan_for_target": lambda network: evenflow.plan_for_target(network, "megatron", num_chunks=(1,), **SIZES).best,
    "simulate": lambda network: evenflow.simulate(network, PLAN).peak_memory_bytes,
    "search_order": lambda network: evenflow.search_order(PLAN, network, memory_limit_bytes=None, time_limit_s=5),
    "fit_plan": lambda network: evenflow.fit_plan(PLAN, network, "megatron").simulation.makespan_ns,
    "with_offload": lambda network: evenflow.with_offload(network, evenflow.HostLink(bytes_per_s=10**10)),
}


@pytest.mark.parametrize("name", ["plan", "simulate", "with_offload"])
@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_gives_the_answer_of_the_network_in_it(name: str, kind: type) -> None:
    assert TAKING[name](kind(FILE)) == TAKING[name](evenflow.read_layer_file(FILE))


@pytest.mark.parametrize("name", TAKING)
def test_each_of_these_functions_reads_files(name: str, tmp_path: Path) -> None:
    file = tmp_path / "layers.json"
    file.write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="layers\\.json"):
        TAKING[name](str(file))
    assert TAKING[name](FILE) is not None


@pytest.mark.parametrize("name", TAKING)
def test_what_is_neither_a_network_nor_a_path_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="network must be a Network, or the path of a layer file, got 7"):
        TAKING[name](7)


def test_the_configuration_of_a_model_is_named_as_such() -> None:
    with pytest.raises(InputError, match="not the configuration of a model"):
        evenflow.plan(ROOT / "examples" / "configs" / "llama3_70b.json", num_ranks=2, num_microbatches=4)
