"""The command ``evenflow`` as ``python -m evenflow``, which is also what torchrun starts."""

import os

try:
    from evenflow.interruption import watch
except KeyboardInterrupt:  # in the few milliseconds before `watch`
    os._exit(130)


def main() -> None:
    """Run the command; signals are heard from its first moment, before anything large is imported."""
    watch()
    from evenflow.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
