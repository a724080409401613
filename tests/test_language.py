"""One sentence in two languages: which is spoken, what becomes of values, and what programs read."""

import pytest

from evenflow.errors import InputError
from evenflow.export.results.json_text import format_object
from evenflow.language import (
    CHINESE,
    ENGLISH,
    _,
    _n,
    english,
    joined,
    language_of,
    looked_up,
    saying_stage,
    speaking,
    spoken,
)


def test_a_message_with_braces_needs_no_values() -> None:
    assert _("recompute_modules={...}") == "recompute_modules={...}"


def test_values_are_never_read_as_messages() -> None:
    assert _("{place} {rule}", place="{rule}", rule="{0.__class__}") == "{rule} {0.__class__}"


def test_a_library_call_speaks_english() -> None:
    assert spoken() == ENGLISH
    assert _("must be above zero") == "must be above zero"


def test_languages_are_spoken_one_within_the_other() -> None:
    with speaking(CHINESE):
        assert _("must be above zero") == "必须大于零"
        with speaking(ENGLISH):
            assert _("must be above zero") == "must be above zero"
        assert spoken() == CHINESE
    assert spoken() == ENGLISH


def test_a_message_without_translation_is_english() -> None:
    with speaking(CHINESE):
        assert looked_up("no catalogue has this") == "no catalogue has this"
        assert looked_up("") == ""  # the key of the catalogue's own head


def test_plurals() -> None:
    assert [_n("{count} cell", "{count} cells", count=count) for count in (1, 2)] == ["1 cell", "2 cells"]


def test_a_composed_error_knows_its_english() -> None:
    with speaking(CHINESE):
        error = InputError(value=0, rule=_("must be above zero"), place="--memory")
    assert str(error) == "--memory 必须大于零，实际为 0"
    assert english(error.args[0]) == "--memory must be above zero, got 0"


def test_joined_sentences_know_their_english() -> None:
    with speaking(CHINESE):
        text = joined([_("must be above zero"), "--memory", _("leave it out")])
    assert text == "必须大于零；--memory；请去掉它"
    assert english(text) == "must be above zero; --memory; leave it out"


def test_json_is_in_english() -> None:
    with speaking(CHINESE):
        fields = {"reason": _("must be above zero"), "all": [{"rule": _("must be above zero")}, 1]}
        text = format_object(fields)
    assert text == format_object(fields)  # whatever is spoken by now
    assert text == '{\n  "reason": "must be above zero",\n  "all": [{"rule": "must be above zero"}, 1]\n}\n'


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, ENGLISH),
        ({"LANG": "zh_CN.UTF-8"}, CHINESE),
        ({"LANG": "zh_TW"}, CHINESE),
        ({"LANG": "de_DE.UTF-8"}, ENGLISH),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "en_US.UTF-8"}, ENGLISH),
        ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "C"}, ENGLISH),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "", "LC_MESSAGES": "zh_CN"}, CHINESE),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "zh_CN:en"}, CHINESE),
        ({"LANG": "de_DE.UTF-8", "LANGUAGE": "de:zh"}, CHINESE),
        ({"LANG": "C.UTF-8", "LANGUAGE": "zh_CN"}, ENGLISH),
        ({"LANG": "zh_CN.UTF-8", "EVENFLOW_LANG": "en"}, ENGLISH),
        ({"LANG": "C", "EVENFLOW_LANG": "zh"}, CHINESE),
    ],
)
def test_the_environment_chooses_the_language(environment: dict[str, str], language: str) -> None:
    assert language_of(environment) == language


def test_ranks_are_stages_in_the_words_of_another_command() -> None:
    with saying_stage():
        assert _("the number of ranks") == "the number of stages"
        assert _n("1 rank", "{count} ranks", count=2) == "2 stages"
        assert _("must have {num_ranks} values for {option}", num_ranks=2, option="--ranks") == (
            "must have 2 values for --ranks"
        )
        assert _("frankly --ranks-per-stage {rank}", rank="rank") == "frankly --ranks-per-stage rank"
        with speaking(CHINESE):
            assert _("the number of ranks") == "阶段数"
            assert _n("1 rank", "{count} ranks", count=2) == "2 个阶段"
    assert _("the number of ranks") == "the number of ranks"
