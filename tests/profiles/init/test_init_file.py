from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.export.dry_run_text import format_init_start, format_memory_usage
from evenflow.model import Plan
from evenflow.profiles.init.init_file import InitFile, parse_init_file, read_init_file
from evenflow.profiles.memory.fit import fit_memory
from tests.paths import CONFIGS

MB = 2**20

FOUR = """\
pipeline_config:
  pipeline_num: 4
  num_layer: 21
  offset: [1, 0, -1, 1]
recompute_config:
  recompute: [1, 0, 2, 6]
  select_recompute: [3, 5, 2, 6]
  select_comm_recompute: [2, 1, 4, 6]
memory_usage:
  head_memory: 100
  tail_memory: 90.5
  body_memories:
    stage_id: [1, 2]
    memories: [80, 70]
time_config: {head: 1, body: 2.5, tail: 0}
"""


def four(**changes: str) -> str:
    """`FOUR` with other values of some fields."""
    text = FOUR
    for key, value in changes.items():
        (line,) = (line for line in FOUR.splitlines() if line.strip().startswith(f"{key}:"))
        text = text.replace(line, f"{line[: line.index(key)]}{key}: {value}")
    return text


def parse(text: str) -> InitFile:
    return parse_init_file(text, place="init.yaml")


def plans(text: str) -> tuple[Plan, ...]:
    return parse(text).dry_runs.rounds


def peaks(init: InitFile) -> list[tuple[int, int, float]]:
    return [(peak.round_index, peak.rank, peak.peak_bytes / MB) for peak in init.dry_runs.peaks]


class TestForms:
    def test_one_round(self):
        init = parse(FOUR)
        (plan,) = init.dry_runs.rounds
        assert plan.layers == ((6, 5, 4, 6),)
        assert plan.recompute == {
            "full": ((1, 0, 2, 6),),
            "both": ((1, 1, 0, 0),),
            "select": ((1, 4, 0, 0),),
            "comm": ((0, 0, 2, 0),),
        }
        assert (plan.schedule, plan.num_microbatches, init.num_layers) == ("1f1b", 4, 21)
        assert peaks(init) == [(0, 0, 100), (0, 1, 80), (0, 2, 70), (0, 3, 90.5)]
        assert init.times is not None
        assert [part.forward_ns for part in (init.times.head, init.times.body, init.times.tail)] == [
            1_000_000, 2_500_000, 0
        ]  # fmt: skip
        assert init.times.body.backward_ns == 5_000_000
        assert (init.profiling, init.planning.stated) == (None, ())

    def test_words_for_all_stages(self):
        text = four(num_layer="20", offset="0", recompute="true", select_recompute="false", select_comm_recompute="0")
        (plan,) = plans(text)
        assert plan.layers == ((5, 5, 5, 5),)
        assert plan.recompute == {"full": ((5, 5, 5, 5),)}

    def test_the_recompute_lists_may_be_left_out(self):
        text = FOUR[: FOUR.index("recompute_config")] + FOUR[FOUR.index("memory_usage") :]
        assert plans(text)[0].recompute == {}
        assert plans(four(recompute="", select_recompute="", select_comm_recompute=""))[0].recompute == {}

    def test_rounds(self):
        text = four(
            num_layer="20",
            offset="[[0, 1, -1, 0], 0]",
            recompute="[false, true]",
            select_recompute="[[5, 6, 4, 5], [1, 2, 3, 4]]",
            select_comm_recompute="false",
            stage_id="[[2, 1], [1]]",
            memories="[[71, 81], [60]]",
        )
        first, second = plans(text)
        assert first.layers == ((5, 6, 4, 5),)
        assert first.recompute == {"select": ((5, 6, 4, 5),)}
        assert second.layers == ((5, 5, 5, 5),)
        assert second.recompute == {"full": ((5, 5, 5, 5),)}
        assert peaks(parse(text)) == [(0, 0, 100), (0, 2, 71), (0, 1, 81), (1, 1, 60), (0, 3, 90.5)]

    def test_a_list_of_one_round(self):
        text = four(offset="[[1, 0, -1, 1]]", recompute="[[1, 0, 2, 6]]", stage_id="[[1, 2]]", memories="[[80, 70]]")
        assert plans(text) == plans(FOUR)
        assert peaks(parse(text)) == peaks(parse(FOUR))

    def test_the_same_offsets_in_every_round(self):
        text = four(
            num_layer="20",
            offset="0",
            recompute="[[1, 1, 1, 1], [2, 2, 2, 2]]",
            select_recompute="false",
            select_comm_recompute="[0, 0]",
            stage_id="[[1, 2], [1, 2]]",
            memories="[[9, 8], [7, 6]]",
        )
        assert [plan.recompute["full"][0] for plan in plans(text)] == [(1, 1, 1, 1), (2, 2, 2, 2)]

    def test_profiling(self):
        text = FOUR + 'profiling_config: {micro_batch_num: 8, folder_path: "/t", head_layers: E, tail_layers: [N, L]}'
        init = parse(text)
        assert init.profiling is not None
        names = (init.profiling.head_layers, init.profiling.body_layers, init.profiling.tail_layers)
        assert names == (("E",), ("LLamaDecodeLayer",), ("N", "L"))
        assert (init.profiling.folder, init.profiling.num_microbatches) == ("/t", 8)
        assert init.times is not None
        assert [part.name for part in (init.times.head, init.times.body, init.times.tail)] == [
            "E", "LLamaDecodeLayer", "N + L"
        ]  # fmt: skip

    def test_llama_is_the_default_and_times_are_not_required(self):
        text = FOUR[: FOUR.index("time_config")]
        assert parse(text).times is None
        init = parse(text + "profiling_config: {micro_batch_num: 1, folder_path: t}")
        assert init.profiling is not None
        assert init.profiling.head_layers == ("LlamaEmbedding",)
        assert init.profiling.tail_layers == ("lm_head-Linear", "LlamaRMSNorm")

    def test_what_to_plan_for_is_read_as_well(self):
        text = FOUR.replace("  num_layer: 21\n", "  num_layer: 21\n  memory_limit: 56000\n  vpp_less_memory: true\n")
        planning = parse(text).planning
        assert planning.stated == ("vpp_less_memory", "memory_limit")
        assert (planning.num_stages, planning.num_layers, planning.has_measurements) == (4, 21, True)
        assert (planning.memory_limit_bytes, planning.less_memory) == (56000 * MB, True)


