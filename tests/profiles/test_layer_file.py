import json
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import FileError, InputError
from evenflow.model import EncoderWork, EndBlock, Layer, LayerRun, Mode, Network, PassHalves, RankTraits, StageRule
from evenflow.profiles.layer_file import format_layer_file, parse_layer_file, read_layer_file

MS = 1_000_000
MB = 2**20

GUIDE_EXAMPLE = """{
    "name": "llama2_70b_prof",
    "pre_defined_layer": {
      "LlamaEmbedding": 0,
      "LlamaRMSNorm": -1
    },
    "auto_partition_layer": {
      "LLamaDecodeLayer": 96
    },
    "layers_description":[
        {
          "name": "LlamaEmbedding",
          "model_name": "LLaMA_prof",
          "type": "HEAD",
          "time": 4.5808,
          "nb_layer": 1,
          "memory_parameter": 1245.8
        },
        {
          "name": "LLamaDecodeLayer",
          "model_name": "LLaMA_prof",
          "type": "BODY",
          "time": 1.31479,
          "nb_layer": 80,
          "memory_activation": 440.34,
          "memory_parameter": 1947.29999,
          "memory_recompute": 16.23999
        },
        {
          "name": "LlamaRMSNorm",
          "model_name": "LLaMA_prof",
          "type": "TAIL",
          "time": 0.74015,
          "nb_layer": 1,
          "memory_parameter": 3127.6
        }
    ]
}
"""


def body(**fields: object) -> dict[str, object]:
    """A BODY entry of 4 layers of 10 ms; None takes a field out."""
    entry = {
        "name": "body", "type": "BODY", "nb_layer": 4, "time": 10, "memory_parameter": 100, "memory_activation": 50,
    } | fields  # fmt: skip
    return {key: value for key, value in entry.items() if value is not None}


def parse(*entries: dict[str, object], **top: object) -> Network:
    text = json.dumps({"name": "net", "layers_description": list(entries), **top})
    return parse_layer_file(text, place="net.json")


def modes(**fields: object) -> dict[str, Mode]:
    return dict(parse(body(**fields)).layers[0].modes)


def test_the_example_of_the_guide_loads_and_nb_layer_wins():
    network = parse_layer_file(GUIDE_EXAMPLE, place="llama2_70b.json")
    assert network.name == "llama2_70b_prof"
    assert network.num_layers == 80  # auto_partition_layer says 96
    assert network.kinds == ("full", "none")
    layer = network.layers[0]
    assert layer.forward_ns == 1_314_790
    assert layer.backward_ns == 2_629_580
    assert layer.modes["full"].backward_ns == 3_944_370  # half as much again
    assert layer.parameter_bytes == round(1947.29999 * MB)
    assert layer.modes["none"].activation_bytes == round(440.34 * MB)
    assert layer.modes["full"].activation_bytes == round(16.23999 * MB)
    assert network.head == EndBlock(
        name="LlamaEmbedding", forward_ns=4_580_800, backward_ns=9_161_600, parameter_bytes=round(1245.8 * MB)
    )
    assert network.tail.forward_ns == 740_150
    assert network.constant_bytes == 0
    assert network.has_memory


def test_reads_a_file_and_names_an_unnamed_network_after_it(tmp_path: Path):
    path = tmp_path / "small.json"
    path.write_text("\ufeff" + json.dumps({"layers_description": [body()]}), encoding="utf-8")
    assert read_layer_file(path).name == "small"


def test_default_coefficients_are_those_of_the_original():
    offered = modes(memory_select_rec=40, memory_select_comm=30, memory_both_comm_select=20, memory_recompute=5)
    added = {kind: mode.backward_ns - 20 * MS for kind, mode in offered.items()}
    # [SAPP guide: +0.08, +0.25, +0.33, +1.0 forward]
    assert added == {"none": 0, "select": 800_000, "comm": 2_500_000, "both": 3_300_000, "full": 10 * MS}


