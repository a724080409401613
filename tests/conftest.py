"""Property tests have no deadline: how fast a machine is decides no test."""

from hypothesis import settings

settings.register_profile("evenflow", deadline=None)
settings.load_profile("evenflow")
