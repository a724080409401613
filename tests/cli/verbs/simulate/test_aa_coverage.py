"""`evenflow simulate --aa-check`: what is done again in which step, and what that covers."""

import json

OPTIONS = ("--microbatches", 6, "--layers", "1,1,1,1", "--aa-check")


def test_every_check_of_a_rotation_is_written_and_its_length_said(folder, evenflow):
    result = evenflow("simulate", "tiny.json", *OPTIONS, "--json", "p.json")
    assert result.exit_code == 0, result.stderr
    told = json.loads((folder / "p.json").read_text())["aa_check"]
    assert told["steps"] == max(rank["steps"] for rank in told["ranks"]) > 0
    for rank in told["ranks"]:
        assert rank["at_least_steps"] <= rank["steps"] == len(rank["rotation"])
        assert rank["kind_steps"] <= rank["steps"]
    last = told["ranks"][3]
    checked = {(check["stage"], check["direction"], check["microbatch"]) for turn in last["rotation"] for check in turn}
    assert len(checked) == 12, "all microbatches of the last rank, whose one gap is behind the last of them"
    assert last["never"] == []
    assert f"is checked within {told['steps']} steps" in result.stdout
    assert "wrong result an hour" in result.stdout
    assert "comes out alike both times" in result.stdout


def test_a_memory_limit_leaves_less_to_check(folder, evenflow):
    def never(*options: str) -> int:
        assert evenflow("simulate", "tiny.json", *OPTIONS, *options, "--json", "p.json", "--overwrite").exit_code == 0
        ranks = json.loads((folder / "p.json").read_text())
        peak = str(max(ranks["peak_memory_mb"]))
        return peak, sum(one["microbatches"] for rank in ranks["aa_check"]["ranks"] for one in rank["never"])

    peak, free = never()
    _, bound = never("--memory", f"{peak}MB")
    assert bound >= free


def test_what_does_not_train_whole_sequences_is_refused(folder, evenflow):
    result = evenflow("simulate", "tiny.json", *OPTIONS, "--sequence-splits", 2)
    assert result.exit_code == 2
    assert "must train on whole sequences" in result.stderr