def test_coefficients_and_explicit_times_override():
    offered = modes(
        forward_time=8, backward_time=24, select_rec_time=26, recompute_coef=0.25, memory_select_rec=40,
        memory_recompute=5, memory_select_comm=30,
    )  # fmt: skip
    assert offered["none"].backward_ns == 24 * MS
    assert offered["select"].backward_ns == 26 * MS  # the whole backward, not what is added
    assert offered["full"].backward_ns == 30 * MS
    assert offered["comm"].backward_ns == 27 * MS  # of the stated backward
    assert parse(body(forward_time=8)).layers[0].forward_ns == 8 * MS
    assert parse(body(forward_time=8)).layers[0].backward_ns == 16 * MS
    assert parse(body(time=None, forward_time=8)).layers[0].forward_ns == 8 * MS
    assert modes(backward_coef=0.5)["none"].backward_ns == 30 * MS
    assert modes(backward_coef=0.0)["none"].backward_ns == 20 * MS


def test_a_kind_is_offered_when_its_memory_is_there_and_above_zero():
    assert set(modes(memory_recompute=5, memory_select_rec=0, select_comm_coef=0.1)) == {"none", "full"}


def test_user_named_kinds():
    kinds = {"attention": {"memory": 45, "coef": 0.1}, "norm": {"memory": 48, "time": 20.5}}
    offered = modes(recompute_kinds=kinds)
    assert offered["attention"] == Mode(activation_bytes=45 * MB, backward_ns=22 * MS)
    assert offered["norm"] == Mode(activation_bytes=48 * MB, backward_ns=20_500_000)


def test_weight_gradients():
    """Half of the plain backward, and all that is kept without recomputation, unless the file says otherwise."""
    plain = parse(body(backward_time=21)).layers[0]
    assert (plain.weight_ns, plain.until_weight_bytes) == (10_500_000, 50 * MB)
    stated = parse(body(backward_time=21, weight_time=7, memory_until_weight=40)).layers[0]
    assert (stated.weight_ns, stated.until_weight_bytes, stated.backward_ns) == (7 * MS, 40 * MB, 21 * MS)
    end = {"type": "TAIL", "nb_layer": 2, "time": 1, "memory_activation": 3}
    tail = parse(body(), {"name": "norm", **end, "weight_time": 0}, {"name": "head", **end}).tail
    assert (tail.backward_ns, tail.weight_ns, tail.until_weight_bytes) == (8 * MS, 2 * MS, 12 * MB)


def test_several_heads_tails_and_bodies():
    network = parse(
        {"name": "loss", "type": "TAIL", "nb_layer": 1, "time": 1},
        body(name="dense", nb_layer=3, memory_recompute=5, memory_select_rec=40),
        {"name": "embed", "type": "HEAD", "nb_layer": 1, "time": 2, "memory_parameter": 7, "memory_activation": 2},
        {"name": "position", "type": "HEAD", "nb_layer": 2, "time": 3, "memory_parameter": 11, "backward_time": 1},
        body(name="moe", nb_layer=58, time=20, memory_recompute=6),
        stage_const_mem=12.5,
    )
    assert [(run.layer.name, run.count) for run in network.runs] == [("dense", 3), ("moe", 58)]
    assert network.kinds == ("full", "none")
    assert network.head == EndBlock(
        name="embed + position", forward_ns=8 * MS, backward_ns=6 * MS, parameter_bytes=29 * MB, activation_bytes=2 * MB
    )
    assert network.tail == EndBlock(name="loss", forward_ns=1 * MS, backward_ns=2 * MS)
    assert network.constant_bytes == 12.5 * MB


def test_without_body_memory_there_is_none_at_all():
    head = {"name": "embed", "type": "HEAD", "nb_layer": 1, "time": 2, "memory_parameter": 7, "memory_activation": 2}
    network = parse(head, body(memory_parameter=None, memory_activation=None), stage_const_mem=5)
    assert not network.has_memory
    assert network.kinds == ("none",)
    assert (network.constant_bytes, network.head.parameter_bytes, network.head.activation_bytes) == (0, 0, 0)
    assert network.layers[0].parameter_bytes == network.layers[0].modes["none"].activation_bytes == 0


