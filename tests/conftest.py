"""Property tests have no deadline: how fast a machine is decides no test. Commands speak English in every locale."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("evenflow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("evenflow")

os.environ["EVENFLOW_LANG"] = "en"

collect_ignore_glob = ["*conftest.py"]
"""Files of this name hold fixtures; looking for doctests in two of them clashes."""
