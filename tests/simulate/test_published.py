"""The simulator against bubble rates that others published for their schedules. [ZeroBubble, arXiv:2401.10241]"""

import pytest
from benchmarks.zero_bubble import families, settings

SETTINGS = {f"{each.model}-{each.num_microbatches}": each for each in settings()}


@pytest.mark.parametrize("name", [name for name, each in SETTINGS.items() if each.num_microbatches <= 64])
def test_bubble_rates_are_those_published(name):
    rates = {each.schedule: each for each in families(SETTINGS[name])}
    for schedule in ("1f1b", "zb-h1", "zb-h2"):
        assert round(rates[schedule].rate, 4) == rates[schedule].published
    for schedule in ("1f1b", "zb-h1"):
        assert rates[schedule].peak_activations == SETTINGS[name].num_ranks
