"""What the API server sends: custom kinds that make pods and are not sent, and DaemonSets whose pods are sent.

On a new node the pods of such a DaemonSet cannot start while no replica answers. `why_sent` says why the API server
sends a pod: the matchConditions in words for people.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from webhook.doctor.doctor_report import DoctorFinding, ok, warning
from webhook.doctor.installation import Installation, Object, selects
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.json_parts import listed, mapped, part
from webhook.model.pod import Container, Pod
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
    entries = installation.validating.get("webhooks") or ()
    if not any(entry.get("name") == WORKLOADS_ENTRY for entry in entries):
        yield ok("workloads are not validated when they are applied; their pods are, when they are created")
        return
    rules = [rule for entry in entries for rule in entry.get("rules") or ()]
    uncovered: defaultdict[str, list[str]] = defaultdict(list)
    holding = 0
    for definition in filter(holds_template, installation.cluster.items(CRDS, {"limit": _PAGE})):
        holding += 1
        group, resource = str(part(definition, "spec", "group")), str(part(definition, "spec", "names", "plural"))
        if (group, resource) not in _MADE_BY_OTHERS and not any(_creates(rule, resource, group) for rule in rules):
            uncovered[group].append(resource)
    for group, resources in sorted(uncovered.items()):
        names = ", ".join(sorted(resources))
        yield warning(
            f"the schemas of {names} in {group} have pod templates, and no rule of the webhook configuration covers "
            "these kinds: only their pods are validated, when they are created",
            "a rule for each kind that makes GPU pods",
            f"where they make GPU pods, add {{group: {group}, resources: [{names}]}} to the chart value "
            "workloads.extraRules",
        )
    if not holding:
        yield ok("no custom resource holds a pod template")
    elif not uncovered and holding == 1:
        yield ok("the one custom resource that holds pod templates is validated when it is applied")
    elif not uncovered:
        yield ok(f"all {holding} custom resources that hold pod templates are validated when they are applied")


def _creates(rule: Mapping[str, Any], resource: str, group: str) -> bool:
    wanted = (("apiGroups", {group, "*"}), ("resources", {resource, "*", "*/*"}), ("operations", {"CREATE", "*"}))
    return all(not values.isdisjoint(rule.get(key) or ()) for key, values in wanted)


def holds_template(definition: Mapping[str, Any]) -> bool:
    """Whether the schema of any served version has a pod spec, by its list of containers."""
    for version in listed(definition, "spec", "versions"):
        properties = mapped(version, "schema", "openAPIV3Schema", "properties") if version.get("served") else {}
        rest = [schema for key, schema in properties.items() if key not in {"metadata", "status"}]
        while rest:
            schema = rest.pop()
            if mapped(schema, "properties", "containers", "items", "properties").keys() >= _CONTAINER:
                return True
            rest += mapped(schema, "properties").values()
            rest += (part(schema, "items"), part(schema, "additionalProperties")) if schema else ()
    return False


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
        if any(path in volume.host_path for path in _DEVICE_PATHS):
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
    entries = [
        entry
        for entry in installation.entries
        if entry.get("failurePolicy", "Fail") == "Fail"
        and any(_creates({"apiGroups": [""], **rule}, "pods", "") for rule in entry.get("rules") or ())
    ]
    if not entries:
        yield ok("no pod depends on an answer of the webhook")
        return
    labels = {
        namespace["metadata"]["name"]: namespace["metadata"].get("labels") or {}
        for namespace in installation.cluster.items(_NAMESPACES)
    }
    count = 0
    for daemon_set in installation.cluster.items(DAEMON_SETS):
        namespace, name = daemon_set["metadata"]["namespace"], daemon_set["metadata"]["name"]
        why = _why(daemon_set, entries, labels.get(namespace, {}), installation.accelerators)
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
