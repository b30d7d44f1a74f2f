"""The command `gpu-policy serve`: runs one replica.

Imports stand inside the functions, so that the supervising process does not import what only its worker uses.
"""

from functools import partial
from typing import Any

import click

from webhook.commands.inputs import fail
from webhook.commands.options import INVENTORY, KUBECONFIG, PATH, POLICIES
from webhook.commands.starting import ServeSettings, check, check_source_of_facts, prepare, replica, run_apart


@click.command()
@POLICIES
@INVENTORY
@KUBECONFIG
@click.option("--cert", type=PATH, help="Serving certificate, PEM.")
@click.option("--key", type=PATH, help="Private key of the serving certificate, PEM.")
@click.option(
    "--certificate-secret",
    metavar="NAMESPACE/NAME",
    help="Secret in which the replicas make and renew certificates together, instead of --cert and --key.",
)
@click.option(
    "--certificate-dir", type=PATH, help="Directory to which this replica writes the certificate and key of the Secret."
)
@click.option(
    "--certificate-name",
    "certificate_names",
    envvar="GPU_POLICY_SERVE_CERTIFICATE_NAME",
    multiple=True,
    help="DNS name or IP address that the API server calls; certificates in the Secret have it. Repeatable.",
)
@click.option(
    "--certificate-settle-seconds",
    type=click.FloatRange(0, 3600),
    default=60.0,
    help="Seconds for which a new CA is in every caBundle before it issues certificates.",
)
@click.option(
    "--registration",
    type=PATH,
    help="File with the webhook configurations as they were installed. Replicas report if the configurations in the "
    "cluster differ from the file. With --certificate-secret they also keep the caBundles up to date.",
)
@click.option(
    "--registries",
    type=PATH,
    help="File that lists the registries in which images are looked up, in the background. No others are queried.",
)
@click.option(
    "--registry-credentials",
    type=PATH,
    help="File with credentials for the registries, in the format of Docker's config.json. Read again when it changes.",
)
@click.option(
    "--image-results", metavar="NAMESPACE/NAME", help="ConfigMap in which the replicas share the results of look-ups."
)
@click.option(
    "--quota-ledgers",
    metavar="NAMESPACE",
    help="Namespace in which the replicas keep the ledgers of quotas. Without it, pods cannot be counted. With "
    "--inventory, ledgers are kept in memory.",
)
@click.option(
    "--quota-in-flight-seconds",
    type=click.FloatRange(5, 3600),
    default=90.0,
    help="Longest time in seconds from the answer about a pod until the API server has stored the pod: its "
    "--request-timeout plus a margin. A pod that is never created counts against its quotas for this long.",
)
@click.option(
    "--quota-names",
    type=click.Choice(["own", "none"]),
    default="own",
    help="What a refusal says about a full quota. own: its usage, and the largest pods in the namespace of the refused "
    "pod. none: only the limit, because whoever reaches the port can send a pod of any namespace.",
)
@click.option(
    "--audit-status",
    metavar="NAMESPACE/NAME",
    help="ConfigMap with the status of the last audit of the cluster, which the metrics show.",
)
@click.option(
    "--warning-events",
    is_flag=True,
    help="Write warnings about pods that controllers make into Events on the controllers, at most 20 a minute.",
)
@click.option(
    "--policy-objects",
    metavar="NAMESPACE",
    help="Show people the policies of their namespaces in objects (kubectl get gpupolicies). A label of the objects is "
    "this namespace; name the namespace of the installation.",
)
@click.option("--client-ca", type=PATH, help="Answer only clients with a certificate of this CA (PEM).")
@click.option(
    "--client-name",
    "client_names",
    envvar="GPU_POLICY_SERVE_CLIENT_NAME",
    multiple=True,
    help="Answer only client certificates with this common name or DNS name. Needs --client-ca; repeatable.",
)
@click.option("--host", default="0.0.0.0", help="Address to listen on.")  # noqa: S104  # a server in a pod
@click.option("--port", type=click.IntRange(1, 65535), default=8443, help="Port to listen on.")
@click.option(
    "--decision-seconds",
    type=click.FloatRange(0.1, 30),
    default=2.0,
    help="CPU seconds that one decision may take. A longer decision ends with an error, and failurePolicy decides.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    help="Port that serves only /metrics. Without it, /metrics is served on --port.",
)
@click.option(
    "--threads", type=click.IntRange(1, 64), default=16, help="Threads for large requests, and for requests that wait."
)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(0, 300),
    default=0.0,
    help="On SIGTERM, seconds between becoming unready and closing the port.",
)
@click.option(
    "--idle-seconds",
    type=click.FloatRange(1, 3600),
    default=120.0,
    help="Seconds after which an unused connection is closed. Choose more than the 90 of the API server, and less than "
    "the limit of any proxy in between.",
)
@click.option(
    "--namespace-series",
    type=click.IntRange(0, 10_000),
    default=200,
    help="Most namespaces with metrics of their own; all others are counted together.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    help="Lowest level of messages that are logged.",
)
def serve(**options: Any) -> None:
    """Answer the API server over TLS until SIGTERM.

    Without --inventory and --kubeconfig the facts come from the cluster that the process runs in.
    """
    from webhook.admission import logs
    from webhook.server.process import ServerSettings
    from webhook.server.process import serve as run_server

    try:
        settings = ServeSettings(**options)
    except ValueError as error:
        fail(str(error))
    logs.configure(settings.log_level)
    run_apart(partial(check, settings))
    check_source_of_facts(settings.inventory, settings.kubeconfig)
    if settings.installation is not None:
        run_apart(partial(prepare, settings.installation))
    cert, key = settings.served_files
    for file in (cert, key, settings.client_ca):
        if file is not None and not file.is_file():
            fail(f"{file}: no such file; `gpu-policy certs` makes a certificate and its key")
    server = ServerSettings(
        host=settings.host,
        port=settings.port,
        metrics_port=settings.metrics_port,
        cert_file=cert,
        key_file=key,
        client_ca_file=settings.client_ca,
        client_names=settings.client_names,
        threads=settings.threads,
        drain_seconds=settings.drain_seconds,
        keepalive_seconds=settings.idle_seconds,
    )
    run_server(server, partial(replica, settings))
