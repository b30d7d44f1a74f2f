"""The kind of Slinky whose pods are the nodes of a Slurm cluster.

Fields and defaults are those of api/v1beta1 in SlinkyProject/slurm-operator, and of v1alpha1, which has a whole pod
template; how a pod is put together is that of BuildWorkerPodTemplate in internal/builder/workerbuilder/worker_app.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.model.workloads.merging import patched
from webhook.model.workloads.parts import counted, listed, mapped, part
from webhook.model.workloads.template import Template

_MAIN = "slurmd"
_IN_TEMPLATE = f"spec.template.spec.containers[{_MAIN}]"
_WORKER = {"key": "nodeset.slinky.slurm.net/worker", "operator": "Equal", "effect": "NoExecute"}
"""The taint that the operator keeps others away with, and which its pods tolerate."""


def node_set(raw: Mapping[str, Any]) -> Iterator[Template]:
    """NodeSet: so many pods, or one on each node that fits."""
    spec, template = mapped(raw, "spec"), mapped(raw, "spec", "template")
    own, main = mapped(template, "spec"), mapped(spec, "slurmd")
    written, elsewhere = list(listed(own, "containers")), {}
    if main:
        same = mapped(next((one for one in written if part(one, "name") == _MAIN), None))
        whole = patched({**main, "name": _MAIN}, same)
        written = [whole, *(one for one in written if part(one, "name") != _MAIN)]
        elsewhere[f"spec.containers[{_MAIN}]"] = "spec.slurmd"
        elsewhere |= {f"spec.containers[{_MAIN}].{key}": f"{_IN_TEMPLATE}.{key}" for key in same}
    if not written:
        return
    is_per_node = spec.get("scalingMode") == "DaemonSet"
    pod = {
        "metadata": mapped(template, "metadata"),
        "spec": {**own, "containers": written, "tolerations": [*listed(own, "tolerations"), _WORKER]},
    }
    pods = None if is_per_node else counted(spec.get("replicas"), 1)
    yield Template(pod, "spec.template.spec", "", pods, is_per_node, elsewhere=elsewhere)