@pytest.mark.parametrize(
    ("entry", "field", "says"),
    [
        (body(time=-1), "time", "must be a number from 0 to 100,000,000 ms"),
        (body(time=0), "time", "nanosecond or more"),
        (body(time=1e-8), "time", "nanosecond or more"),
        (body(time=None, forward_time=0), "forward_time", "nanosecond or more"),
        (body(backward_time=0), "backward_time", "nanosecond or more"),
        (body(time=True), "time", "a number"),
        (body(time="3 ms"), "time", "a number"),
        (body(time=float("nan")), "time", "must be a number from 0 to"),
        (body(time=float("inf")), "time", "must be a number from 0 to"),
        (body(time=10**400), "time", "must be a number from 0 to"),
        (body(time=None), "", "must have the field 'time'"),
        (body(forward_time=1, time="x"), "time", "a number"),
        (body(nb_layer=0), "nb_layer", "from 1"),
        (body(nb_layer=1.0), "nb_layer", "integer"),
        (body(nb_layer=True), "nb_layer", "integer"),
        (body(nb_layer=None), "", "must have the field 'nb_layer'"),
        (body(type="body"), "type", "HEAD, BODY or TAIL"),
        (body(type=None), "", "must have the field 'type'"),
        (body(name=""), "name", "not empty"),
        (body(memory_actication=1), "memory_actication", "did you mean 'memory_activation'?"),
        (body(colour="red"), "colour", "the fields are "),
        (body(memory_activation=None), "memory_activation", "must be given, because another BODY entry"),
        (body(memory_parameter=None), "memory_parameter", "must be given, because another BODY entry"),
        (body(memory_activation=0), "memory_activation", "above zero"),
        (body(weight_time=20.5), "weight_time", "at most the backward without recomputation (20)"),
        (body(memory_until_weight=-1), "memory_until_weight", "must be a number from 0 to 100,000,000 MB"),
        (
            {"name": "h", "type": "HEAD", "nb_layer": 1, "time": 2, "weight_time": 5},
            "weight_time",
            "of which it is a part",
        ),
        (body(memory_recompute=-5), "memory_recompute", "must be a number from 0 to 100,000,000 MB"),
        (body(recompute_coef=-0.1), "recompute_coef", "from 0 to 1,000"),
        (
            body(memory_recompute=5, recompute_time=10),
            "recompute_time",
            "at least the backward without recomputation (20)",
        ),
        (body(recompute_kinds=[]), "recompute_kinds", "named fields"),
        (body(recompute_kinds={"full": {"memory": 1, "coef": 1}}), "recompute_kinds", "other than none"),
        (
            body(recompute_kinds={"my kind": {"memory": 1, "coef": 1}}),
            "recompute_kinds",
            "by identifiers or paths of modules",
        ),
        (
            body(recompute_kinds={"mine": {"memory": 1}}),
            "recompute_kinds.mine",
            "one of the fields 'time' and 'coef'",
        ),
        (body(recompute_kinds={"mine": {"memory": 1, "coef": 1, "time": 9}}), "recompute_kinds.mine", "one of"),
        (body(recompute_kinds={"mine": {"memory": 0, "coef": 1}}), "recompute_kinds.mine.memory", "above zero"),
        (body(recompute_kinds={"mine": {"coef": 1}}), "recompute_kinds.mine", "must have the field 'memory'"),
        ({"name": "h", "type": "HEAD", "nb_layer": 1, "time": -2}, "time", "must be a number from 0 to 100,000,000 ms"),
        ({"name": "h", "type": "HEAD", "nb_layer": 1, "time": 2, "recompute_kinds": {}}, "recompute_kinds", "BODY"),
    ],
)
def test_a_bad_field_is_one_clear_message(entry: dict[str, object], field: str, says: str):
    with pytest.raises(InputError) as caught:
        parse(body(), entry)
    place = "net.json: layers_description[1]" + (f".{field}" if field else "")
    assert caught.value.place == place
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ('{"a": 1,\n "b" 2}', "net.json", "not JSON at line 2, column 6"),
        ("", "net.json", "not JSON at line 1, column 1"),
        ("[" * 100_000, "net.json", "JSON"),
        ("9" * 5000, "net.json", "JSON"),
        ("[1, 2]", "net.json", "named fields, got 'list'"),
        ("{}", "net.json", "must have the field 'layers_description'"),
        ('{"layers_description": {}}', "net.json: layers_description", "a list"),
        ('{"layers_description": [3]}', "net.json: layers_description[0]", "named fields"),
        ('{"layers_description": []}', "net.json: layers_description", "type BODY, got []"),
        ('{"layer_description": []}', "net.json: layer_description", "did you mean 'layers_description'?"),
        ('{"layers_description": [{"name": "b", "time": 1, "time": 2}]}', "net.json: time of 'b'", "is given twice"),
        ('{"name": 3, "layers_description": [%s]}' % json.dumps(body()), "net.json: name", "a text"),  # noqa: UP031
        ('{"stage_const_mem": -1, "layers_description": [%s]}' % json.dumps(body()), "net.json: stage_const_mem", "must be a number from 0 to 100,000,000 MB"),  # noqa: E501, UP031
    ],
)  # fmt: skip
def test_a_bad_file_is_one_clear_message(text: str, place: str, says: str):
    with pytest.raises(InputError) as caught:
        parse_layer_file(text, place="net.json")
    assert caught.value.place == place
    assert says in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path):
    for path, reason in (
        (tmp_path / "none.json", "no such file"),
        (tmp_path, "it is a folder"),
        ("nul\0", "null byte"),
    ):
        with pytest.raises(FileError, match=f"cannot read .*: .*{reason}"):
            read_layer_file(path)
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        read_layer_file(binary)


