"""Finds the API server and the namespace that a kubeconfig means, as kubectl does."""

import os
from pathlib import Path
from typing import Any

import yaml

from webhook.kubernetes.api_errors import AnswerError, ClusterConfigError, RefusedError, UnreachableError
from webhook.kubernetes.api_server import ApiServer
from webhook.model.json_parts import listed, part, text

_SECONDS = 15.0
"""Longest time for the first answer."""
_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def find_server(kubeconfig: str | None, context: str | None = None) -> ApiServer:
    """The API server of a kubeconfig; several files are separated as in $KUBECONFIG.

    Without a kubeconfig it is the API server of ~/.kube/config, or of the cluster that this process runs in.

    Raises ClusterConfigError where no server is known, it does not answer, or it does not know the user.
    """
    if not kubeconfig:
        usual = _usual_file()
        kubeconfig = str(usual) if usual.is_file() else None
    try:
        server = ApiServer(kubeconfig, context or first_context(kubeconfig or ""))
        server.get("/version", {}, _SECONDS)
    except ClusterConfigError as error:
        raise ClusterConfigError(f"{'' if kubeconfig else 'no ~/.kube/config, and '}{error}") from None
    except UnreachableError as fault:
        why = f"the API server cannot be reached: {fault}"
        raise ClusterConfigError(f"{why}; try kubectl version with the same kubeconfig") from None
    except RefusedError as refusal:
        if refusal.status == 401:
            raise ClusterConfigError(f"{refusal}; log in again, or name another --context") from None
    except AnswerError as error:
        raise ClusterConfigError(f"this is no API server: {error}") from None
    return server


def first_context(kubeconfig: str) -> str | None:
    """The current context of several files: the first file that names one decides."""
    files = [name for name in kubeconfig.split(os.pathsep) if name]
    return next(filter(None, map(_current_context, map(_content, files))), None) if len(files) > 1 else None


def namespace_of(kubeconfig: str | None, context: str | None) -> str:
    """The namespace of a context; `default` where it names none.

    Without a kubeconfig, ~/.kube/config decides, or the pod that this process runs in.
    """
    usual = _usual_file()
    if not kubeconfig and not usual.is_file():
        try:
            return _POD_NAMESPACE.read_text().strip() or "default"
        except OSError:
            return "default"
    contents = [_content(file) for file in (kubeconfig or str(usual)).split(os.pathsep) if file]
    wanted = context or next(filter(None, map(_current_context, contents)), None)
    named = (one for content in contents for one in listed(content, "contexts") if part(one, "name") == wanted)
    return text(next(named, None), "context", "namespace") or "default"


def _usual_file() -> Path:
    return Path("~/.kube/config").expanduser()


def _current_context(content: dict[str, Any]) -> str:
    return str(content.get("current-context") or "")


def _content(file: str) -> dict[str, Any]:
    """The content of a kubeconfig; empty where it cannot be read, because the client says what is wrong with it."""
    try:
        content = yaml.safe_load(Path(file).read_text()) if Path(file).is_file() else None
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return content if isinstance(content, dict) else {}
