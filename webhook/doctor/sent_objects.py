"""What the API server sends: custom kinds that make pods and are not sent, and DaemonSets whose pods are sent.

On a new node the pods of such a DaemonSet cannot start while no replica answers. `why_sent` says why the API server
sends a pod: the matchConditions in words for people.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from webhook.doctor.cluster import Object, UnavailableError, selects
from webhook.doctor.doctor_report import DoctorFinding, ok, warning
from webhook.doctor.installation import Installation
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.container import Container
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.model.shape import ShapeError
from webhook.model.wording import few
from webhook.rules.device_access import DEVICE_KEYS, LEGACY, PATH_KEYS, VARIABLE, VENDORS_KEYS

WORKLOADS_ENTRY = "workloads.gpupolicy.dev"
"""The entry of the webhook configuration that sends workloads."""
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PAGE = "5"
"""Definitions in one answer; a definition with pod templates may have a megabyte."""
_CONTAINER = frozenset({"name", "image", "resources"})
"""Fields that every schema of a container has."""
_NOT_ASKED = frozenset({"metadata", "status"})
_MADE_BY_OTHERS = frozenset(
    {
        ("argoproj.io", "workflowartifactgctasks"),
        ("argoproj.io", "workflowtasksets"),
        ("serving.knative.dev", "configurations"),
        ("serving.knative.dev", "revisions"),
    }
)
"""Resources that controllers make for objects that are validated themselves."""


def workload_kinds(installation: Installation) -> Iterator[DoctorFinding]:
    """Every kind whose schema has a pod template is validated when it is applied."""
    rules = _workload_rules(installation)
    if rules is None:
        yield ok("workloads are not validated when they are applied; their pods are, when they are created")
        return
    uncovered: defaultdict[str, list[str]] = defaultdict(list)
    holding = 0
    for definition in installation.cluster.items(CRDS, {"limit": _PAGE}):
        group, resource = _resource(definition)
        if holds_template(definition):
            holding += 1
            if (group, resource) not in _MADE_BY_OTHERS and not any(_sends(rule, group, resource) for rule in rules):
                uncovered[group].append(resource)
    for group, resources in sorted(uncovered.items()):
        listed = ", ".join(sorted(resources))
        yield warning(
            f"the schemas of {listed} in {group} have pod templates, and no rule of the webhook configuration covers "
            "these kinds: only their pods are validated, when they are created",
            "a rule for each kind that makes GPU pods",
            f"where they make GPU pods, add {{group: {group}, resources: [{listed}]}} to the chart value "
            "workloads.extraRules",
        )
    if not uncovered:
        yield ok(_all_covered(holding))


def _all_covered(holding: int) -> str:
    if not holding:
        return "no custom resource holds a pod template"
    if holding == 1:
        return "the one custom resource that holds pod templates is validated when it is applied"
    return f"all {holding} custom resources that hold pod templates are validated when they are applied"


def _workload_rules(installation: Installation) -> list[Mapping[str, Any]] | None:
    """The rules that send workloads; None where workloads are not sent."""
    live = installation.configurations["validating"]
    if live is None:
        raise UnavailableError(f"there is no validating webhook configuration {installation.place.name}")
    entries = live.get("webhooks") or ()
    if not any(entry.get("name") == WORKLOADS_ENTRY for entry in entries):
        return None
    return [rule for entry in entries for rule in entry.get("rules") or ()]


def _sends(rule: Mapping[str, Any], group: str, resource: str) -> bool:
    return (
        not {group, "*"}.isdisjoint(rule.get("apiGroups") or ())
        and not {resource, "*", "*/*"}.isdisjoint(rule.get("resources") or ())
        and not {"CREATE", "*"}.isdisjoint(rule.get("operations") or ())
    )


def _resource(definition: Object) -> tuple[str, str]:
    spec = definition.get("spec") or {}
    return str(spec.get("group")), str((spec.get("names") or {}).get("plural"))


def holds_template(definition: Mapping[str, Any]) -> bool:
    """Whether the schema of any served version has a pod spec, by its list of containers."""
    versions = (definition.get("spec") or {}).get("versions") or ()
    return any(_has_containers(_schema(version)) for version in versions if version.get("served"))


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a version, without metadata and status."""
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    properties = {key: part for key, part in (schema.get("properties") or {}).items() if key not in _NOT_ASKED}
    return {**schema, "properties": properties}


def _has_containers(schema: Mapping[str, Any]) -> bool:
    rest: list[Any] = [schema]
    while rest:
        part = rest.pop()
        if isinstance(part, dict):
            properties = part.get("properties")
            if isinstance(properties, dict):
                if _is_list_of_containers(properties.get("containers")):
                    return True
                rest.extend(properties.values())
            rest.extend((part.get("items"), part.get("additionalProperties")))
    return False


def _is_list_of_containers(schema: object) -> bool:
    items = schema.get("items") if isinstance(schema, dict) else None
    properties = items.get("properties") if isinstance(items, dict) else None
    return isinstance(properties, dict) and properties.keys() >= _CONTAINER


_DEVICE_PATHS = ("/nvidia", "/dri", "/kfd", "/195:", "/226:")
_DEVICE_LIST = "-container-devices"


def why_sent(
    template: Mapping[str, Any], accelerators: Accelerators = BUILT_IN, *, nvidia_is_default_runtime: bool = False
) -> str:
    """Why the pods of this template are sent to the webhook when they are created; empty where they are not.

    Tolerations of pods of DaemonSets do not count. `accelerators` are the names of GPUs.
    """
    try:
        pod = pod_from_raw(template, accelerators)
    except ShapeError:
        return ""  # the API server refuses such a template
    return next(_reasons(pod, nvidia_is_default_runtime=nvidia_is_default_runtime), "")


