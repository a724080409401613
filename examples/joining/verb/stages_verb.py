"""A verb of your own: `evenflow stages PLAN.json` prints the layers of every stage."""

import click

import evenflow


@click.command()
@click.argument("plan_file", metavar="PLAN.json")
def stages(plan_file: str) -> int:
    """Layers of every stage of a plan, in the order of the model.

    Exit status: 0 printed, 2 bad input.
    """
    plan = evenflow.read_plan_file(plan_file)
    for chunk, layers in enumerate(plan.layers):
        for rank, count in enumerate(layers):
            click.echo(f"stage {chunk * plan.num_ranks + rank}: {count} layers")
    return 0
