"""What a command line lacks is said at once."""

import pytest


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("tune",), "Missing '--gpus', '--global-batch', '--seq'; see: "),
        (("tune", "--gpus", 8, "--seq", 128), "Missing option '--global-batch'; see: "),
        (("export",), "Missing 'PLAN.json', '--to'; see: "),
        (("export", "plan.json"), "Missing option '--to'; see: "),
        (("plan", "tiny.json"), "Missing options '--ranks', '--microbatches', or a plan file that says them; see: "),
        (("plan", "tiny.json", "--ranks", 2), "Missing option '--microbatches', or a plan file that says it; see: "),
        (
            ("compare", "tiny.json"),
            "Missing options '--ranks', '--microbatches', or --baseline or a plan file that says them; see: ",
        ),
        (("simulate", "tiny.json"), "Missing options '--ranks', '--microbatches', or a plan file that says them; see:"),
        (("simulate", "tiny.json", "--layers", "2,2"), "Missing option '--microbatches', or a plan file that says it"),
    ],
)
def test_all_that_is_missing_is_said_at_once(evenflow, folder, words, message):
    result = evenflow(*words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