class TestGuideExamples:
    """The [SAPP guide] and the decompositions known of it, MB."""

    @pytest.mark.parametrize("name", ["init_llama.yaml", "init_demo.yaml"])
    def test_the_175b_example(self, name):
        fit = fit_memory(read_init_file(CONFIGS / name).dry_runs)
        found = {estimate.name: estimate.value_bytes / MB for estimate in fit.estimates}
        assert found == pytest.approx(
            {
                "constant": 1206.804, "parameter": 2217.488, "none": 1002.893, "select": 783.463, "comm": 695.768,
                "both": 423.105, "head": 3407.95, "tail": 4678.85,
            },
            abs=0.005,
        )  # fmt: skip
        assert fit.constant_fitted
        assert fit.degrees_of_freedom == 8
        assert fit.notes == ()

    def test_the_two_rounds_of_four_stages(self):
        fit = fit_memory(read_init_file(CONFIGS / "init_pp4.yaml").dry_runs)
        found = {estimate.name: estimate.value_bytes / MB for estimate in fit.estimates}
        expected = {"constant": 955.338, "parameter": 400.608, "none": 743.459, "full": 131.784, "head": 504.45,
                    "tail": 2373.99}  # fmt: skip
        assert found == pytest.approx(expected, abs=0.005)
        assert set(fit.residuals_bytes) == {0}


@st.composite
def dry_runs(draw: st.DrawFn) -> tuple[tuple[Plan, ...], list[list[int]]]:
    """Rounds that MindFormers can express, and the peak of every stage in whole megabytes."""
    stages, num_rounds = draw(st.integers(3, 8)), draw(st.integers(1, 3))
    num_layers = draw(st.integers(stages, 5 * stages))
    rounds = []
    for _ in range(num_rounds):
        cuts = sorted(draw(st.lists(st.integers(0, num_layers), min_size=stages - 1, max_size=stages - 1)))
        layers = [high - low for low, high in zip([0, *cuts], [*cuts, num_layers], strict=True)]
        tables: dict[str, list[int]] = {kind: [0] * stages for kind in ("full", "both", "select", "comm")}
        for rank, count in enumerate(layers):
            third = draw(st.sampled_from(["select", "comm"]))
            for kind in ("full", "both", third):
                left = count - sum(row[rank] for row in tables.values())
                tables[kind][rank] = draw(st.integers(0, left))
        recompute = {kind: (tuple(row),) for kind, row in tables.items() if any(row)}
        rounds.append(Plan(schedule="1f1b", num_microbatches=stages, layers=(tuple(layers),), recompute=recompute))
    sizes = st.lists(st.integers(1, 10**6), min_size=stages, max_size=stages)
    return tuple(rounds), draw(st.lists(sizes, min_size=num_rounds, max_size=num_rounds))


@given(dry_runs())
def test_what_the_guide_and_the_logs_write_is_read_back(case):
    rounds, sizes = case
    text = format_init_start(rounds) + format_memory_usage([[size * MB for size in row] for row in sizes])
    init = parse(text)
    assert init.dry_runs.rounds == rounds
    assert {(index, rank): size for index, rank, size in peaks(init)} == {
        (index, rank): size
        for index, row in enumerate(sizes)
        for rank, size in enumerate(row)
        if index == 0 or 0 < rank < len(row) - 1
    }


