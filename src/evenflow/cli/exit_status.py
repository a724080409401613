"""Exit statuses of every command, and the message that an error ends with."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import click

from evenflow.cli.missing import missing_message
from evenflow.cli.standard_streams import check_standard_output, checked_streams, silence
from evenflow.errors import EvenflowError, FileError, Interrupted, MismatchError, RunError, cut
from evenflow.interruption import INTERRUPTED, exit_with, was_interrupted
from evenflow.language import _

if TYPE_CHECKING:  # `evenflow --help` needs this file and not the solver
    from evenflow.solve import Status

FAILED = 1
BAD_INPUT = 2
INFEASIBLE = 3
TIMEOUT = 4
MISMATCH = 5
BROKEN_PIPE = 141

_LONGEST = 3000
"""Most characters of a message about bad input, whatever the input holds."""


def status_code(status: "Status") -> int:
    """Return the exit status that says how a solve ended: 0 with a plan."""
    return {"infeasible": INFEASIBLE, "timeout": TIMEOUT}.get(status.value, 0)


def run_command(work: Callable[[], object]) -> NoReturn:
    """Run `work` and end the process with its exit status, or with that of the signal which ended the work early."""
    exit_with(exit_status(work), replaceable=(0, INFEASIBLE, TIMEOUT, INTERRUPTED))


def exit_status(work: Callable[[], object]) -> int:
    """Run `work` and return an exit status; an error becomes one message on stderr."""
    with checked_streams():
        try:
            check_standard_output()
            for stream in (sys.stdout, sys.stderr):  # a sign that the terminal's encoding lacks is no reason to fail
                if hasattr(stream, "reconfigure"):
                    stream.reconfigure(errors="replace")
            result = work()
            sys.stdout.flush()
        except click.ClickException as error:
            return _refuse(usage_message(error))
        except (KeyboardInterrupt, click.Abort, Interrupted) as error:
            reason = str(error) if isinstance(error, Interrupted) else ""
            click.echo(reason or _("interrupted: there is no result yet"), err=True)
            return INTERRUPTED
        except (RunError, MismatchError) as error:
            click.echo(_error_text(str(error)), err=True)
            return FAILED if isinstance(error, RunError) else MISMATCH
        except EvenflowError as error:
            return _refuse(str(error))
        except BrokenPipeError:
            silence(sys.stdout)  # without this the interpreter complains when it flushes at exit
            return BROKEN_PIPE
        except OSError as error:
            if error.filename is None:
                raise
            return _refuse(str(FileError.from_os(error.filename, error)))  # a path that no system can have
        except SystemExit as end:
            if end.code == 1:  # click meets a broken pipe itself, makes stdout silent and ends so
                return BROKEN_PIPE
            raise
        except Exception:
            if not was_interrupted():
                raise
            return INTERRUPTED  # the signal has taken away what the work needs
        if was_interrupted():
            click.echo(_("interrupted: this is the best so far"), err=True)
    return result if isinstance(result, int) else 0


def usage_message(error: click.ClickException) -> str:
    """Return what click found wrong with the command line, in the style of `InputError`."""
    several = missing_message(error) if isinstance(error, click.MissingParameter) else None
    message = several or " ".join(error.format_message().split()).rstrip(".。")
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    return _("{message}; see: {program} --help", message=message, program=context.command_path)


def _refuse(message: str) -> int:
    click.echo(_error_text(cut(message, _LONGEST)), err=True)
    return BAD_INPUT


def _error_text(message: str) -> str:
    """Return what is said of an error, whose further lines (a grid, the end of a log) are evenflow's own."""
    first, line_break, rest = message.partition("\n")
    return _("error: {message}", message=first) + line_break + rest
