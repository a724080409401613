import pytest
from ruamel.yaml import YAML

from evenflow.errors import InputError
from evenflow.export.dry_run_text import format_dry_runs, format_init_start, format_memory_usage
from evenflow.model import Plan
from evenflow.targets.frameworks.mindformers.peak_logs import parse_peak_lines
from evenflow.units import MEGABYTE


def plan(layers: tuple[int, ...], **recompute: tuple[int, ...]) -> Plan:
    tables = {kind: (table,) for kind, table in recompute.items()}
    return Plan(schedule="1f1b", num_microbatches=len(layers), layers=(layers,), recompute=tables)


ROUNDS = (
    plan((20, 21, 19, 20), full=(1, 2, 1, 1)),
    plan((20, 19, 21, 20), full=(1, 3, 0, 1), both=(0, 0, 1, 0), comm=(0, 0, 3, 0)),
)


def test_a_block_for_each_round():
    assert format_dry_runs(ROUNDS) == (
        "Please dryrun following config, 2 round(s) is needed",
        """for round 1, please dryrun config:
        offset: [0, 1, -1, 0]
        recompute: [1, 2, 1, 1]
        select_recompute: [1, 2, 1, 1]
        select_comm_recompute: [1, 2, 1, 1]""",
        """for round 2, please dryrun config:
        offset: [0, -1, 1, 0]
        recompute: [1, 3, 0, 1]
        select_recompute: [1, 3, 1, 1]
        select_comm_recompute: [1, 3, 4, 1]""",
    )


def test_the_start_of_an_init_file_is_what_the_guide_shows():
    one, several = (YAML(typ="safe").load(format_init_start(rounds)) for rounds in (ROUNDS[:1], ROUNDS))
    assert one == {
        "pipeline_config": {"pipeline_num": 4, "num_layer": 80, "offset": [0, 1, -1, 0]},
        "recompute_config": {
            "recompute": [1, 2, 1, 1],
            "select_recompute": [1, 2, 1, 1],
            "select_comm_recompute": [1, 2, 1, 1],
        },
    }
    assert several["pipeline_config"]["offset"] == [[0, 1, -1, 0], [0, -1, 1, 0]]
    assert several["recompute_config"]["select_comm_recompute"] == [[1, 2, 1, 1], [1, 3, 4, 1]]


# What grep finds in the logs of the 175B example, and the block that was written from it. [SAPP guide, llama调优实例]
GREP = """\
stage_0_rank_0/mindformer.log:5478:Actual peak memory usage (with fragments): 96643M
stage_1_rank_1024/mindformer.log:5482:Actual peak memory usage (with fragments): 60854M
stage_2_rank_2048/mindformer.log:5458:Actual peak memory usage (with fragments): 27620M
stage_3_rank_3072/mindformer.log:5470:Actual peak memory usage (with fragments): 54533M
stage_4_rank_4096/mindformer.log:5494:Actual peak memory usage (with fragments): 100631M
stage_5_rank_5120/mindformer.log:5470:Actual peak memory usage (with fragments): 31713M
stage_6_rank_6144/mindformer.log:5470:Actual peak memory usage (with fragments): 38874M
stage_7_rank_7168/mindformer.log:5542:Actual peak memory usage (with fragments): 146986M
stage_8_rank_8192/mindformer.log:5470:Actual peak memory usage (with fragments): 31713M
stage_9_rank_9216/mindformer.log:5470:Actual peak memory usage (with fragments): 24553M
stage_10_rank_10240/mindformer.log:5470:Actual peak memory usage (with fragments): 24553M
stage_11_rank_11264/mindformer.log:5482:Actual peak memory usage (with fragments): 28484M
stage_12_rank_12288/mindformer.log:5494:Actual peak memory usage (with fragments): 45016M
stage_13_rank_13312/mindformer.log:5494:Actual peak memory usage (with fragments): 33763M
stage_14_rank_14336/mindformer.log:5482:Actual peak memory usage (with fragments): 20463M
stage_15_rank_15360/mindformer.log:5496:Actual peak memory usage (with fragments): 23531M
"""
BLOCK = """\
memory_usage:
  head_memory: 96643
  tail_memory: 23531
  body_memories:
    stage_id: [1,2,3,4,5,6,7,8,9,10,11,12,13,14]
    memories: [60854,27620,54533,100631,31713,38874,146986,31713,24553,24553,28484,45016,33763,20463]
"""
TWO_ROUNDS = """\
memory_usage:
  head_memory: 66502
  tail_memory: 25599
  body_memories:
    stage_id: [[1,2],[1,2]]
    memories: [[52536,35595],[45439,35700]]
"""


def mb(*peaks):
    return tuple(peak * MEGABYTE for peak in peaks)


def test_the_peaks_of_the_guide_become_its_block():
    assert format_memory_usage([parse_peak_lines(GREP.splitlines(), place="grep")]) == BLOCK


def test_two_rounds_become_lists_of_lists():
    assert format_memory_usage([mb(66502, 52536, 35595, 25599), mb(70000, 45439, 35700, 30000)]) == TWO_ROUNDS


def test_rounds_of_different_length_are_refused():
    with pytest.raises(InputError, match=r"round 2 must have the 3 stages"):
        format_memory_usage([mb(1, 2, 3), mb(1, 2)])


def test_two_stages_have_none_between():
    with pytest.raises(InputError, match="three stages or more"):
        format_memory_usage([mb(1, 2)])
