"""The command ``evenflow`` as ``python -m evenflow``, which is also what torchrun starts."""

from evenflow.interruption import watch


def main() -> None:
    """Run the command; signals are heard from its first moment, before anything large is imported."""
    watch()
    from evenflow.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
