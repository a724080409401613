"""The page of accelerators says what the data sheets and the reader of files say."""

import re

import pytest
from ruamel.yaml import YAML

from evenflow.cluster.data_sheets import ACCELERATORS, accelerator_named
from evenflow.cluster.reached import PARAMETERS
from evenflow.errors import InputError
from evenflow.joining import Registry
from evenflow.profiles.accelerator_file import RATES, parse_accelerator_file
from scripts import make_accelerator_table
from tests.paths import ROOT
from tests.test_documentation import heads_of_items

PAGE = (ROOT / "docs" / "accelerators.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def listed(section: str) -> list[str]:
    """The names that the list of a section explains."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [head.strip("`") for head in heads_of_items(text)]


def test_the_page_has_the_table_of_the_data() -> None:
    assert make_accelerator_table.page() == PAGE, "make accelerator-table"


def test_the_page_is_the_same_beside_packages_that_bring_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Registry, "_others", lambda self: {"joined": ACCELERATORS.own["h100"]})
    assert make_accelerator_table.page() == PAGE


def test_every_accelerator_has_a_row_with_all_of_its_names() -> None:
    rows = re.findall(r"^\| (`.+?`) \|", make_accelerator_table.table(), re.MULTILINE)
    names = [re.findall("`(.+?)`", row) for row in rows]
    assert [row[0] for row in names] == list(ACCELERATORS.own)
    assert all(accelerator_named(name).name == row[0] for row in names for name in row)


def test_the_example_reads_as_the_page_says() -> None:
    found = parse_accelerator_file(EXAMPLE, place="hall.yaml")
    known = accelerator_named("h100")
    assert (found.name, found.rate("bfloat16"), found.rate("float8")) == ("hall-3", 800e12, 1.6e15)
    assert (found.rate("float32"), found.source) == (known.rate("float32"), known.source)
    assert (found.memory_bytes, found.memory_bytes_per_s) == (94 * 2**30, 3900e9)
    assert (found.link_bytes_per_s, found.link_devices, found.network_bytes_per_s) == (300e9, 4, 12.5e9)
    assert (found.reached.product_share, found.reached.latency_ns) == (0.71, 12_000)


def test_the_list_of_fields_has_those_that_are_read() -> None:
    fields = listed("One of your own")
    for field in fields:
        with pytest.raises(InputError) as refused:
            parse_accelerator_file(f"base: h100\n{field}: true\n", place="x.yaml")
        assert "unknown field" not in str(refused.value)
    with pytest.raises(InputError, match="unknown field") as caught:
        parse_accelerator_file("nonsense-of-a-field: 1\n", place="x.yaml")
    named = re.findall(r"[a-z_]+", str(caught.value).split("the fields are ")[1])
    assert sorted(fields) == sorted(set(named) - {"written_by"})


def test_an_example_without_its_base_lacks_nothing_that_the_page_asks_for() -> None:
    fields = YAML(typ="safe").load(EXAMPLE)
    del fields["base"]
    lines = "".join(f"{key}: {value}\n" for key, value in fields.items()).replace("'", "")
    assert parse_accelerator_file(lines, place="hall.yaml").link_devices == 4


def test_every_rate_and_parameter_is_explained() -> None:
    assert all(f"`{rate}`" in PAGE for rate in RATES)
    assert listed("What is reached") == list(PARAMETERS)
