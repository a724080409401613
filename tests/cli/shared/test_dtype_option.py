import click
import pytest
from click.testing import CliRunner

from evenflow.cli.shared.dtype_option import DtypeName
from evenflow.cluster.dtypes import Dtype


@click.command()
@click.option("--dtype", type=DtypeName(Dtype.BFLOAT16, Dtype.FLOAT32), default="bf16")
def command(dtype: Dtype) -> None:
    click.echo(repr(dtype))


@pytest.mark.parametrize("name", ["bf16", "bfloat16", "BF16"])
def test_both_spellings_are_one_format(name):
    result = CliRunner().invoke(command, ["--dtype", name])
    assert result.stdout.strip() == repr(Dtype.BFLOAT16)


def test_the_first_is_the_default():
    assert CliRunner().invoke(command, []).stdout.strip() == repr(Dtype.BFLOAT16)


@pytest.mark.parametrize("name", ["fp64", "int8", ""])
def test_others_are_refused_with_those_that_are_offered(name):
    result = CliRunner().invoke(command, ["--dtype", name])
    assert result.exit_code == 2
    assert "bf16 (bfloat16), fp32 (float32)" in result.stderr
