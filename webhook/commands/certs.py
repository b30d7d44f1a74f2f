"""The command `gpu-policy certs`: makes a CA and a serving certificate."""

from pathlib import Path

import click

from webhook.commands.inputs import echo, fail
from webhook.commands.options import Options, argument, option, takes


class CertsOptions(Options):
    directory: Path = argument()
    names: tuple[str, ...] = option(
        "DNS name or IP address of the server; repeatable.",
        None,
        "--name",
        envvar="GPU_POLICY_CERTS_NAME",
        required=True,
    )


@click.command()
@takes(CertsOptions)
def certs(asked: CertsOptions) -> None:
    """Make a CA and a serving certificate in DIRECTORY.

    Writes ca.crt, ca.key, tls.crt and tls.key. Valid certificates in DIRECTORY are kept.

    Exit status: 0 the certificate is valid, 2 it cannot be made.
    """
    from certs.authority import CertificateError
    from certs.files import ensure_files

    try:
        echo(ensure_files(asked.directory, asked.names))
    except CertificateError as error:
        fail(str(error))
