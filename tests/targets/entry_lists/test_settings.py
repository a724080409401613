"""Settings of a file, whatever it is."""

import pytest

from evenflow.errors import InputError
from evenflow.ranges import RANKS
from evenflow.targets.entry_lists.settings import even_counts, read_settings


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.yml", '{\n  "pipe-parallel-size": 4,\n}\n'),
        ("a.yml", "pipe_parallel_size: 4\n"),
        ("a.json", '{"pipe-parallel-size": 4}'),
        ("A.JSON", '{"configs": {"pipe_parallel_size": 4}}'),
    ],
)
def test_names_have_underscores_and_sections_count_as_the_top(file: str, text: str) -> None:
    settings = read_settings(text, file, sections=("configs",))
    assert settings.size(("other", "pipe_parallel_size"), 7, RANKS, option="--ranks") == 4


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("a.yml", "pp-size: 4\npp_size: 4\n", "a.yml, line 2: pp_size is given twice; keep one of the two"),
        ("a.json", '{"pp_size": 1, "configs": {"pp_size": 1}}', "a.json: configs.pp_size is given twice"),
        ("a.json", '{"pp_size": 1', "cannot read a.json: not JSON at line 1"),
        ("a.yml", "- 4\n", "a.yml must be an object of named fields, got 'list'"),
        ("a.json", '{"configs": 4}', "a.json: configs must be an object of named fields, got 'int'"),
    ],
)
def test_what_is_no_object_or_there_twice_is_refused(file: str, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_settings(text, file, sections=("configs",))
    assert message in str(caught.value)


def test_a_size_is_in_the_file_or_given() -> None:
    settings = read_settings("size: 4\nlarge: 100000000\n", "a.yml")
    assert settings.size(("size",), 7, RANKS, option="--ranks") == 4
    assert settings.size(("none",), 7, RANKS, option="--ranks") == 7
    for name, given, message in (
        ("none", None, "a.yml must have the field 'none'; add it, or give --ranks"),
        ("none", 0, "--ranks must be an integer from 1 to 10,000, got 0"),
        ("large", 7, "a.yml, line 2: large must be an integer from 1 to 10,000, got 100000000"),
    ):
        with pytest.raises(InputError) as caught:
            settings.size((name,), given, RANKS, option="--ranks")
        assert str(caught.value) == message


def test_what_does_not_divide_goes_to_the_first_or_the_last() -> None:
    for count in range(12):
        for parts in range(1, 6):
            counts = even_counts(count, parts)
            assert sum(counts) == count
            assert max(counts) - min(counts) <= 1
            assert counts == sorted(counts, reverse=True) == even_counts(count, parts, larger_last=True)[::-1]
