"""``torchrun … -m evenflow.run PLAN.json …``: an older name for ``-m evenflow run``, as one rank whoever starts it."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv[1:1] = ["run", "--as-rank"]
    runpy.run_module("evenflow", run_name="__main__", alter_sys=True)
