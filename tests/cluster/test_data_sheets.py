import re

import pytest

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.data_sheets import A100, ACCELERATORS, ALIASES, accelerator_named
from evenflow.cluster.generations import GENERATIONS, reach_assumed
from evenflow.errors import InputError

SHEETS = tuple(ACCELERATORS.values())
FROM_WIDE_TO_NARROW = ("float32", "tfloat32", "float16", "float8", "float4")


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.name)
class TestEverySheet:
    def test_names_a_publication(self, sheet: Accelerator) -> None:
        assert re.search(r"data sheet|arXiv:\d{4}\.\d{5}|torchtitan", sheet.source)

    def test_is_not_slower_with_narrower_numbers(self, sheet: Accelerator) -> None:
        rates = [sheet.rate(dtype) for dtype in FROM_WIDE_TO_NARROW]
        assert rates == sorted(rates)
        assert sheet.flops_per_s == sheet.rate("float32") == min(sheet.flops_per_s_of.values())

    def test_doubles_at_most_from_one_width_of_matrix_products_to_the_next(self, sheet: Accelerator) -> None:
        """A dense peak beside one with sparsity would be four times; NVFP4 of Blackwell Ultra is three times."""
        assert sheet.rate("float8") / sheet.rate("float16") == pytest.approx(2, rel=1e-3) or not _has_eight_bits(sheet)
        assert sheet.rate("float4") / sheet.rate("float8") in (pytest.approx(3), pytest.approx(2, rel=1e-3), 1)

    def test_reads_more_than_it_exchanges_and_exchanges_more_inside_a_node(self, sheet: Accelerator) -> None:
        assert sheet.memory_bytes_per_s > 4 * sheet.link_bytes_per_s > 8 * sheet.network_bytes_per_s > 0

    def test_reads_its_memory_in_a_fraction_of_a_second(self, sheet: Accelerator) -> None:
        assert 0.01 < sheet.memory_bytes / sheet.memory_bytes_per_s < 0.05

    def test_needs_tens_to_hundreds_of_operations_a_byte(self, sheet: Accelerator) -> None:
        """The ridge of the roofline; a rate in a wrong unit is a thousand times off."""
        assert 30 < sheet.rate("float16") / sheet.memory_bytes_per_s < 500

    def test_is_found_by_its_name_in_any_case(self, sheet: Accelerator) -> None:
        assert accelerator_named(sheet.name.upper()) is sheet


def _has_eight_bits(sheet: Accelerator) -> bool:
    return sheet.rate("float8") > sheet.rate("float16")


def test_eight_bits_came_with_hopper_and_four_with_blackwell() -> None:
    eight = {sheet.name for sheet in SHEETS if _has_eight_bits(sheet)}
    four = {sheet.name for sheet in SHEETS if sheet.rate("float4") > sheet.rate("float8")}
    assert four == {"b200", "b300", "gb200", "gb300", "mi355x"}
    assert {sheet.name for sheet in SHEETS} - eight == {
        "v100-16", "v100-32", "a100-40", "a100-80", "a800", "mi250x", "910b", "910b1", "910b2", "910b3", "910b4",
        "910c", "910c-package",
    }  # fmt: skip


def test_other_names_stand_for_data_sheets() -> None:
    assert {accelerator_named(alias).name for alias in ALIASES} <= set(ACCELERATORS)
    assert accelerator_named("A100") is ACCELERATORS["a100-80"]
    assert not set(ALIASES) & set(ACCELERATORS)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("NVIDIA H100", "h100"), ("nvidia_a100-40gb", "a100-40"), ("A100 80GB", "a100-80"), ("Ascend910B", "910b"),
        ("Huawei Ascend 910C", "910c"),
        ("Ascend 910B3", "910b3"),
        ("A3", "910c"), ("Ascend 910C-package", "910c-package"),
        ("AMD MI300X", "mi300x"), (" GB200 ", "gb200"), ("V100-32GB", "v100-32"),
    ],
)  # fmt: skip
def test_names_as_others_write_them(name: str, known: str) -> None:
    assert accelerator_named(name).name == known


@pytest.mark.parametrize("name", ["", " ", "gb", "nvidia", "\n", "x" * 10**6])
def test_names_of_nothing_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="accelerator must be one of v100-16"):
        accelerator_named(name)


def test_racks_are_one_domain() -> None:
    assert {name: sheet.link_devices for name, sheet in ACCELERATORS.items() if sheet.link_devices != 8} == {
        "gb200": 72, "gb300": 72, "910c": 768, "910c-package": 384
    }  # fmt: skip


def test_less_power_means_a_lower_clock() -> None:
    known = ACCELERATORS["h100"]
    slow = ACCELERATORS["h100-96"]
    shares = {slow.rate(dtype) / known.rate(dtype) for dtype in known.flops_per_s_of}
    assert all(share**3 == pytest.approx(500 / 700, rel=1e-2) for share in shares)


def test_the_default_is_an_a100() -> None:
    assert (A100.rate("bfloat16"), A100.rate("float32"), A100.memory_bytes_per_s) == (312e12, 19.5e12, 2039e9)


@pytest.mark.parametrize(("name", "near"), [("h1000", "h100"), ("v10", "v100"), ("MI300", "mi300x")])
def test_unknown_accelerators_are_named(name: str, near: str) -> None:
    with pytest.raises(InputError, match=rf"accelerator must be one of v100-16, .*did you mean '{near}'"):
        accelerator_named(name)


def test_what_is_nothing_like_a_name_is_refused() -> None:
    with pytest.raises(InputError, match=r"got 'xx'; name a file that describes yours"):
        accelerator_named("xx")


def test_generations_that_nothing_was_fitted_to_say_so() -> None:
    said = {name: reach_assumed(name) for name in GENERATIONS}
    assert {name for name, sentence in said.items() if sentence} == {"CDNA", "Ascend"}
    assert "never measured" in said["CDNA"]
    assert "65 % of the peak" in said["Ascend"]


def test_a_package_of_the_910c_is_two_of_its_dies() -> None:
    die, package = ACCELERATORS["910c"], ACCELERATORS["910c-package"]
    assert package.rate("bfloat16") == 2 * die.rate("bfloat16")
    assert package.memory_bytes == pytest.approx(2 * die.memory_bytes)
    assert package.link_devices == die.link_devices / 2
