"""`kubectl apply` without kubectl, which takes longer than most tests: the same requests, and the same words."""

import json
import re
from typing import Any

from tests.e2e.control_plane import ControlPlane

_CLUSTER_SCOPED = frozenset({"ClusterTrainingRuntime"})
_WARNING = re.compile(r'\d{3} \S+ "(.*)"', re.DOTALL)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def apply(plane: ControlPlane, namespace: str, manifest: dict[str, Any], *, dry_run: bool = False) -> tuple[int, str]:
    """Exit status and standard error of `kubectl apply`, which is what starts where the object is there already."""
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), _LAST_APPLIED: json.dumps(manifest)}
    body = {**manifest, "metadata": {**metadata, "annotations": annotations}}
    path = f"{_path(manifest, namespace)}?fieldManager=kubectl-client-side-apply{'&dryRun=All' * dry_run}"
    status, headers, answer = plane.exchange("POST", path, body)
    if status == 409:
        return kubectl_apply(plane, namespace, manifest, *["--dry-run=server"] * dry_run)
    found = (_WARNING.fullmatch(header) for header in headers.get_all("Warning", ()))
    warnings = [f"Warning: {_unescaped(one[1])}\n" for one in found if one]
    refusal = f"{answer['message']}\n" if status >= 400 else ""
    return int(status >= 400), "".join(warnings) + refusal


def kubectl_apply(plane: ControlPlane, namespace: str, manifest: dict[str, Any], *flags: str) -> tuple[int, str]:
    """The same by kubectl, with more flags."""
    done = plane.kubectl("apply", "-f", "-", *flags, input=json.dumps(manifest), namespace=namespace, check=False)
    return done.returncode, done.stderr


def _path(manifest: dict[str, Any], namespace: str) -> str:
    version, kind = manifest["apiVersion"], manifest["kind"]
    place = "" if kind in _CLUSTER_SCOPED else f"/namespaces/{namespace}"
    return f"/{'apis' if '/' in version else 'api'}/{version}{place}/{kind.lower()}s"


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
