"""What the replicas report about themselves, read through the API server's proxy to their pods."""

import re
from collections import defaultdict
from collections.abc import Iterator

from webhook.doctor.cluster import UnavailableError
from webhook.doctor.doctor_report import DoctorFinding, ok, problem, skipped, warning
from webhook.doctor.installation import Installation, changed_at
from webhook.kubernetes.api_errors import RefusedError
from webhook.yaml_files.file_errors import FileErrors

DELIVERED_SECONDS = 180.0
"""Time after which every kubelet has delivered a changed ConfigMap, and every replica has loaded it."""

_HASH = re.compile(r"policies: ([0-9a-f]{64})")
_UNREADY = re.compile(r"ready: no, (.*?)(?= policies: |$)")
_REFUSED = re.compile(r"policy reload: REFUSED, last good set kept: (.*?)(?= facts: |$)")


METRICS = "metrics"
"""The page that may be on a port of its own."""


def pages(installation: Installation, page: str) -> Iterator[tuple[str, str | RefusedError]]:
    """The page of every replica as one line, after the pod's name; a RefusedError where it has an error status."""
    port = installation.workload.metrics_port if page == METRICS else installation.workload.port
    pods = installation.pods
    if not pods:
        raise UnavailableError("no pod of the Deployment runs, so there is nobody to ask")
    for pod in pods:
        name = pod["metadata"]["name"]
        path = f"{installation.path('pods', f'https:{name}:{port}')}/proxy/{page}"
        try:
            yield name, installation.cluster.page(path)
        except RefusedError as refusal:
            if refusal.status == 403:
                raise UnavailableError(str(refusal), "look again with a kubeconfig that may get pods/proxy") from None
            yield name, refusal


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """The replicas are ready, have loaded the files on disk, and serve the policies of the ConfigMaps."""
    serving: dict[str, list[str]] = defaultdict(list)
    for name, page in pages(installation, "readyz"):
        text = str(page)
        complaints = list(_complaints(name, text, installation))
        yield from complaints
        if found := _HASH.search(text):
            serving[found[1]].append(name)
        elif not complaints:
            yield skipped(f"replica {name} cannot be asked: {text}")
    if serving:
        yield _agreement(serving, installation)


def _complaints(name: str, text: str, installation: Installation) -> Iterator[DoctorFinding]:
    if unready := _UNREADY.search(text):
        yield problem(
            f"replica {name} is not ready: {unready[1]}", "ready", f"{installation.kubectl} logs {name} --tail=50"
        )
    if refused := _REFUSED.search(text):
        yield problem(
            f"replica {name} refused the policies on disk and keeps the last good set: {refused[1]}",
            "policies without a mistake",
            "correct the policy; `gpu-policy policy check DIRECTORY` names every mistake. A replica that starts now "
            "does not become ready",
        )


def _agreement(serving: dict[str, list[str]], installation: Installation) -> DoctorFinding:
    """Whether all replicas serve the policies of the ConfigMaps."""
    try:
        held = installation.policies.hash
    except (FileErrors, UnavailableError):
        held = next(iter(serving))  # nothing to compare with but one another
    others = {found: names for found, names in serving.items() if found != held}
    if not others:
        count = sum(map(len, serving.values()))
        return ok(f"{count} {'replica serves' if count == 1 else 'replicas serve'} the policies {held[:12]}")
    found = "; ".join(f"{', '.join(names)}: {one[:12]}" for one, names in sorted(serving.items()))
    if _is_fresh(installation):
        return warning(
            f"replicas serve different policies: {found}",
            f"{held[:12]} everywhere, a minute or two after a change",
            "look again in a few minutes",
        )
    return problem(
        f"replicas serve different policies: {found}",
        f"{held[:12]} everywhere",
        f"see why they do not take up the ConfigMap ({installation.kubectl} logs POD), then "
        f"{installation.kubectl} rollout restart {installation.title}; or this command is of another version than they",
    )


def _is_fresh(installation: Installation) -> bool:
    """Whether the policies changed so recently that replicas may not have loaded them yet."""
    try:
        changes = [changed_at(config_map) for _, config_map in installation.policy_config_maps]
    except UnavailableError:
        return False
    now = installation.cluster.now()
    return any((now - change).total_seconds() < DELIVERED_SECONDS for change in changes)
