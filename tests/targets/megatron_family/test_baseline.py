"""Megatron-LM runs as users have them, read into plans."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import NONE, MovedShare, Plan, segment_length
from evenflow.model.plan import cells
from evenflow.predict.training import moved_chain
from evenflow.targets.baseline_sets import in_offered_kinds
from evenflow.targets.frameworks.megatron.target import TARGET
from evenflow.targets.megatron_family.baseline import read_run
from evenflow.targets.refusal import refusal
from evenflow.targets.target import GivenSizes
from tests.targets.megatron_family.plans import flag_plans

SCRIPT = r"""#!/bin/bash
# Runs a "175B" model
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${NNODES:-4}
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
CHECKPOINT_PATH=$1 #<Specify path>

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
)
GPT_MODEL_ARGS=(
    --num-layers 96 # of the body
    --hidden-size 12288
    --position-embedding-type 'rope'
)
TRAINING_ARGS="
    --micro-batch-size 1 \
    --global-batch-size 64 \
    --recompute-activations
    --save $CHECKPOINT_PATH
"
MODEL_PARALLEL_ARGS=(
	--tensor-model-parallel-size 2
	--pipeline-model-parallel-size 8
	--num-layers-per-virtual-pipeline-stage=3
)
echo "${GPT_MODEL_ARGS[@]}"
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${GPT_MODEL_ARGS[@]} $TRAINING_ARGS \
    ${MODEL_PARALLEL_ARGS[@]} > log.txt 2>&1
"""

PRINTED = """
[rank0]: ------------------------ arguments ------------------------
  account_for_embedding_in_pipeline_split ......... True
  account_for_loss_in_pipeline_split .............. True
  data_parallel_size .............................. 2
  global_batch_size ............................... 16
  hidden_size ..................................... 64
  micro_batch_size ................................ 2
  microbatch_group_size_per_vp_stage .............. 4
  moe_layer_recompute ............................. False
  num_layers ...................................... 22
  num_layers_per_virtual_pipeline_stage ........... None
  num_virtual_stages_per_pipeline_rank ............ 2
  pipeline_model_parallel_layout .................. None
  pipeline_model_parallel_size .................... 4
  pipeline_model_parallel_split_rank .............. None
  recompute_granularity ........................... full
  recompute_method ................................ block
  recompute_modules ............................... ['core_attn']
  recompute_num_layers ............................ 2
  transformer_pipeline_model_parallel_size ........ 4
  virtual_pipeline_model_parallel_size ............ 2
