"""Plans are run with torch, an extra: without it there is nothing to test here."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["*.py"]
