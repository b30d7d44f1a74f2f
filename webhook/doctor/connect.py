"""Finding the cluster as kubectl does, and making sure that somebody is there."""

import os
from pathlib import Path

import yaml

from webhook.doctor.cluster import ANSWER_SECONDS, Cluster, UnavailableError
from webhook.kubernetes.api_server import ApiServer, ClusterConfigError, RefusedError, UnreachableError


def connect(kubeconfig: str | None, context: str | None = None) -> Cluster:
    """The same as `find_server`, to look at."""
    return Cluster(find_server(kubeconfig, context))


def find_server(kubeconfig: str | None, context: str | None = None) -> ApiServer:
    """The API server of a kubeconfig (several files are separated as in $KUBECONFIG); of ~/.kube/config where none is
    named, and where that is missing the cluster that this process runs in.

    Raises UnavailableError where none is known, none answers, or whoever asks is unknown to it.
    """
    if not kubeconfig:
        usual = Path("~/.kube/config").expanduser()
        kubeconfig = str(usual) if usual.is_file() else None
    try:
        server = ApiServer(kubeconfig, context or _first_context(kubeconfig or ""))
        server.get("/version", {}, ANSWER_SECONDS)
    except ClusterConfigError as error:
        raise UnavailableError(str(error)) from None
    except UnreachableError as fault:
        why = f"the API server cannot be reached: {fault}"
        raise UnavailableError(f"{why}; try kubectl version with the same kubeconfig") from None
    except RefusedError as refusal:
        if refusal.status == 401:
            raise UnavailableError(f"{refusal}; log in again, or name another --context") from None
    except ValueError as error:
        raise UnavailableError(f"this is no API server: {error}") from None
    return server


def _first_context(kubeconfig: str) -> str | None:
    """The current context where there are several files: kubectl takes that of the first file which names one, and the
    Kubernetes client that of the last.
    """
    files = [Path(name) for name in kubeconfig.split(os.pathsep) if name]
    if len(files) > 1:
        for file in files:
            try:
                content = yaml.safe_load(file.read_text()) if file.is_file() else None
            except (OSError, ValueError, yaml.YAMLError):
                return None  # the client says what is wrong with it
            if isinstance(content, dict) and content.get("current-context"):
                return str(content["current-context"])
    return None
