"""``torchrun … -m evenflow.run PLAN.json …``: the command ``evenflow run``, of which this process is one rank."""

from evenflow.cli.verbs.run import run_rank

if __name__ == "__main__":
    run_rank()
