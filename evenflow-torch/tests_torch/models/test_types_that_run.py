"""The page of models names the types that run from a configuration."""

from scripts.make_architecture_page import RUNS

from evenflow_torch.models.decoder_row import MODEL_TYPES
from evenflow_torch.models.families.table import FAMILIES


def test_the_page_names_the_types_that_run():
    assert sorted(RUNS) == sorted(MODEL_TYPES | set(FAMILIES))