def _reasons(pod: Pod, *, nvidia_is_default_runtime: bool) -> Iterator[str]:
    if pod.resource_claims:
        yield "has resource claims"
    for volume in pod.volumes:
        if any(part in volume.host_path for part in _DEVICE_PATHS):
            yield f"mounts {volume.host_path}"
    if pod.runtime_class and "nvidia" in pod.runtime_class.lower():
        yield f"has runtimeClassName {pod.runtime_class}"
    for key in pod.annotations:
        if VENDORS_KEYS in key or key.startswith((*DEVICE_KEYS, *PATH_KEYS)):
            yield f"has the annotation {key}"
    for container in pod.containers:
        for reason in _reasons_in(container, pod, nvidia_is_default_runtime=nvidia_is_default_runtime):
            yield f"container {container.name} {reason}"


def _reasons_in(container: Container, pod: Pod, *, nvidia_is_default_runtime: bool) -> Iterator[str]:
    for request in container.gpu_requests:
        yield f"requests {request.resource}"
    if container.has_claims:
        yield "has resource claims"
    if container.sets_env(VARIABLE):
        yield f"sets {VARIABLE}"
    for mount in container.mounts:
        if _DEVICE_LIST in mount.path:
            yield f"mounts a volume at {mount.path}"
    has_class = pod.runtime_class is not None
    if has_class or nvidia_is_default_runtime:
        if container.is_privileged:
            yield "is privileged"
        if container.sets_env(LEGACY):
            yield f"sets {LEGACY}"
    if has_class and any(map(container.may_take_env, (VARIABLE, LEGACY))):
        yield "takes variables from a ConfigMap or Secret"


DAEMON_SETS = "/apis/apps/v1/daemonsets"
_NAMESPACES = "/api/v1/namespaces"
_NEEDS_A_RUNTIME_CLASS = "has(spec.runtimeClassName) && ("
"""The beginning of the condition about privileged containers if NVIDIA's runtime is not the default."""


def daemon_sets(installation: Installation) -> Iterator[DoctorFinding]:
    """Node agents, such as device plugins, start while no replica answers."""
    entries = [entry for entry in installation.entries if _is_depended_on(entry)]
    if not entries:
        yield ok("no pod depends on an answer of the webhook")
        return
    labels = {
        namespace["metadata"]["name"]: namespace["metadata"].get("labels") or {}
        for namespace in installation.cluster.items(_NAMESPACES)
    }
    accelerators = BUILT_IN
    with suppress(UnavailableError):  # without the policies the built-in names count
        accelerators = installation.sound_policies.accelerators
    count = 0
    for daemon_set in installation.cluster.items(DAEMON_SETS):
        namespace, name = daemon_set["metadata"]["namespace"], daemon_set["metadata"]["name"]
        why = _why(daemon_set, entries, labels.get(namespace, {}), accelerators)
        if why:
            count += 1
            yield warning(
                f"the pods of DaemonSet {namespace}/{name} are sent to the webhook, because the pod {why}: on a new "
                "node they cannot start while no replica answers",
                "device plugins, exporters and other node agents in namespaces that are left out",
                f"where only the platform creates pods in {namespace}, add it to webhook.namespaceSelector.exclude of "
                "the chart; otherwise move the DaemonSet to a namespace of its own, and add that",
            )
    if not count:
        yield ok("no DaemonSet depends on an answer of the webhook")


def tolerant_pods(installation: Installation) -> Iterator[DoctorFinding]:
    """Pods that tolerate every taint are sent where a policy keeps them off GPU nodes."""
    policies = installation.sound_policies.policies
    denying = [one for one in policies if any(getattr(b.settings, "tolerate_all", "") == "deny" for b in one.rules)]
    conditions = [one["expression"] for entry in installation.entries for one in entry.get("matchConditions") or ()]
    if denying and "spec.tolerations.exists(t, !has(t.key)) ? false" in " ".join(conditions):
        yield warning(
            f"gpuNodesForGpuPods.tolerateAll is deny in {few([one.files[-1] for one in denying])}, and pods that "
            "tolerate every taint are not sent to the webhook: they get onto GPU nodes",
            "such pods sent, or tolerateAll: allow",
            "set webhook.sendTolerateAll of the chart",
        )
    else:
        yield ok("pods that tolerate every taint are sent if a policy keeps them off GPU nodes")


def _is_depended_on(entry: Mapping[str, Any]) -> bool:
    """Whether pods cannot be created while no replica answers for this entry."""
    return entry.get("failurePolicy", "Fail") == "Fail" and any(
        not {"pods", "*", "*/*"}.isdisjoint(rule.get("resources") or ())
        and not {"CREATE", "*"}.isdisjoint(rule.get("operations") or ())
        for rule in entry.get("rules") or ()
    )


def _why(daemon_set: Object, entries: list[Object], labels: Mapping[str, str], accelerators: Accelerators) -> str:
    """Why a webhook of `entries` is called for pods of the DaemonSet; empty where none is called."""
    template = (daemon_set.get("spec") or {}).get("template") or {}
    for entry in entries:
        if not selects(entry.get("namespaceSelector") or {}, labels):
            continue
        conditions = " ".join(one.get("expression", "") for one in entry.get("matchConditions") or ())
        if not conditions:
            return "is sent as all pods are, without matchConditions"
        is_default = _NEEDS_A_RUNTIME_CLASS not in " ".join(conditions.split())
        if why := why_sent(template, accelerators, nvidia_is_default_runtime=is_default):
            return why
    return ""
