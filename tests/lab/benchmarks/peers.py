"""What the product is measured beside, through the API server: the changes of `injections.INJECTED` made by the
built-in CEL policies, and three of its objections.
"""

from typing import Any

_GROUP = "admissionregistration.k8s.io/v1"
_IS_GPU = (
    "object.spec.containers.exists(c, has(c.resources) && has(c.resources.limits) && "
    "'nvidia.com/gpu' in c.resources.limits)"
)
_MUTATIONS = """[
  JSONPatch{op: "add", path: "/spec/tolerations/-",
    value: Object.spec.tolerations{key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule"}},
  JSONPatch{op: "add", path: "/spec/runtimeClassName", value: "nvidia"},
  JSONPatch{op: "add", path: "/spec/affinity", value: Object.spec.affinity{
    nodeAffinity: Object.spec.affinity.nodeAffinity{requiredDuringSchedulingIgnoredDuringExecution:
      Object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution{nodeSelectorTerms: [
        Object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms{
          matchExpressions: [Object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
            .nodeSelectorTerms.matchExpressions{key: "nvidia.com/cuda.driver-version.full", operator: "NotIn",
              values: ["560.54.15"]}]}]}}}},
  JSONPatch{op: "add", path: "/spec/volumes/-", value: Object.spec.volumes{name: "gpu-policy-shm",
    emptyDir: Object.spec.volumes.emptyDir{medium: "Memory", sizeLimit: "64Gi"}}},
  JSONPatch{op: "add", path: "/spec/containers/0/volumeMounts/-",
    value: Object.spec.containers.volumeMounts{name: "gpu-policy-shm", mountPath: "/dev/shm"}},
  JSONPatch{op: "add", path: "/spec/containers/0/env/-",
    value: Object.spec.containers.env{name: "NCCL_DEBUG", value: "WARN"}},
  JSONPatch{op: "add", path: "/metadata/annotations/gpupolicy.dev~1injected", value: "cel"}
]"""
_VALIDATIONS = [
    "object.spec.containers.all(c, !has(c.resources) || !has(c.resources.limits) || "
    "!('nvidia.com/gpu' in c.resources.limits) || "
    "quantity(string(c.resources.limits['nvidia.com/gpu'])).isLessThan(quantity('9')))",
    "object.spec.containers.all(c, !has(c.env) || c.env.all(e, e.name != 'NVIDIA_VISIBLE_DEVICES'))",
    "has(object.spec.tolerations) && object.spec.tolerations.exists(t, has(t.key) && t.key == 'nvidia.com/gpu')",
]


CEL_ANNOTATIONS = {"gpupolicy.dev/injected": "cel"}


def cel_policies() -> list[dict[str, Any]]:
    """A MutatingAdmissionPolicy and a ValidatingAdmissionPolicy with their bindings, where the API server has them."""
    match = {
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "bench"}},
    }
    conditions = [{"name": "gpu", "expression": _IS_GPU}]
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": _MUTATIONS}}
    return [
        _object(
            "MutatingAdmissionPolicy",
            {
                "matchConstraints": match,
                "matchConditions": conditions,
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "mutations": [mutation],
            },
        ),
        _object("MutatingAdmissionPolicyBinding", {"policyName": "bench"}),
        _object(
            "ValidatingAdmissionPolicy",
            {
                "matchConstraints": match,
                "matchConditions": conditions,
                "failurePolicy": "Fail",
                "validations": [{"expression": expression} for expression in _VALIDATIONS],
            },
        ),
        _object("ValidatingAdmissionPolicyBinding", {"policyName": "bench", "validationActions": ["Deny"]}),
    ]


def _object(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _GROUP, "kind": kind, "metadata": {"name": "bench"}, "spec": spec}