def refusal(text: str) -> str:
    with pytest.raises(InputError) as error:
        parse(text)
    return str(error.value)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"pipeline_num": "2"}, ("line 2: pipeline_config.pipeline_num", "must be 3 or more")),
        ({"pipeline_num": "four"}, ("line 2: pipeline_config.pipeline_num", "'four'")),
        ({"num_layer": "0"}, ("line 3: pipeline_config.num_layer", "integer from 1")),
        ({"num_layer": "22"}, ("line 4: pipeline_config.offset must sum to 2, because", "got 1")),
        ({"offset": "[1, 0, 0]"}, ("line 4: pipeline_config.offset", "each of the 4 stages; here are 3")),
        ({"offset": "1"}, ("line 4: pipeline_config.offset", "0, a list of integers")),
        ({"offset": ""}, ("line 4: pipeline_config.offset", "0, a list of integers")),
        ({"offset": "[-6, 7, -1, 1]"}, ("offset, stage 0", "-5 or more")),
        ({"offset": "[[1, 0, -1, 1], [0, 0, 1, 0]]"}, ("recompute_config.recompute", "each round, here 2")),
        ({"offset": "[[1, 0, -1, 1], [1, 0, 0]]"}, ("offset, round 2", "here are 3")),
        ({"recompute": "[7, 0, 2, 6]"}, ("line 6: recompute_config.recompute, stage 0", "0 to the 6 layers", "got 7")),
        ({"select_recompute": "[1, 2]"}, ("line 7: recompute_config.select_recompute", "here are 2")),
        ({"select_comm_recompute": "maybe"}, ("line 8: recompute_config.select_comm_recompute", "true, false")),
        ({"select_comm_recompute": "[1, 2, true, 3]"}, ("select_comm_recompute", "each round, here 1")),
        ({"head_memory": "-1"}, ("line 10: memory_usage.head_memory", "above zero")),
        ({"head_memory": "60854M"}, ("line 10: memory_usage.head_memory", "a number")),
        ({"tail_memory": ".inf"}, ("line 11: memory_usage.tail_memory", "at most 100,000,000 MB")),
        ({"tail_memory": "1e12"}, ("line 11: memory_usage.tail_memory", "check the unit")),
        ({"stage_id": "[0, 2]"}, ("line 13: memory_usage.body_memories.stage_id", "from 1 to 2", "head_memory")),
        ({"stage_id": "[2, 2]"}, ("line 13: memory_usage.body_memories.stage_id", "must have every stage once")),
        ({"stage_id": "[1.0, 2]"}, ("stage_id", "middle stages, from 1 to 2")),
        ({"stage_id": "3"}, ("stage_id", "a list of numbers")),
        ({"stage_id": "[[1, 2], [1, 2]]"}, ("offset", "each round, here 2")),
        ({"memories": "[80]"}, ("line 14: memory_usage.body_memories.memories", "2 stages of stage_id; here are 1")),
        ({"memories": "[80, 0]"}, ("memories, entry 2 (stage 2)", "above zero")),
        ({"memories": "[80, x]"}, ("memories, entry 2 (stage 2)", "'x'")),
        ({"time_config": "{head: 1, body: 2}"}, ("time_config", "must have the field 'tail'")),
        ({"time_config": "{head: 1, body: 0, tail: 1}"}, ("line 15: time_config.body", "above zero")),
        ({"time_config": "{head: 1, body: 1.0e-9, tail: 1}"}, ("time_config.body", "nanosecond")),
        (
            {"time_config": "{head: 1, bodies: 1, tail: 1}"},
            ("time_config.bodies is an unknown field", "did you mean 'body'?"),
        ),
        ({"time_config": "3"}, ("time_config", "named fields")),
    ],
)
def test_a_bad_value_is_named_with_its_line_and_rule(changes, parts):
    message = refusal(four(**changes))
    assert message.startswith("init.yaml")
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("field", "wrong", "near"),
    [
        ("pipeline_config", "pipline_config", "pipeline_config"),
        ("pipeline_num", "pipeline_number", "pipeline_num"),
        ("select_recompute", "selct_recompute", "select_recompute"),
        ("memory_usage", "memory_use", "memory_usage"),
        ("tail_memory", "tail_memroy", "tail_memory"),
        ("stage_id", "stage_ids", "stage_id"),
    ],
)
def test_an_unknown_field_is_named_with_the_nearest(field, wrong, near):
    message = refusal(FOUR.replace(f"{field}:", f"{wrong}:", 1))
    assert f"{wrong} is an unknown field; did you mean '{near}'?" in message


def test_a_missing_section_is_named():
    assert "must have the field 'memory_usage'" in refusal(FOUR[: FOUR.index("memory_usage")])


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=True) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*(line.strip().split(":")[0] for line in FOUR.splitlines())]), json_like))
def test_any_value_of_any_field_is_read_or_refused_in_one_message(values: dict[str, Any]):
    from ruamel.yaml import YAML
    from ruamel.yaml.compat import StringIO

    document = YAML(typ="safe", pure=True).load(FOUR)

    def put(fields: dict[str, Any]) -> dict[str, Any]:
        return {key: values.get(key, put(value) if isinstance(value, dict) else value) for key, value in fields.items()}

    stream = StringIO()
    YAML(typ="safe", pure=True).dump(put(document), stream)
    message = ""
    try:
        parse(stream.getvalue())
    except InputError as error:
        message = str(error)
    assert not message or message.startswith(("init.yaml", "cannot read init.yaml"))