nanoseconds = st.integers(1, 10**13)
sizes = st.integers(1, 10**14)


@st.composite
def layers(draw: st.DrawFn, has_memory: bool) -> Layer:
    backward_ns = draw(nanoseconds)
    kinds = draw(st.sets(st.sampled_from(["select", "comm", "both", "full", "mine", "other"]))) if has_memory else ()
    return Layer(
        name=draw(st.text("abc层", min_size=1)),
        forward_ns=draw(nanoseconds),
        parameter_bytes=draw(st.integers(0, 10**14)) if has_memory else 0,
        modes={
            "none": Mode(
                activation_bytes=draw(sizes) if has_memory else 0,
                backward_ns=backward_ns,
                working_bytes=draw(st.just(0) | sizes) if has_memory else 0,
            ),
            **{
                kind: Mode(
                    activation_bytes=draw(sizes),
                    backward_ns=backward_ns + draw(st.integers(0, 10**13)),
                    working_bytes=draw(st.just(0) | sizes),
                )
                for kind in kinds
            },
        },
        stated_weight_ns=draw(st.none() | st.integers(0, backward_ns)),
        stated_until_weight_bytes=draw(st.none() | sizes) if has_memory else None,
        boundary_bytes=draw(st.none() | st.integers(0, 10**13)),
    )


