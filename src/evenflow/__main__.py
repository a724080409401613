"""The command ``evenflow`` as ``python -m evenflow``, which is also what torchrun starts."""

from evenflow.cli.main import main

if __name__ == "__main__":
    main()
