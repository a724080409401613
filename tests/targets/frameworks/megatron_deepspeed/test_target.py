"""Megatron-DeepSpeed: DeepSpeed's cut by type, recomputation by interval, scripts read, edited and refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import FULL, Plan, Request, Sizes
from evenflow.solve.for_target import solve_for_target
from evenflow.solve.requests import ContestSearch
from evenflow.targets.entry_lists.typed_parts import ranks_by_method
from evenflow.targets.frameworks.megatron_deepspeed.reader import entries, planned_cut
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
    version=st.sampled_from(TARGET.versions),
)
def test_the_cut_is_the_balanced_one(layers, ranks, method, version):
    """What counts differs by one entry at most, the first ranks have more, and all layers are somewhere."""
    found = ranks_by_method(entries(version, layers), method, ranks)
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
        ("--checkpoint-activations --checkpoint-num-layers 2", ((3, 3, 2, 2),)),
        ("--embed-layernorm --checkpoint-activations --checkpoint-num-layers 2", ((2, 3, 2, 2),)),
        ("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", ((3, 3, 2, 2),)),
    ],
)
def test_layers_recompute_in_groups_of_nothing_but_layers(more, full):
    """A group that has another entry keeps all: the first rank has two others before its three layers, and one more in
    BigScience's.
    """
    plan = read(SCRIPT.format(nodes=2, layers=10, ranks=4, more=more)).plan
    assert plan.recompute.get(FULL) == full


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--pp-partition-method parameters", "pp_partition_method must be uniform, or type: with a pattern that 4"),
        ("--no-pipeline-parallel", "must be 1 beside --no-pipeline-parallel"),
    ],
)
def test_what_is_not_known_is_refused(more, message):
    with pytest.raises(InputError, match=message):
        read(SCRIPT.format(nodes=2, layers=10, ranks=4, more=more))


def test_uniform_deals_out_all_entries():
    """Of ten layers with three entries before and four behind them; without a cast, with three behind them."""
    script = SCRIPT.format(nodes=2, layers=10, ranks=4, more="--pp-partition-method uniform {more}")
    assert read(script.format(more="--bf16")).plan.layers == ((2, 4, 4, 0),)
    assert read(script.format(more="")).plan.layers == ((1, 4, 4, 1),)


@pytest.mark.parametrize(("layers", "is_said"), [(12, False), (10, True)])
def test_an_older_deepspeed_cuts_otherwise_where_layers_do_not_divide(layers, is_said):
    notes = read(SCRIPT.format(nodes=2, layers=layers, ranks=4, more="")).notes
    assert any("DeepSpeed before 0.12.5" in note for note in notes) == is_said


def test_sequences_of_deepspeed_take_devices_from_the_data():
    script = SCRIPT.format(nodes=4, layers=10, ranks=2, more="{more}")
    assert read(script.format(more="")).plan.num_microbatches == 256
    assert read(script.format(more="--ds-sequence-parallel-size 2")).plan.num_microbatches == 512


@pytest.mark.parametrize(
    ("configuration", "microbatches", "note"),
    [
        ('{"gradient_accumulation_steps": 256, "train_micro_batch_size_per_gpu": 2}', 256, None),
        ('{"gradient_accumulation_steps": 32}', 32, "has 32 microbatches, the batches of the script 256"),
        ('{"train_batch_size": 1024}', 128, "has 128 microbatches"),
        ('{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"}', 256, None),
        (None, 256, "the DeepSpeed configuration ds.json could not be read"),
    ],
)
def test_the_batch_of_the_configuration_counts(tmp_path, configuration, microbatches, note):
    if configuration is not None:
        (tmp_path / "ds.json").write_text(configuration)
    script = SCRIPT.format(nodes=4, layers=10, ranks=2, more="")
    found = TARGET.read(script, str(tmp_path / "run.sh"), GivenSizes())
    assert found.plan.num_microbatches == microbatches
    assert [said for said in found.notes if note and note in said] == list(found.notes)


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ('{"train_micro_batch_size_per_gpu": 4}', "per_gpu must be 2, as --micro-batch-size of the script, got 4"),
        ('{"train_batch_size": 1001}', "train_batch_size must be a multiple of the 8 sequences of a microbatch"),
        ('{"gradient_accumulation_steps": 0}', "gradient_accumulation_steps must be an integer from 1"),
        ("[1]", "must be an object of named fields"),
    ],
)
def test_a_configuration_against_the_script_is_refused(tmp_path, configuration, message):
    (tmp_path / "ds.json").write_text(configuration)
    script = SCRIPT.format(nodes=4, layers=10, ranks=2, more="")
    with pytest.raises(InputError, match=message):
        TARGET.read(script, str(tmp_path / "run.sh"), GivenSizes())


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