@st.composite
def networks(draw: st.DrawFn) -> Network:
    has_memory = draw(st.booleans())
    amounts = st.integers(0, 10**13)
    memory = amounts if has_memory else st.just(0)
    weight_ns = st.none() | amounts
    blocks = st.just(EndBlock()) | st.builds(
        EndBlock, name=st.just("end"), forward_ns=amounts, backward_ns=amounts, parameter_bytes=memory,
        activation_bytes=memory, working_bytes=memory, stated_weight_ns=weight_ns,
        stated_until_weight_bytes=st.none() | memory if has_memory else st.none(),
    ).filter(lambda block: block.weight_ns <= block.backward_ns)  # fmt: skip
    return Network(
        name=draw(st.text("abc ", min_size=1).filter(str.strip)),
        runs=tuple(
            LayerRun(layer=draw(layers(has_memory)), count=draw(st.integers(1, 200)))
            for _ in range(draw(st.integers(1, 3)))
        ),
        head=draw(blocks | blocks.map(lambda block: replace(block, name="end", boundary_bytes=5))),
        tail=draw(blocks),
        constant_bytes=draw(memory),
        has_memory=has_memory,
    )


@given(networks())
def test_reading_what_was_written_gives_the_same_network(network: Network):
    assert parse_layer_file(format_layer_file(network), place="net.json") == network


def block(*layers: dict[str, object], **fields: object) -> dict[str, object]:
    """A BODY entry of 3 blocks of these layers."""
    return {"name": "block", "type": "BODY", "nb_layer": 3, "layers": list(layers)} | fields


HALVES = (body(name="attention", nb_layer=1), body(name="mlp", nb_layer=2, time=20))


def rows(*entries: dict[str, object]) -> list[tuple[str, bool]]:
    """Names of the layers, and whether a stage may begin with each."""
    network = parse_layer_file(json.dumps({"name": "x", "layers_description": list(entries)}), place="x.json")
    return [(layer.name, layer.cut_before) for layer in network.layers]


def test_a_block_repeats_its_layers():
    one = [("attention", True), ("mlp", True), ("mlp", True)]
    assert rows(block(*HALVES)) == 3 * one


def test_blocks_may_be_whole():
    one = [("attention", True), ("mlp", False), ("mlp", False)]
    assert rows(block(*HALVES, cut_inside=False)) == 3 * one


@pytest.mark.parametrize(
    ("value", "cuts"),
    [(False, [0, 0, 0, 0]), (True, [1, 1, 1, 1]), ([0, 3], [1, 0, 0, 1]), (2, [1, 0, 1, 0]), ([], [0, 0, 0, 0])],
)
def test_where_a_stage_may_begin(value: object, cuts: list[int]):
    assert rows(body(), body(cut_before=value))[4:] == [("body", bool(cut)) for cut in cuts]


def test_blocks_may_begin_a_stage_now_and_then():
    cuts = [cut for _name, cut in rows(block(*HALVES, cut_inside=False, cut_before=2))]
    assert cuts == [True, False, False, False, False, False, True, False, False]


