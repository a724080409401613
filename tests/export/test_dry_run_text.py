from ruamel.yaml import YAML

from evenflow.export.dry_run_text import format_dry_runs, format_init_start
from evenflow.model import Plan


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


def test_the_start_of_an_init_file_is_what_document_001_shows():
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
