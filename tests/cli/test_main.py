import pytest

from evenflow.cli.main import VERBS, Verbs, main


def test_help_lists_every_verb(evenflow):
    result = evenflow("--help")
    assert result.exit_code == 0
    for verb, sentence in VERBS.items():
        assert verb in result.stdout
        assert sentence.split()[0] in result.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_has_an_example(evenflow, verb):
    result = evenflow(verb, "--help")
    assert result.exit_code == 0
    assert f"evenflow {verb} " in result.stdout


@pytest.mark.parametrize(("tried", "meant"), [((), ("--help",)), (("help",), ("--help",))])
def test_without_a_verb_it_shows_what_it_can_do(evenflow, tried, meant):
    result = evenflow(*tried)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == evenflow(*meant).stdout


def test_words_that_people_try_ask_for_help_and_version(evenflow):
    assert evenflow("help", "tune").stdout == evenflow("tune", "--help").stdout
    assert evenflow("version").stdout == evenflow("--version").stdout
    assert evenflow("help", "nothing-like-it").exit_code == 2


@pytest.mark.parametrize(("typed", "near"), [("plann", "plan"), ("tuen", "tune"), ("read_trace", "read-trace")])
def test_a_misspelt_verb_gets_the_nearest(evenflow, typed, near):
    result = evenflow(typed, "layers.json")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: No such command '{typed}'; did you mean {near}?; see: ")


@pytest.mark.parametrize("arguments", [("pln",), ("qwertz",), ("--wrong",)])
def test_a_wrong_command_line_is_one_message(evenflow, arguments):
    result = evenflow(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert "--help" in result.stderr


def test_the_group_is_what_the_console_script_calls():
    assert isinstance(main, Verbs)


@pytest.mark.parametrize("verb", VERBS)
def test_h_is_help(evenflow, verb):
    assert evenflow(verb, "-h").stdout == evenflow(verb, "--help").stdout
