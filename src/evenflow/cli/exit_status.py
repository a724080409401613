"""Exit statuses of every command, and the message that an error ends with."""

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from evenflow.errors import EvenflowError, Interrupted, MismatchError, RunError
from evenflow.language import _

if TYPE_CHECKING:  # `evenflow --help` needs this file and not the solver
    from evenflow.solve import Status

FAILED = 1
BAD_INPUT = 2
INFEASIBLE = 3
TIMEOUT = 4
MISMATCH = 5
INTERRUPTED = 130
BROKEN_PIPE = 141


def status_code(status: "Status") -> int:
    """Return the exit status that says how a solve ended: 0 with a plan."""
    return {"infeasible": INFEASIBLE, "timeout": TIMEOUT}.get(status.value, 0)


def exit_status(work: Callable[[], object]) -> int:
    """Run `work` and return an exit status; an error becomes one message on stderr."""
    try:
        for stream in (sys.stdout, sys.stderr):  # a sign that the terminal's encoding lacks is no reason to fail
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")
        result = work()
        sys.stdout.flush()
    except click.ClickException as error:
        return _refuse(usage_message(error))
    except (KeyboardInterrupt, click.Abort, Interrupted) as error:
        reason = str(error) if isinstance(error, Interrupted) else ""
        click.echo(reason or _("interrupted: there was no plan yet"), err=True)
        return INTERRUPTED
    except (RunError, MismatchError) as error:
        click.echo(_("error: {message}", message=error), err=True)
        return FAILED if isinstance(error, RunError) else MISMATCH
    except EvenflowError as error:
        return _refuse(str(error))
    except BrokenPipeError:
        # The reader has gone; without this the interpreter complains when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except SystemExit as end:
        if end.code == 1:  # click meets a broken pipe itself, makes stdout silent and ends so
            return BROKEN_PIPE
        raise
    return result if isinstance(result, int) else 0


def usage_message(error: click.ClickException) -> str:
    """Return what click found wrong with the command line, in the style of `InputError`."""
    message = error.format_message().rstrip(".。")
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    return _("{message}; see: {program} --help", message=message, program=context.command_path)


def _refuse(message: str) -> int:
    click.echo(_("error: {message}", message=message), err=True)
    return BAD_INPUT
