import pytest

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.targets.frameworks.mindspeed.reader import read_script
from evenflow.targets.megatron_family.mindspeed_cuts import is_mindspeed_script
from evenflow.targets.target import Baseline, GivenSizes

EIGHT = GivenSizes(num_microbatches=8)
SCRIPT = """\
#!/bin/bash
PP=4
GPT_ARGS="
    --num-layers {layers} \\
    --pipeline-model-parallel-size ${{PP}} \\
    {cut} \\
    --recompute-granularity full \\
    --recompute-method block \\
    --recompute-num-layers 3
"
torchrun --nproc_per_node 8 pretrain_gpt.py $GPT_ARGS --distributed-backend nccl
"""


def read(layers: int, cut: str, given: GivenSizes = EIGHT) -> Baseline:
    return read_script(SCRIPT.format(layers=layers, cut=cut), "run.sh", given)


def test_the_matrix_of_a_script() -> None:
    found = read(16, "--pipeline-num-transformer-layers [[2],[5]*2,[4]]")
    assert found.plan == Plan(
        schedule="1f1b", num_microbatches=8, layers=((2, 5, 5, 4),), recompute={"full": ((2, 3, 3, 3),)}
    )
    assert found.unknown == ()


def test_a_matrix_with_chunks() -> None:
    cut = "--pipeline-num-transformer-layers '[[1,2],[2,2]*2,[2,1]]' --num-layers-per-virtual-pipeline-stage 2"
    assert read(14, cut).plan.layers == ((1, 2, 2, 2), (2, 2, 2, 1))


def test_the_list_of_mindspeed_llm() -> None:
    assert read(16, "--num-layer-list 4,4,5,3").plan.layers == ((4, 4, 5, 3),)


def test_layers_that_do_nothing_are_neither_held_nor_recomputed() -> None:
    found = read(16, "--noop-layers 0,14,15")
    assert found.plan.layers == ((3, 4, 4, 2),)
    assert found.plan.recompute == {"full": ((2, 3, 3, 2),)}


def test_megatrons_own_flags() -> None:
    found = read(16, "--decoder-first-pipeline-num-layers 1 --swap-attention --recompute-in-bubble")
    assert found.plan.layers == ((1, 5, 5, 5),)
    assert found.unknown == ("run.sh, line 6: --recompute-in-bubble",)


@pytest.mark.parametrize(
    ("layers", "cut", "message"),
    [
        (16, "--schedules-method dualpipev", r"run\.sh, line 6: schedules_method must not be given: its order of work"),
        (16, "--num-layer-list 4,4,5,3 --noop-layers 1", r"num_layer_list must not be given beside noop_layers"),
        (
            16,
            "--noop-layers 1 --pipeline-model-parallel-layout Et*4|(t*4|)*2,t*4L",
            r"beside pipeline_model_parallel_l",
        ),
        (16, "--num-layer-list 4,4,8", r"num_layer_list must be for the 4 ranks, got 3"),
        (17, "--num-layer-list 4,4,5,3", r"num_layers must be 16, the layers of the layout"),
        (16, "--noop-layers 16", r"noop_layers must be layers of the 16 of num_layers, from 0"),
        (16, "--pipeline-num-transformer-layers [[4],[4]]", r"must be for the 4 ranks"),
        (16, "--pipeline-num-transformer-layers $MINE", r"pipeline_num_transformer_layers must have a list for each"),
        (
            16,
            "--pipeline-num-transformer-layers [[2,2]*4] --num-virtual-stages-per-pipeline-rank 4",
            r"num_virtual_stages_per_pipeline_rank must be 2, as in the cut",
        ),
    ],
)
def test_what_cannot_be_read_has_one_message(layers: int, cut: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(layers, cut)


@pytest.mark.parametrize(
    ("text", "is_ours"),
    [
        ("--pipeline-model-parallel-size 4 --noop-layers 3", True),
        ("source MindSpeed/env.sh\npython run.py --pipeline-model-parallel-size 4", True),
        ("import mindspeed.megatron_adaptor", False),
        ("--pipeline-model-parallel-size 4", False),
        ("+ python mindspeed.py --pipeline-model-parallel-size 4\n  pipeline_model_parallel_size ........ 4\n", False),
    ],
)
def test_its_scripts_are_told_from_megatrons(text: str, is_ours: bool) -> None:
    assert is_mindspeed_script(text, "run.sh") is is_ours


def test_of_what_a_run_printed_its_own_arguments_are_not_understood() -> None:
    text = (
        "  num_layers ........................ 16\n"
        "  noop_layers ....................... None\n"
        "  num_layer_list .................... 4,4,5,3\n"
        "  pipeline_model_parallel_size ...... 4\n"
        "  schedules_method .................. dualpipev\n"
    )
    found = read_script(text, "log.txt", EIGHT)
    assert found.plan.layers == ((4, 4, 4, 4),)
    assert found.unknown == ("log.txt, line 3: num_layer_list", "log.txt, line 5: schedules_method")


PAIRS = "--num-layers-per-virtual-pipeline-stage 2 --moe-fb-overlap"


def test_forwards_beside_backwards_delay_weight_gradients() -> None:
    found = read(16, PAIRS)
    assert found.plan.schedule == "interleaved-overlap"
    assert found.plan.delays_weights
    assert found.plan.recompute == {"full": ((2, 2, 2, 2), (2, 2, 2, 2))}
    assert found.unknown == ()
    with pytest.raises(InputError, match="moe_fb_overlap must be off with one chunk on several ranks"):
        read(16, "--moe-fb-overlap")


def test_switches_that_mean_nothing_here_are_named() -> None:
    megatrons = read(16, "--num-layers-per-virtual-pipeline-stage 2 --overlap-moe-expert-parallel-comm")
    assert megatrons.plan.schedule == "interleaved"
    assert megatrons.unknown == ("run.sh, line 6: overlap_moe_expert_parallel_comm",)
    before = read(16, "--pipeline-num-transformer-layers [[2,2]*4] --moe-fb-overlap")
    assert before.plan.schedule == "interleaved"
    assert before.unknown == ("run.sh, line 6: moe_fb_overlap",)
    assert is_mindspeed_script(SCRIPT.format(layers=16, cut=PAIRS), "run.sh")