def test_rules_for_stages():
    entry = block(
        HALVES[0], body(name="mlp", nb_layer=1, stage_rules=["alone"]), stage_rules=["last_chunk"], nb_layer=1
    )
    network = parse_layer_file(json.dumps({"name": "x", "layers_description": [body(), entry]}), place="x.json")
    assert [layer.stage_rules for layer in network.layers[4:]] == [
        {StageRule.LAST_CHUNK}, {StageRule.ALONE, StageRule.LAST_CHUNK}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (body(cut_before=5), "cut_before must be true, false, a list of numbers from 0 to 3"),
        (body(cut_before=[4]), "cut_before must be true, false, a list"),
        (body(cut_before="no"), "cut_before must be true"),
        (
            body(stage_rules=["first"]),
            "only the rules alone, last_rank, not_first_rank, last_chunk, last_stage",
        ),
        (body(stage_rules="alone"), "must be a list of texts"),
        (block(), "must have at least one entry"),
        (block(*HALVES, time=3), "time"),
        (block(body(type="TAIL")), "must be BODY in a block"),
        (block(block(*HALVES)), "layers"),
        (block(*HALVES, cut_inside=1), "must be true or false"),
        (body(cut_inside=False), "cut_inside"),
    ],
)
def test_rules_that_are_wrong(entry: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        rows(entry)


@pytest.mark.parametrize("kind", ["HEAD", "TAIL"])
def test_ends_have_no_rules(kind: str):
    with pytest.raises(InputError, match="stage_rules must be in a BODY entry"):
        rows(body(), {"name": "end", "type": kind, "nb_layer": 1, "time": 1, "stage_rules": ["alone"]})


@given(data=st.data())
def test_rows_of_layers_are_written_as_blocks_and_read_back(data: st.DataObject):
    """Whatever repeats, and wherever stages may begin."""
    kinds = [
        Layer(
            name=name,
            forward_ns=MS * time,
            parameter_bytes=MB,
            modes={"none": Mode(activation_bytes=MB * time, backward_ns=2 * MS)},
            cut_before=cut,
            stage_rules=frozenset(rules),
        )
        for name, time, cut, rules in [
            ("a", 1, True, ()), ("m", 2, False, ()), ("m", 2, True, ()), ("p", 3, True, (StageRule.LAST_RANK,)),
        ]
    ]  # fmt: skip
    pattern = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=5))
    layers = [*pattern * data.draw(st.integers(1, 4)), *data.draw(st.lists(st.sampled_from(kinds), max_size=4))]
    network = Network(
        name="x", runs=tuple(LayerRun(layer=layer, count=len(list(equal))) for layer, equal in groupby(layers))
    )
    assert parse_layer_file(format_layer_file(network), place="x.json") == network


def test_a_model_of_halves_is_as_short_as_its_block():
    network = parse_layer_file(
        json.dumps({"name": "x", "layers_description": [block(*HALVES, nb_layer=40, cut_inside=False)]}), place="x"
    )
    assert len(json.loads(format_layer_file(network))["layers_description"]) == 1


def test_layers_of_multi_token_prediction():
    network = parse_layer_file(
        json.dumps({"name": "x", "layers_description": [body(), body(name="further", nb_layer=2, mtp=True)]}),
        place="x.json",
    )
    assert network.mtp_layers == 2
    assert parse_layer_file(format_layer_file(network), place="x.json") == network


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([body(mtp=True), body()], "must have the layers of multi-token prediction behind all others"),
        ([body(mtp=True)], "must have a layer besides those of multi-token prediction"),
        ([body(mtp=1)], "mtp must be true or false"),
        (
            [body(), {"name": "end", "type": "TAIL", "nb_layer": 1, "time": 1, "mtp": True}],
            "mtp must be in a BODY entry",
        ),
    ],
)
def test_layers_of_multi_token_prediction_are_the_last_ones(entries: list[dict[str, object]], message: str):
    with pytest.raises(InputError, match=message):
        rows(*entries)


def test_what_layers_send_on():
    entries = [
        {"name": "embedding", "type": "HEAD", "nb_layer": 1, "time": 1, "boundary_bytes": 7},
        body(nb_layer=2, boundary_bytes=100),
        body(nb_layer=1),
    ]
    network = parse_layer_file(json.dumps({"name": "x", "layers_description": entries}), place="x.json")
    assert network.boundaries == (7, 100, 100, None)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([body(boundary_bytes=-1)], "boundary_bytes must be .*from 0"),
        ([body(boundary_bytes="2MB")], "boundary_bytes must be"),
        (
            [body(), {"name": "end", "type": "TAIL", "nb_layer": 1, "time": 1, "boundary_bytes": 1}],
            "boundary_bytes must be in a BODY or HEAD entry: nothing comes behind the tail",
        ),
    ],
)
def test_what_nobody_can_send_on(entries: list[dict[str, object]], message: str):
    with pytest.raises(InputError, match=message):
        rows(*entries)


def test_a_tail_sends_nothing_on():
    network = parse_layer_file(json.dumps({"name": "x", "layers_description": [body()]}), place="x.json")
    with pytest.raises(InputError, match="nothing comes behind the tail"):
        replace(network, tail=EndBlock(boundary_bytes=1))


