"""What a shell makes of a written array of arguments."""

import shlex
import subprocess

START, END = "PIPELINE_ARGS=(\n", ")\n"


def shell_words(text: str) -> list[str]:
    """Return the words of the array, as Python's reader of shell syntax splits them."""
    assert text.startswith(START)
    assert text.endswith(END)
    return shlex.split(text.removeprefix(START).removesuffix(END))


def bash_words(text: str) -> list[str]:
    """Return the words of the array, as bash hands them to a program."""
    script = text + "printf '%s\\n' \"${PIPELINE_ARGS[@]}\""
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.splitlines()
