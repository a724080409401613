"""The verb ``evenflow verify``."""

from dataclasses import dataclass, field
from pathlib import Path

import click

from evenflow.cli.exit_status import FAILED
from evenflow.cli.shared import options
from evenflow.cli.shared.files.input_files import read_whole
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.cli.text.certificate_text import proven_text, refused_text
from evenflow.export.results.certificate_fields import certificate_fields
from evenflow.language import _
from evenflow.verify import CertificateError, read_certificate
from evenflow.verify import verify as check


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """What ``evenflow verify`` is asked for beside its file: an option for each field."""

    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)


@click.command()
@click.argument("certificate", metavar="CERTIFICATE.json")
@options_as("request", VerifyOptions)
def verify(certificate: str, request: VerifyOptions) -> int:
    """Check what evenflow plan --certificate wrote: the plan, what it takes and holds, and that no plan is shorter.

    The check knows nothing of the solver. It counts everything anew, in whole numbers, from the costs of the layers and
    the order of work in CERTIFICATE.json, so it says nothing of whether these are the costs of your model. - reads
    standard input.

    Exit status: 0 proven, 1 not proven, 2 bad input.

    \b
    Examples:
      evenflow plan examples/llama2_70b.json --ranks 8 --microbatches 32 --memory 56GB --certificate certificate.json
      evenflow verify certificate.json
    """
    content, place = read_whole(certificate)
    claimed = read_certificate(content.encode(), place=place)
    outputs = Outputs(
        paths_of(request),
        inputs={_("the input file {file}", file=certificate): Path(certificate)},
        overwrite=request.overwrite,
    )
    wrong = ""
    try:
        check(claimed)
    except CertificateError as error:
        wrong = str(error)
    outputs.write_json(lambda: certificate_fields(claimed, wrong=wrong))
    if wrong:
        outputs.say(refused_text(claimed, wrong), err=True)
        return FAILED
    outputs.say(proven_text(claimed))
    return 0