def test_ranks_that_differ():
    ranks = [{"count": 2}, {"speed": 0.5, "memory_reserved": 3}, {"link_delay": 2.5}, {"host_sharers": 4}]
    network = parse_layer_file(
        json.dumps({"name": "x", "ranks": ranks, "layers_description": [body()]}), place="x.json"
    )
    slow = RankTraits(speed=0.5, reserved_bytes=3 * MB)
    assert network.ranks == (
        RankTraits(),
        RankTraits(),
        slow,
        RankTraits(link_ns=2_500_000),
        RankTraits(host_sharers=4),
    )
    assert parse_layer_file(format_layer_file(network), place="x.json") == network


@pytest.mark.parametrize(
    ("rank", "message"),
    [
        ({"speed": 1.5}, r"speed must be a number from 0.01 to 1"),
        ({"speed": 0}, r"speed must be a number from 0.01 to 1"),
        ({"count": 0}, "count must be"),
        ({"link_delay": -1}, "link_delay must be"),
        ({"memory": 3}, "memory"),
    ],
)
def test_ranks_that_are_wrong(rank: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        parse_layer_file(json.dumps({"name": "x", "ranks": [rank], "layers_description": [body()]}), place="x.json")


FROZEN = {"name": "Frozen", "type": "BODY", "nb_layer": 3, "time": 2.0, "memory_parameter": 50.0, "frozen": True}
TRAINED = {
    "name": "Trained", "type": "BODY", "nb_layer": 4, "time": 2.0, "memory_parameter": 100.0, "memory_activation": 9.0,
    "memory_recompute": 1.0, "recompute_kinds": {"norms": {"memory": 7.0, "coef": 0.1}},
}  # fmt: skip


def test_frozen_layers_have_no_backward_and_every_kind_of_the_others():
    network = parse_layer_file(json.dumps({"layers_description": [FROZEN, TRAINED]}), place="layers.json")
    frozen = network.layers[0]
    assert set(frozen.modes) == set(network.layers[3].modes) == {"none", "full", "norms"}
    for mode in frozen.modes.values():
        assert (mode.backward_ns, mode.activation_bytes) == (0, 0)
    assert frozen.parameter_bytes == 50 * 2**20
    assert parse_layer_file(format_layer_file(network), place="layers.json") == network


@pytest.mark.parametrize("key", ["backward_time", "memory_activation", "memory_recompute", "weight_time"])
def test_a_frozen_layer_says_nothing_of_a_backward(key):
    text = json.dumps({"layers_description": [{**FROZEN, key: 1.0}, TRAINED]})
    with pytest.raises(InputError, match=rf"\[0\]\.{key} must be left out of a frozen layer"):
        parse_layer_file(text, place="layers.json")
    nothing = json.dumps({"layers_description": [{**FROZEN, key: 0}, TRAINED]})
    assert parse_layer_file(nothing, place="layers.json").layers[0].backward_ns == 0


def test_layers_of_an_encoder_are_the_first_and_not_all():
    encoder = {**TRAINED, "encoder": True}
    network = parse_layer_file(json.dumps({"layers_description": [encoder, TRAINED]}), place="layers.json")
    assert network.encoder_layers == 4
    assert parse_layer_file(format_layer_file(network), place="x.json").encoder_layers == 4
    for entries, message in (([TRAINED, encoder], "before all others"), ([encoder], "besides those of the encoder")):
        with pytest.raises(InputError, match=message):
            parse_layer_file(json.dumps({"layers_description": entries}), place="layers.json")


def test_work_of_encoders_reads_back():
    work = {"parts": 12, "time": 22.5, "backward_time": 61.25, "message": 0.05, "sum": 50.0, "in_bubbles": True}
    network = parse_layer_file(json.dumps({"encoder_work": work, "layers_description": [TRAINED]}), place="layers.json")
    assert network.encoder_work == EncoderWork(
        parts=12,
        forward_ns=22_500_000,
        backward_ns=61_250_000,
        message_ns=50_000,
        summed_ns=50_000_000,
        in_bubbles=True,
    )
    assert parse_layer_file(format_layer_file(network), place="again") == network
    least = parse_layer_file(
        json.dumps({"encoder_work": {"parts": 1, "time": 2}, "layers_description": [TRAINED]}), place="layers.json"
    )
    assert least.encoder_work == EncoderWork(parts=1, forward_ns=2_000_000, backward_ns=0)
    for wrong, message in (
        ({**work, "parts": 0}, "encoder_work.parts must be"),
        ({**work, "time": 0}, "the forward of encoders must take some time"),
        ({**work, "when": 1}, "when is an unknown field"),
        ({"parts": 1}, "time"),
    ):
        with pytest.raises(InputError, match=message):
            parse_layer_file(json.dumps({"encoder_work": wrong, "layers_description": [TRAINED]}), place="layers.json")


def test_halves_of_layers_read_back():
    halves = {
        "forward": {"dispatch": 2.0, "mlp": 3.0, "combine": 2.5},
        "backward": {"dispatch": 2.0, "mlp": 6.0, "combine": 0.0},
    }
    body = {"name": "b", "type": "BODY", "nb_layer": 4, "time": 10.0, "backward_time": 20.0, "halves": halves}
    network = parse_layer_file(json.dumps({"pair_slowdown": 1.2, "layers_description": [body]}), place="file")
    (run,) = network.runs
    assert run.layer.halves is not None
    assert run.layer.halves.forward == PassHalves(dispatch_ns=2_000_000, mlp_ns=3_000_000, combine_ns=2_500_000)
    assert network.pair_slowdown == 1.2
    assert parse_layer_file(format_layer_file(network), place="again") == network
    delayed = {**halves, "backward": {**halves["backward"], "mlp_weight": 1.5}}
    delaying = parse_layer_file(json.dumps({"layers_description": [{**body, "halves": delayed}]}), place="file")
    assert delaying.runs[0].layer.halves.backward.mlp_weight_ns == 1_500_000
    assert parse_layer_file(format_layer_file(delaying), place="again") == delaying
    in_memory = {**body, "memory_parameter": 9, "memory_activation": 8, "memory_recompute": 2}
    keeping = {**in_memory, "halves": {**halves, "mlp_memory": {"none": 5.5, "full": 0.5}}}
    kept = parse_layer_file(json.dumps({"layers_description": [keeping]}), place="file")
    assert {kind: mode.mlp_bytes / 2**20 for kind, mode in kept.runs[0].layer.modes.items()} == {
        "none": 5.5,
        "full": 0.5,
    }
    assert parse_layer_file(format_layer_file(kept), place="again") == kept
    for memory, message in (
        ({"none": 8.5}, r"mlp_memory.none must be a part of the 8 MB that the layer keeps, got 8.5"),
        ({"comm": 1}, "comm"),
    ):
        wrong = {**in_memory, "halves": {**halves, "mlp_memory": memory}}
        with pytest.raises(InputError, match=message):
            parse_layer_file(json.dumps({"layers_description": [wrong]}), place="file")
    too_long = {**halves, "backward": {"mlp": 1.0, "mlp_weight": 1.5}}
    with pytest.raises(InputError, match="must be a part of the 1000000 ns of the MLP, got 1500000"):
        parse_layer_file(json.dumps({"layers_description": [{**body, "halves": too_long}]}), place="file")
    late = {**body, "halves": {"forward": {"mlp": 10.1}, "backward": {}}}
    with pytest.raises(InputError, match="must have halves of at most the 10000000 ns of all of it, got 10100000"):
        parse_layer_file(json.dumps({"layers_description": [late]}), place="file")
    with pytest.raises(InputError, match="experts"):
        parse_layer_file(
            json.dumps({"layers_description": [{**body, "halves": {"forward": {"experts": 1}, "backward": {}}}]}),
            place="file",
        )
