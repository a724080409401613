"""Options that say a change."""

from evenflow.cli.shared.training.option_names import changed_options, option
from evenflow.predict.limits.smallest_change import Setting
from evenflow.predict.training import Sharding


def changed(field: str, before: object, after: object) -> str:
    (found,) = changed_options([Setting(field=field, before=before, after=after)])
    return found


def test_every_setting_that_changes_has_its_option() -> None:
    assert changed("recompute", "none", "select") == "--recompute selective"
    assert changed("full_layers", None, 3) == "--recompute-layers 3"
    assert changed("full_layers", 3, None) == "no --recompute-layers"
    assert changed("sharding", Sharding.NOTHING, Sharding.PARAMETERS) == "--zero 3"
    assert changed("gradient_bytes", 4, 2) == "--gradient-dtype bf16"
    both = [Setting(field=field, before=4, after=2) for field in ("gradient_bytes", "reduced_bytes")]
    assert changed_options(both) == ("--gradient-dtype bf16",)
    assert changed("sequence_parallel", False, True) == "no --no-sequence-parallel"
    assert changed("layout", ((4, 4),), ()) == "no --layers-per-rank"
    assert changed("data", 4, 2) == "--data 2"


def test_names_of_fields_in_messages() -> None:
    assert [option(field) for field in ("sequence", "vocabulary", "global_batch")] == [
        "--seq", "--vocab", "--global-batch"
    ]  # fmt: skip
