"""Megatron-DeepSpeed: DeepSpeed's cut by type, recomputation by interval, scripts read, edited and refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import FULL, Plan, Request, Sizes
from evenflow.solve.for_target import solve_for_target
from evenflow.solve.requests import ContestSearch
from evenflow.targets.frameworks.megatron_deepspeed.reader import own_cut, planned_cut
from evenflow.targets.frameworks.megatron_deepspeed.target import TARGET
from evenflow.targets.refusal import refusal
from evenflow.targets.target import GivenSizes
from tests.networks import plain_network
from tests.targets.pages import page_of

SCRIPT = """\
deepspeed --num_nodes {nodes} --num_gpus 8 pretrain_gpt.py --num-layers {layers} --micro-batch-size 2 \\
    --global-batch-size 2048 --tensor-model-parallel-size 4 --pipeline-model-parallel-size {ranks} \\
    --deepspeed --deepspeed_config ds.json {more}
"""
BLOOM = SCRIPT.format(nodes=48, layers=70, ranks=12, more="--pp-partition-method 'type:transformer|embedding'")


def read(script, **sizes):
    return TARGET.read(script, "run.sh", GivenSizes(**sizes))


def test_both_embeddings_of_bloom_count_as_a_layer():
    plan = read(BLOOM).plan
    assert plan.layers == ((5, *(6,) * 10, 5),)
    assert plan.num_microbatches == 2048 // (2 * 48 * 8 // (12 * 4))


def test_embeddings_may_be_alone():
    script = BLOOM.replace("pipeline-model-parallel-size 12", "pipeline-model-parallel-size 72").replace(
        "--tensor-model-parallel-size 4", "--tensor-model-parallel-size 1"
    )
    script = script.replace("--num_nodes 48", "--num_nodes 9")
    assert read(script).plan.layers == ((0, *(1,) * 70, 0),)


def test_layers_alone_are_dealt_to_the_first_ranks_first():
    assert read(SCRIPT.format(nodes=1, layers=10, ranks=2, more="")).plan.layers == ((5, 5),)
    assert read(SCRIPT.format(nodes=2, layers=10, ranks=4, more="")).plan.layers == ((3, 3, 2, 2),)


@given(
    layers=st.integers(1, 40),
    ranks=st.integers(1, 8),
    method=st.sampled_from(["type:transformer", "type:transformer|embedding", "type:embedding|transformer"]),
)
def test_the_cut_is_the_balanced_one(layers, ranks, method):
    """What counts differs by one entry at most, the first ranks have more, and all layers are somewhere."""
    found = own_cut(method, layers, ranks)
    if found is None:
        assert layers + 2 * ("embedding" in method) < ranks
        return
    words = method.removeprefix("type:").split("|")
    counted = [sum(any(word in name.lower() for word in words) for name in names) for names in found]
    assert max(counted) - min(counted) <= 1
    assert counted == sorted(counted, reverse=True)
    assert sum(names.count("ParallelTransformerLayerPipe") for names in found) == layers


@pytest.mark.parametrize(
    ("more", "full"),
    [
        ("", None),
        ("--checkpoint-activations --deepspeed-activation-checkpointing", ((3, 3, 2, 2),)),
        ("--checkpoint-activations --checkpoint-num-layers 2", ((2, 3, 2, 2),)),
        ("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", ((3, 3, 2, 2),)),
    ],
)
def test_layers_recompute_in_groups_of_nothing_but_layers(more, full):
    """A group that has another entry keeps all: the first rank has three others before its three layers."""
    plan = read(SCRIPT.format(nodes=2, layers=10, ranks=4, more=more)).plan
    assert plan.recompute.get(FULL) == full


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--pp-partition-method parameters", "pp_partition_method must be type: and words in the name Parallel"),
        ("--no-pipeline-parallel", "must be 1 beside --no-pipeline-parallel"),
    ],
)
def test_what_is_not_known_is_refused(more, message):
    with pytest.raises(InputError, match=message):
        read(SCRIPT.format(nodes=2, layers=10, ranks=4, more=more))


def test_a_model_of_another_size_is_refused():
    with pytest.raises(InputError, match="num_layers must give 12, as asked for, got 10"):
        read(SCRIPT.format(nodes=2, layers=10, ranks=4, more=""), num_layers=12)


@given(version=st.sampled_from(TARGET.versions), layers=st.integers(4, 80), ranks=st.integers(1, 8), full=st.booleans())
def test_a_plan_is_written_into_a_script_and_read_back(version, layers, ranks, full):
    cut = planned_cut(version, layers, Sizes(num_ranks=ranks, num_chunks=1, num_microbatches=8))
    if cut is None:
        assert layers < ranks
        return
    more = "--pp-partition-method type:transformer" if version == "2.4" else "--checkpoint-activations"
    script = SCRIPT.format(nodes=1, layers=layers, ranks=1, more=more)
    script = script.replace("--num_gpus 8", f"--num_gpus {4 * ranks}").replace("2048", "16")
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=cut, recompute={FULL: cut} if full else {})
    assert refusal(plan, TARGET.abilities(version), title=TARGET.title) is None
    found = read(TARGET.apply(script, "run.sh", plan)).plan
    assert found.layers == plan.layers
    # The last rank's groups of one entry each are all layers, so all recompute.
    assert found.recompute == plan.recompute


def test_the_page_shows_what_is_written():
    cut = ((5, *(6,) * 10, 5),)
    plan = Plan(schedule="1f1b", num_microbatches=128, layers=cut, recompute={FULL: cut})
    assert TARGET.write(plan, "2.4").pieces[0].text in page_of(TARGET)


def test_too_few_layers_are_refused():
    request = Request(
        network=plain_network(4), sizes=Sizes(num_ranks=6, num_chunks=1, num_microbatches=8), allow_empty=True
    )
    with pytest.raises(InputError, match="must be enough for the 6 cells that the framework deals them out to, got 4"):
        solve_for_target(request, TARGET.abilities("3.0"), ContestSearch(num_chunks=(1,)), title=TARGET.title)
