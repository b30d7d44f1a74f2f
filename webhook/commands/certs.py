"""The command `gpu-policy certs`: makes a CA and a serving certificate."""

from pathlib import Path

import click

from webhook.commands.inputs import echo, fail
from webhook.commands.options import PATH, examples


@click.command(epilog=examples("certs /tmp/tls --name localhost"))
@click.argument("directory", type=PATH)
@click.option(
    "--name",
    "names",
    envvar="GPU_POLICY_CERTS_NAME",
    multiple=True,
    required=True,
    help="DNS name or IP address of the server; repeatable.",
)
def certs(directory: Path, names: tuple[str, ...]) -> None:
    """Make a CA and a serving certificate in DIRECTORY.

    Writes ca.crt, ca.key, tls.crt and tls.key. Valid certificates in DIRECTORY are kept.

    Exit status: 0 the certificate is valid, 2 it cannot be made.
    """
    from certs.authority import CertificateError
    from certs.files import ensure_files

    try:
        echo(ensure_files(directory, names))
    except CertificateError as error:
        fail(str(error))
