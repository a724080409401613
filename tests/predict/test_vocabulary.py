"""The table of what software does: one meaning for every word, and a way from software to words and back."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.predict.recipes import OF_FORMATS, RECIPES
from evenflow.predict.stated_software import SETTINGS, stated_software
from evenflow.predict.training import Sharding, Software
from evenflow.predict.vocabulary import WORDS, Aspect, known_words, normal, spellings, words_of


def test_every_spelling_has_one_meaning() -> None:
    meanings = {(normal(name), word.name) for word in WORDS for name in (word.name, *word.synonyms)}
    assert len(meanings) == len(known_words())


def test_words_change_fields_of_software() -> None:
    names = {field.name for field in fields(Software)}
    assert all(set(word.changes) <= names for word in WORDS)
    for word in WORDS:
        replace(Software(), **word.changes)


def test_settings_have_known_words() -> None:
    assert {normal(word) for choices in SETTINGS.values() for word in choices.values()} <= set(known_words())


@given(st.lists(st.sampled_from([word for word in WORDS if word.changes and word.aspect is not Aspect.BUNDLE])))
def test_what_is_said_is_what_the_software_is_said_to_do(words) -> None:  # type: ignore[no-untyped-def]
    software = stated_software(", ".join(word.name for word in words), place="here").applied(Software())
    said = {word.aspect: word for word in words}  # the last of each aspect
    found = {word.aspect: word for word in words_of(software)}
    for aspect, word in said.items():
        assert found[aspect].changes.items() >= word.changes.items()


@given(st.sampled_from(spellings()), st.sampled_from([str.upper, str.lower, str.title]), st.sampled_from("-_ "))
def test_case_and_joints_do_not_matter(spelling, case, joint) -> None:  # type: ignore[no-untyped-def]
    written = case(spelling.replace("-", joint))
    assert stated_software(written, place="here").words == stated_software(spelling, place="here").words


@pytest.mark.parametrize(("text", "field", "value"), [
    ("DeepEP", "sends_tokens_once", True), ("TE + DeepEP + FlexAttn", "sends_tokens_once", True),
    ("AsyncTP", "overlaps_tensor", True), ("2D + AsyncTP", "overlaps_tensor", True),
    ("enable_async_tensor_parallel=True", "overlaps_tensor", True), ("Vanilla TP", "overlaps_tensor", False),
    ("TP_COMM_OVERLAP=True", "overlaps_tensor", True), ("enable_cuda_graph=True", "captured_graphs", True),
    ("FSDP 8, CP 1", "overlaps_tensor", False), ("float8 rowwise", "recipe", "rowwise"),
    ("FSDP + torch.compile + Float8 tensorwise", "recipe", "tensorwise"),
    ("fp8_recipe='blockwise'", "recipe", "blockwise"),
    ("torch.compile float8 all-gather", "gathered_bytes", 1),
    ("overlap_p2p_comm=True (conf default)", "gathered_bytes", 2),
    ("ddp.overlap_grad_reduce=False", "overlaps_gradients", False), ("flex_attention", "attention_slowdown", 1.9),
    ("flash-attn te", "attention_slowdown", 1.0), ("flex te", "attention_slowdown", 1.9),
    ("model.moe_token_dispatcher_type='flex'", "sends_tokens_once", True),
    ("a=Config(tp_comm_overlap=True, tp_comm_overlap_cfg=x) b.tp_comm_overlap=False", "overlaps_tensor", False),
])  # fmt: skip
def test_texts_of_published_runs(text: str, field: str, value: object) -> None:
    usual = replace(Software(), attention_slowdown=1.9)
    assert getattr(stated_software(text, place="here").applied(usual), field) == value


@pytest.mark.parametrize(("text", "message"), [
    ("asyncpt", "must be a word for what software does that is known, got 'asyncpt'; did you mean 'async-tp'?"),
    ("ovelap_grad_reduce=True", "got 'ovelap_grad_reduce'; did you mean 'overlap_grad_reduce'?"),
    ("fp8_recipe=row", "must be a value of fp8_recipe that is known, got 'row'; docs/software.md lists all"),
    ("quantum", "got 'quantum'; docs/software.md lists all"),
])  # fmt: skip
def test_other_words_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        stated_software(f"deepep {text}", place="here")
    assert str(error.value).startswith("here must")
    assert message in str(error.value)


def test_a_text_that_a_table_cut_off_is_read_up_to_its_last_word() -> None:
    text = ("deepep " * 60)[:391] + " overlap_"
    assert len(text) == 400
    assert stated_software(text, place="here").words[0].name == "deepep"
    with pytest.raises(InputError):
        stated_software(text[1:], place="here")


def test_what_copies_share_out_and_where_they_lie() -> None:
    stated = stated_software("FSDP2, TP_PP_DP_MAPPING=True", place="here")
    assert stated.sharding is Sharding.PARAMETERS
    assert stated.data_outermost
    assert stated_software("gmm, deepep", place="here").unpriced == ("gmm",)


def test_every_recipe_is_of_one_precision() -> None:
    assert sorted(name for names in OF_FORMATS.values() for name in names) == sorted(RECIPES)