-------------------- end of arguments ---------------------
"""


def read(text: str, **given: int) -> Plan:
    return read_run(text, "run.sh", GivenSizes(**given)).plan


def flags(text: str) -> str:
    return f"--micro-batch-size 1 --global-batch-size 4 --nproc-per-node 4 --num-layers 8 {text}"


def test_a_script_with_arrays_variables_and_a_text() -> None:
    found = read_run(SCRIPT, "run.sh", GivenSizes())
    assert found.plan == Plan(
        schedule="interleaved",
        num_microbatches=32,
        layers=((3,) * 8,) * 4,
        recompute={"select": ((3,) * 8,) * 4},
    )
    assert found.unknown == ()


def test_what_a_run_prints() -> None:
    found = read_run(PRINTED, "run.log", GivenSizes())
    assert found.plan == Plan(
        schedule="interleaved",
        num_microbatches=4,
        layers=((2, 3, 3, 3), (3, 3, 3, 2)),
        recompute={"full": ((2,) * 4, (2,) * 4)},
    )
    assert found.unknown == ()


@given(flag_plans())
def test_a_written_plan_reads_back(plan: Plan) -> None:
    assert refusal(plan, TARGET.abilities("0.13"), title=TARGET.title) is None
    text = TARGET.write(plan, "0.13").pieces[0].text
    count = plan.num_microbatches
    batch = (
        f"torchrun --nproc_per_node {plan.num_ranks} pretrain_gpt.py --micro-batch-size 1 --global-batch-size {count}"
    )
    assert read(f'{text}\n{batch} "${{PIPELINE_ARGS[@]}}"\n') == plan
    assert read(text, num_microbatches=count) == plan


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("--pipeline-model-parallel-size 4", [[2, 2, 2, 2]]),
        ("--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2", [[1, 1, 1, 1]] * 2),
        ("--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 1", [[1, 1, 1, 1]] * 2),
        ("--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2", [[2, 2, 2, 2]]),
        ("--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 5", [[5, 1, 1, 1]]),
        ("--pipeline-model-parallel-size 4 --decoder-last-pipeline-num-layers 5", [[1, 1, 1, 5]]),
        (
            "--pipeline-model-parallel-size 3 --decoder-first-pipeline-num-layers 2 "
            "--decoder-last-pipeline-num-layers 2 --num-virtual-stages-per-pipeline-rank 2",
            [[1, 2, 1], [1, 2, 1]],
        ),
        ("--pipeline-model-parallel-size 3 --account-for-embedding-in-pipeline-split", [[2, 3, 3]]),
        ("--pipeline-model-parallel-size 3 --account-for-loss-in-pipeline-split", [[3, 3, 2]]),
        ("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et|t*3|(tt|)*2,L'", None),
        ("--pipeline-model-parallel-size 5 --pipeline-model-parallel-layout 'Et|t*3|(tt|)*2,L'", [[1, 3, 2, 2, 0]]),
        ("--pipeline-model-parallel-size 1", [[8]]),
        ("", [[8]]),
    ],
)
def test_cuts(text: str, layers: list[list[int]] | None) -> None:
    if layers is None:
        with pytest.raises(InputError, match="must have as many stages as 2 ranks"):
            read(flags(text), num_microbatches=4)
    else:
        assert read(flags(text).replace("--nproc-per-node 4", ""), num_microbatches=12).layers == cells(layers)


@pytest.mark.parametrize(
    ("text", "recompute"),
    [
        ("--recompute-method block", {}),
        ("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", {"full": ((2, 4, 2),)}),
        (
            "--recompute-granularity full --recompute-method uniform --recompute-num-layers 3",
            {"segment3": ((2, 4, 2),)},
        ),
        ("--recompute-granularity full --recompute-method block --recompute-num-layers 3", {"full": ((2, 3, 2),)}),
        ("--recompute-granularity selective", {"select": ((2, 4, 2),)}),
        ("--recompute-granularity selective --recompute-modules core_attn", {"select": ((2, 4, 2),)}),
        ("--recompute-granularity selective --recompute-modules moe mlp", {"mlp+moe": ((2, 4, 2),)}),
        (
            "--recompute-granularity selective --recompute-modules layernorm --fine-grained-activation-offloading "
            "--offload-modules attn_proj core_attn",
            {"layernorm+offload_core_attn+offload_attn_proj": ((2, 4, 2),)},
        ),
        (
            "--fine-grained-activation-offloading --offload-modules expert_fc1",
            {"offload_expert_fc1": ((2, 4, 2),)},
        ),
        ("--offload-modules expert_fc1", {}),
        ("--recompute-activations", {"select": ((2, 4, 2),)}),
        ("--checkpoint-activations", {"full": ((2, 4, 2),)}),
        ("--checkpoint-activations --checkpoint-num-layers 2", {"segment2": ((2, 4, 2),)}),
        ("--checkpoint-num-layers 2", {}),
        ("--activations-checkpoint-method uniform", {"full": ((2, 4, 2),)}),
        ("--activations-checkpoint-method block --activations-checkpoint-num-layers 3", {"full": ((2, 3, 2),)}),
        ("--activations-checkpoint-method block", {"full": ((1, 1, 1),)}),
    ],
)
def test_recomputation(text: str, recompute: dict[str, tuple[tuple[int, ...], ...]]) -> None:
    cut = "--num-layers 8 --pipeline-model-parallel-size 3 --pipeline-model-parallel-layout 'Ett|t*4|ttL'"
    assert read(f"{cut} {text}", num_microbatches=4).recompute == recompute


def test_flags_of_megatron_2_are_read_with_a_word() -> None:
    flags = "--num-layers 8 --pipeline-model-parallel-size 2 --checkpoint-activations --checkpoint-num-layers 2"
    found = read_run(f"{flags} --distribute-checkpointed-activations", "run.sh", GivenSizes(num_microbatches=4))
    assert found.notes == (
        "--checkpoint-activations is a flag of Megatron-LM 2, which later ones refuse",
        "the plan does not know that the inputs of recomputed layers are distributed",
    )
    assert found.unknown == ()


@pytest.mark.parametrize(
    "flags",
    [
        "--checkpoint-activations --recompute-granularity selective",
        "--checkpoint-activations --checkpoint-num-layers 0",
        "--activations-checkpoint-method sideways",
    ],
)
def test_old_flags_that_no_megatron_takes_are_refused(flags: str) -> None:
    with pytest.raises(InputError, match="checkpoint"):
        read_run(f"--num-layers 8 --pipeline-model-parallel-size 2 {flags}", "run.sh", GivenSizes(num_microbatches=4))


def test_modules_that_no_kind_stands_for_are_named() -> None:
    text = (
        "--recompute-granularity selective \\\n --recompute-modules core_attn mhc --num-layers 2 --micro-batch-size 1"
    )
    assert read_run(text, "run.sh", GivenSizes()).unknown == ("run.sh, line 2: recompute_modules: mhc",)


def test_what_is_not_understood_is_named() -> None:
    text = (
        "ARGS=(--num-layers 8 --pipeline-model-parallel-size 2)\n"
        "if [ $BIG ]; then\n"
        "    ARGS+=(--recompute-granularity full)\n"
        "fi\n"
        "torchrun pretrain.py --pipeline-zigzag ${ARGS[@]} --moe-layer-recompute --lr 0.1 $EXTRA_ARGS --save $OUT \\\n"
        "    --num-query-groups 8 --optimizer-cpu-offload --pipeline-model-parallel-comm-backend nccl $@\n"
    )
    assert read_run(text, "run.sh", GivenSizes(num_microbatches=4)).unknown == (
        "run.sh, line 5: $EXTRA_ARGS",
        "run.sh, line 6: $@",
        "run.sh, line 5: --pipeline-zigzag",
        "run.sh, line 3: --recompute-granularity in a condition",
        "run.sh, line 5: --moe-layer-recompute",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo hello", "run.sh must have flags of Megatron-LM, such as --pipeline-model-parallel-size"),
        ("", "run.sh must have flags of Megatron-LM, such as --pipeline-model-parallel-size"),
        ("--num-layers '8", 'run.sh, line 1 must be closed, got "\'"'),
        ("--num-layers 8", "run.sh: micro_batch_size must be given, for the number of microbatches; give the number"),
        (
            "--num-layers 8 --micro-batch-size 1 --global-batch-size 4",
            "run.sh: world_size must be given, for the number of microbatches; give the number of microbatches",
        ),
        ("--pipeline-model-parallel-size 2", "run.sh: num_layers must be given; give the layers of the network"),
        (
            "--num-layers 8\n--pipeline-model-parallel-size $PP",
            "run.sh, line 2: pipeline_model_parallel_size must be an integer from 1 to 10,000, got '$PP'; "
            "write its value in place of the variable",
        ),
        (
            "--num-layers 8 --pipeline-model-parallel-size 3",
            "run.sh, line 1: num_layers must leave equally many layers to 3 ranks, got 8",
        ),
        (
            "--num-layers 8 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 3",
            "run.sh, layers of the ranks must be multiples of the 3 chunks of a rank, got [4, 4]",
        ),
        (
            "--num-layers 8 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3",
            "run.sh, line 1: num_layers_per_virtual_pipeline_stage must divide the layers of every rank",
        ),
        (
            "--num-layers 8 --pipeline-model-parallel-layout 'Et*4|t*3L' --pipeline-model-parallel-size 2",
            "run.sh, line 1: num_layers must be 7, the layers of the layout, got 8",
        ),
        (
            "--pipeline-model-parallel-layout 'Et*4|t*3' --pipeline-model-parallel-size 2",
            "run.sh, line 1: pipeline_model_parallel_layout must have L once, behind all others",
        ),
        (
            "--pipeline-model-parallel-layout EtL --num-virtual-stages-per-pipeline-rank 1",
            "run.sh, line 1: num_virtual_stages_per_pipeline_rank must not be given beside a layout, got 1",
        ),
        (
            "--num-layers 8 --pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 2 "
            "--account-for-loss-in-pipeline-split",
            "run.sh, line 1: decoder_first_pipeline_num_layers must not be given where embedding or loss count",
        ),
        (
            "--num-layers 8 --recompute-granularity half --micro-batch-size 1",
            "run.sh, line 1: recompute_granularity must be one of full, selective, got 'half'",
        ),
        (
            "--num-layers 8 --recompute-granularity full --micro-batch-size 1",
            "run.sh: recompute_method must be given with full recomputation",
        ),
        (
            "--num-layers 8 --micro-batch-size 1 --global-batch-size 5 --nproc_per_node 2",
            "run.sh, line 1: global_batch_size must be a multiple of 1 x 2 replicas, got 5",
        ),
        (
            "--num-layers 8 --micro-batch-size 1 --global-batch-size 6 --nproc_per_node 3 "
            "--pipeline-model-parallel-size 2",
            "run.sh: number of devices must be a multiple of 2, the devices of one replica, got 3",
        ),
        (
            "if x; then P='--pipeline-model-parallel-size 4'; fi\nrun --num-layers 8 $P",
            "run.sh, line 1: pipeline_model_parallel_size must have a value that does not depend on a condition, got "
            "'--pipeline-model-parallel-size 4'; write the flag outside of the condition, or give the ranks",
        ),
        (
            "a --num-layers 8 --micro-batch-size 1\nb --num-layers 9 --micro-batch-size 1",
            "run.sh, lines must have one training command, or several with the same pipeline, got [1, 2]",
        ),
    ],
)
def test_runs_that_cannot_be_told(text: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        read(text)
    assert raised.value.message.startswith(message)


def test_a_size_that_a_condition_decides_may_be_given() -> None:
    text = "if x; then P='--pipeline-model-parallel-size 4'; fi\nrun --num-layers 8 $P"
    assert read_run(text, "run.sh", GivenSizes(num_ranks=4, num_microbatches=8)).plan.layers == ((2, 2, 2, 2),)


def test_a_size_beside_a_conditional_word_is_read() -> None:
    text = (
        "if x; then EXTRA='--tensorboard-dir x'; fi\n"
        'cmd="run --num-layers 8 --pipeline-model-parallel-size 4 $EXTRA"\n'
        "eval $cmd"
    )
    assert read_run(text, "run.sh", GivenSizes(num_microbatches=8)).plan.num_ranks == 4


@pytest.mark.parametrize(
    ("given_sizes", "message"),
    [
        ({"num_layers": 9}, "run.sh, line 1: num_layers must give 9, as asked for, got 8"),
        ({"num_ranks": 4}, "run.sh, line 1: pipeline_model_parallel_size must give 4, as asked for, got 2"),
        ({"num_microbatches": 3}, "run.sh, line 1: global_batch_size must give 3, as asked for, got 4"),
    ],
)
def test_runs_that_are_not_what_the_user_says(given_sizes: dict[str, int], message: str) -> None:
    text = (
        "--num-layers 8 --pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 4 --nproc_per_node 2"
    )
    with pytest.raises(InputError) as raised:
        read(text, **given_sizes)
    assert raised.value.message == message


def test_groups_that_megatron_refuses() -> None:
    text = "--num-layers 8 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2"
    assert read(f"{text} --microbatch-group-size-per-virtual-pipeline-stage 3", num_microbatches=5).group_size == 3
    with pytest.raises(
        InputError, match="must be from 2 to the 5 microbatches, with a remainder of none or at least 2"
    ):
        read(text, num_microbatches=5)


@given(st.text(alphabet=" \n\\'\"$(){}|;&<>#-=*tEL01N") | st.text(max_size=50))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InputError):
        read(f"--num-layers 8 {text}", num_microbatches=4)


_SETS = [
    kind
    for way in TARGET.abilities(TARGET.versions[-1]).recomputation
    for kind in way.kinds
    if kind not in ("full", "select", "core_attn") and segment_length(kind) is None
]


@given(plan=flag_plans(), kind=st.sampled_from(_SETS))
def test_any_set_of_modules_is_read_back(plan: Plan, kind: str) -> None:
    under_set = replace(plan, recompute={kind: plan.layers})
    assert refusal(under_set, TARGET.abilities("0.16"), title=TARGET.title) is None
    moves = "offload" in kind
    assert (refusal(under_set, TARGET.abilities("0.13"), title=TARGET.title) is not None) is moves
    written = TARGET.write(under_set, "0.16")
    found = read_run(written.pieces[0].text, "run.sh", GivenSizes(num_microbatches=plan.num_microbatches))
    assert found.plan == under_set
    assert found.unknown == ()
    assert bool(written.environment) is moves


@given(
    plan=flag_plans(),
    kind=st.sampled_from([kind for kind in _SETS if "offload" in kind]),
    share=st.floats(0.01, 0.99),
    kept=st.just(0) | st.integers(1, 2**40),
)
def test_a_share_of_what_moves_is_written_and_read_back(plan: Plan, kind: str, share: float, kept: int) -> None:
    moved = MovedShare(kind=kind, share=round(share, 4), kept_bytes=kept)
    shared = replace(plan, recompute={kind: plan.layers}, moved_share=moved)
    first = moved_chain(kind)[1]
    in_parts = replace(shared, recompute={first: plan.layers})
    for allowed in (shared, in_parts):
        assert refusal(allowed, TARGET.abilities("0.19"), title=TARGET.title) is None
        text = TARGET.write(allowed, "0.19").pieces[0].text
        found = read_run(text, "run.sh", GivenSizes(num_microbatches=plan.num_microbatches))
        assert found.plan == shared
        assert found.unknown == ()


def test_a_set_that_layers_do_not_offer_is_named() -> None:
    text = (
        "--num-layers 4 --pipeline-model-parallel-size 2 --recompute-granularity selective --recompute-modules "
        "core_attn layernorm --fine-grained-activation-offloading --offload-modules qkv_linear"
    )
    found = read_run(text, "run.sh", GivenSizes(num_microbatches=4))
    assert in_offered_kinds(found, found.plan.used_kinds) == found
    left = in_offered_kinds(found, ["select"])
    assert left.plan.recompute == {"select": ((2, 2),)}
    assert left.unknown == ("recompute_modules: layernorm", "offload_modules: qkv_linear")
    left = in_offered_kinds(found, ["full"])
    assert left.plan.recompute == {}
    assert left.unknown == (
        "recompute_modules: core_attn",
        "recompute_modules: layernorm",
        "offload_modules: qkv_linear",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--offload-modules attn_proj", "must have core_attn with attn_proj"),
        ("", "must be given with --fine-grained-activation-offloading"),
    ],
)
def test_what_moves_is_checked(text: str, message: str) -> None:
    cut = "--num-layers 4 --pipeline-model-parallel-size 2 --fine-grained-activation-offloading"
    with pytest.raises(InputError, match=message):
        read(f"{cut} {text}", num_microbatches=4)


@pytest.mark.parametrize(
    ("text", "kinds", "unknown"),
    [
        ("--offload-modules gdp_qkv mlp_norm", ("offload_mlp_norm",), ["gdp_qkv"]),
        ("--offload-modules moe_act --recompute-granularity selective --recompute-modules moe", ("moe",), ["moe_act"]),
        (
            "--offload-modules qkv_linear core_attn attn_proj moe_act --recompute-granularity selective "
            "--recompute-modules mla_up_proj moe_act",
            ("moe_act+mla_up_proj+offload_qkv_linear+offload_moe_act",),
            ["core_attn", "attn_proj"],
        ),
        (
            "--offload-modules mlp_norm --recompute-granularity full --recompute-method block --recompute-num-layers 1",
            ("full",),
            ["mlp_norm"],
        ),
    ],
)
def test_what_moves_as_no_plan_does_is_named(text: str, kinds: tuple[str, ...], unknown: list[str]) -> None:
    cut = "--num-layers 4 --pipeline-model-parallel-size 2 --fine-grained-activation-offloading"
    found = read_run(f"{cut} {text}", "run.sh", GivenSizes(num_microbatches=4))
    assert found.plan.used_kinds == kinds
    assert found.unknown == tuple(f"run.sh, line 1: offload_modules: {module}" for module in unknown)


@pytest.mark.parametrize(
    ("share", "kinds", "read"),
    [("0.5", ("offload_core_attn",), 0.5), ("1.0", ("offload_core_attn",), 1.0), ("0", (), None)],
)
def test_a_share_of_what_moves_and_what_further_ranks_keep_are_read(
    share: str, kinds: tuple[str, ...], read: float | None
) -> None:
    text = (
        "--num-layers 4 --pipeline-model-parallel-size 2 --fine-grained-activation-offloading "
        f"--offload-modules core_attn --activation-offload-fraction {share} --delta-offload-bytes-across-pp-ranks 1000"
    )
    found = read_run(text, "run.sh", GivenSizes(num_microbatches=4))
    assert found.plan.used_kinds == kinds
    moved = MovedShare(kind="offload_core_attn", share=read, kept_bytes=1000) if read else None
    assert found.plan.moved_share == moved
    assert found.unknown == ()


@pytest.mark.parametrize("share", ["1.5", "-0.1", "half"])
def test_what_is_no_share_is_refused(share: str) -> None:
    text = (
        "--num-layers 4 --pipeline-model-parallel-size 2 --fine-grained-activation-offloading "
        f"--offload-modules core_attn --activation-offload-fraction {share}"
    )
    with pytest.raises(InputError, match="must be a number from 0 to 1"):
        read_run(text, "run.sh", GivenSizes(num_microbatches=4))


def test_a_share_needs_kinds_for_parts_of_its_modules() -> None:
    text = (
        "--num-layers 4 --pipeline-model-parallel-size 2 --fine-grained-activation-offloading "
        "--offload-modules core_attn expert_fc1 --activation-offload-fraction 0.5"
        " --delta-offload-bytes-across-pp-ranks 1000"
    )
    found = read_run(text, "run.sh", GivenSizes(num_microbatches=4))
    whole = "offload_core_attn+offload_expert_fc1"
    kept = in_offered_kinds(found, ("offload_core_attn", whole, NONE))
    assert kept.plan == found.plan
    left = in_offered_kinds(found, (whole, NONE))
    assert left.plan.moved_share is None
    assert left.unknown == ("activation_offload_fraction", "delta_offload_bytes_across_pp_ranks")


PAIRS = (
    "--num-layers 8 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2"
    " --overlap-moe-expert-parallel-comm"
)


def test_forwards_beside_backwards_are_another_schedule() -> None:
    assert TARGET.read is not None
    given_sizes = GivenSizes(num_microbatches=4)
    assert TARGET.read(PAIRS, "run.sh", given_sizes).plan.schedule == "interleaved-overlap"
    alone = PAIRS.replace("size 2", "size 1").replace("--num-layers-per-virtual-pipeline-stage 2", "")
    assert TARGET.read(alone, "run.sh", given_sizes).plan.schedule == "1f1b-overlap"
    assert TARGET.read(PAIRS, "run.sh", given_sizes).plan.delays_weights is False
    delayed = TARGET.read(PAIRS + " --delay-wgrad-compute", "run.sh", given_sizes)
    assert delayed.plan.delays_weights is True
    assert delayed.unknown == ()
    flag = "--overlap-dispatch-backward-with-experts-wgrad"
    assert TARGET.read(f"{PAIRS} {flag}", "run.sh", given_sizes).unknown == (f"run.sh, line 1: {flag}",)
    unread = read_run(PAIRS, "run.sh", given_sizes)  # of a framework that may not have it
    assert unread.plan.schedule == "interleaved"
    assert unread.unknown == ("run.sh, line 1: overlap_moe_expert_parallel_comm",)


def test_early_release_of_attention_is_read_written_and_taken_out() -> None:
    assert TARGET.read is not None
    assert TARGET.apply is not None
    flag, given_sizes = "--ep-overlap-early-attn-memory-release", GivenSizes(num_microbatches=4)
    script = f"torchrun pretrain_gpt.py {PAIRS} {flag}\n"
    found = TARGET.read(script, "run.sh", given_sizes)
    assert found.plan.releases_attention
    assert found.unknown == ()
    assert flag in TARGET.write(found.plan, "0.16").pieces[0].text
    assert flag not in TARGET.apply(script, "run.sh", replace(found.plan, releases_attention=False))
    both = TARGET.read(script.replace(flag, f"{flag} --delay-wgrad-compute"), "run.sh", given_sizes)
    assert both.plan.delays_weights is False
    assert both.unknown == ("run.sh, line 1: delay_wgrad_compute",)
    with pytest.raises(InputError, match="early_attn_memory_release must be off without --overlap-moe"):
        TARGET.read(script.replace("--overlap-moe-expert-parallel-comm", ""), "run.sh", given_sizes)
    assert refusal(found.plan, TARGET.abilities("0.16"), title=TARGET.title) is None
    refused = refusal(found.plan, TARGET.abilities("0.14"), title=TARGET.title)
    assert refused is not None
    assert refused.place == "releases_attention"


def test_weight_gradients_are_delayed_in_pairs_alone() -> None:
    assert TARGET.read is not None
    alone = PAIRS.replace("--overlap-moe-expert-parallel-comm", "--delay-wgrad-compute")
    with pytest.raises(InputError, match="delay_wgrad_compute must be off without --overlap-moe-expert-parallel-comm"):
        TARGET.read(alone, "run.sh", GivenSizes(num_microbatches=4))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (" --recompute-granularity full --recompute-method uniform --recompute-num-layers 1", "with full recomp"),
        (" --recompute-granularity selective --recompute-modules moe layernorm", "where the module moe"),
        (" --num-layers-per-virtual-pipeline-stage 4", "with one chunk on several ranks"),
        (" --moe-shared-expert-overlap", "where shared experts have an overlap of their own"),
        (" --mtp-num-layers 2", "with several layers of multi-token prediction"),
        (" --moe-token-dispatcher-type allgather", "with the token dispatcher allgather"),
        (" --expert-model-parallel-size 1", "where all experts are on every device"),
    ],
)
def test_what_megatron_refuses_beside_pairs(more: str, message: str) -> None:
    assert TARGET.read is not None
    with pytest.raises(InputError, match=f"overlap_moe_expert_parallel_comm must be off {message}"):
        TARGET.read(PAIRS + more, "run.sh", GivenSizes(num_microbatches=4))


def test_what_megatron_allows_beside_pairs() -> None:
    assert TARGET.read is not None
    more = " --mtp-num-layers 1 --moe-token-dispatcher-type flex --expert-model-parallel-size 8"
    found = TARGET.read(PAIRS + more, "run.sh", GivenSizes(num_microbatches=4))
    assert (found.plan.schedule, found.unknown) == ("interleaved-overlap", ())


def test_a_script_gets_pairs_and_loses_them() -> None:
    assert TARGET.read is not None
    assert TARGET.apply is not None
    script = f"torchrun pretrain_gpt.py {PAIRS} --delay-wgrad-compute\n"
    found = TARGET.read(script, "run.sh", GivenSizes(num_microbatches=4)).plan
    plain = TARGET.apply(script, "run.sh", replace(found, schedule="interleaved", delays_weights=None))
    assert "--overlap-moe" not in plain
    assert "--delay-wgrad" not in plain
    again = TARGET.apply(plain, "run.sh", found)
    assert TARGET.read(again, "run.sh", GivenSizes(num_microbatches=4)).plan == found
    # Where layers do not tell what weight gradients take, nothing is said against what the script has.
    assert "--delay-wgrad-compute" in TARGET.apply(script, "run.sh", replace(found, delays_weights=False))
