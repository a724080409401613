"""What `--software` says, and what the options about single things do beside it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cli.shared.training.software_options import SoftwareOptions, written_out
from evenflow.cli.shared.training.software_text import said_software
from evenflow.errors import InputError
from evenflow.predict.overlaps import OVERLAPS
from evenflow.predict.training import Software
from evenflow.predict.vocabulary import WORDS, Aspect, short_name, word_about, words_about
from evenflow.targets.registry import all_targets

USUAL = tuple(name for name, is_usual in OVERLAPS.items() if is_usual)


def options(**said: object) -> SoftwareOptions:
    return SoftwareOptions(**{"overlap": USUAL, **said})  # type: ignore[arg-type]


def test_by_default_the_software_is_that_of_the_library() -> None:
    assert options().settled("bf16").software == Software()


@given(st.sampled_from(sorted(all_targets())), st.sampled_from(["bf16", "fp8", "fp16"]), st.booleans())
def test_a_framework_is_what_its_target_does(name: str, precision: str, has_version: bool) -> None:
    target = all_targets()[name]
    text = f"{name}-{target.versions[-1]}" if has_version else name.upper()
    settled = options(software=text).settled(precision)
    assert settled.software == target.software(precision)
    assert settled.said.name == f"{name}-{target.versions[-1]}"
    assumed = list(settled.left_open(precision, given=(), has_experts=True))
    assert len(assumed) == 1
    assert assumed[0].startswith(f"{settled.said.name} is taken to have ")


def test_words_and_options_hold_against_a_framework() -> None:
    settled = options(software="torchtitan-0.3, AsyncTP, rowwise", gradient_dtype="bf16", attention="fused")
    found = settled.settled("fp8", given=("gradient_dtype",)).software
    assert (found.overlaps_tensor, found.recipe, found.gradient_bytes) == (True, "rowwise", 2)
    assert found.attention_slowdown > 1, "not given, so that the framework decides"


def test_options_have_what_they_say_without_a_framework() -> None:
    found = options(software="deepep, no-overlap-pipeline", elementwise="eager").settled("bf16").software
    assert found == replace(Software(), sends_tokens_once=True, overlaps_pipeline=False, fused_elementwise=False)


@pytest.mark.parametrize(("text", "message"), [
    ("megatrn", "must be a word for what software does that is known, got 'megatrn'; did you mean 'megatron'?"),
    ("megatron torchtitan", "must name one framework, and names megatron-0.19 and torchtitan-0.3.0"),
    ("torchtitan-0.1", "must be a version of torchtitan from 0.2.2 on, got 'torchtitan-0.1'"),
    ("deepep,fsdp", "must not say what copies share out, got 'deepep,fsdp'; use --zero"),
    ("tp_pp_dp_mapping", "must not say where devices lie"),
    ("rowwise", "must not say rowwise for bf16, got 'rowwise'; add --precision fp8"),
    ("compile", "must not say compiled-elementwise beside --elementwise, which is about the same, got 'compile'"),
])  # fmt: skip
def test_what_cannot_be_said(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        options(software=text).settled("bf16", given=("elementwise",))
    assert str(error.value).startswith(f"--software {message}")


def test_what_says_several_things_holds_against_defaults_and_not_against_options() -> None:
    assert options(software="flex-dispatcher").settled("bf16").software.sends_tokens_once
    told = options(software="te", elementwise="eager").settled("bf16", given=("elementwise",)).software
    assert not told.fused_elementwise


def test_what_is_known_but_not_priced_is_told() -> None:
    settled = options(software="gmm, deepep").settled("bf16")
    assert list(settled.left_open("bf16", given=(), has_experts=True)) == [
        "--attention=fused", "--elementwise=fused", "--overlap=gradients,parameters,pipeline", "--gradient-dtype=fp32",
        "not priced: gmm",
    ]  # fmt: skip


def test_a_recipe_that_nobody_named_is_among_what_is_assumed() -> None:
    assert "--software=delayed" in list(options().settled("fp8").left_open("fp8", given=(), has_experts=False))


@pytest.mark.parametrize("aspect", [Aspect.DISPATCHER, Aspect.ATTENTION, Aspect.ELEMENTWISE, Aspect.GRADIENT_DTYPE])
def test_options_take_every_name_of_their_words(aspect: Aspect) -> None:
    for word in words_about(aspect):
        assert word_about(aspect, short_name(word).upper()) is word
        assert all(word_about(aspect, name) is word for name in (word.name, *word.synonyms))
    others = [word for word in WORDS if word.aspect is Aspect.RECIPE]
    assert all(word_about(aspect, word.name) is None for word in others)


def test_software_is_written_out_as_it_was_typed() -> None:
    typed = options(attention="portable", token_dispatcher="deepep", gradient_dtype="bf16-reduced", overlap=("tensor",))
    found = written_out(typed.settled("bf16").software)
    assert (found["attention"], found["token_dispatcher"]) == ("portable", "deepep")
    assert (found["gradient_dtype"], found["overlap"]) == ("bf16-reduced", "tensor")


def test_a_text_of_blanks_says_nothing() -> None:
    assert said_software("  ", "bf16").stated.words == ()
