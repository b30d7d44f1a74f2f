"""A container requests at most one unit of a shared GPU, because more units do not give more compute.

Where NVIDIA's device plugin shares GPUs by time-slicing or MPS with `renameByDefault`, their resource is called
`nvidia.com/gpu.shared`, and that of shared MIG slices `nvidia.com/mig-1g.10gb.shared`. One unit is access to a GPU that
other containers use, too; two units do not promise twice the share. With `failRequestsGreaterThanOne`, the default for
MPS and NVIDIA's advice for time-slicing, the plugin refuses more than one unit after the pod is scheduled: it fails
with `UnexpectedAdmissionError` and stays until somebody deletes it.

Without `renameByDefault` the resource of a shared GPU has the same name as that of a whole GPU, and the rule cannot
tell them apart.

Sources: README.md, api/config/v1/config.go and internal/rm/rm.go of NVIDIA/k8s-device-plugin.
"""

from collections.abc import Iterator

from webhook.model.accelerators import Share
from webhook.model.container import Container, GpuRequest
from webhook.model.pod import Pod
from webhook.rules.rule import Example, Facts, Rule, Violation
from webhook.rules.rule_settings import RuleSettings


class Settings(RuleSettings):
    """Settings of `sharedGpus`."""


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation]:
    """Refuse more than one unit of a shared GPU in a container."""
    for container in pod.lasting_containers():
        for request in container.gpu_requests:
            if request.accelerator.is_shared and request.count > 1:
                yield _violation(container, request)


def _violation(container: Container, request: GpuRequest) -> Violation:
    larger = "a larger slice" if request.accelerator.share is Share.SLICE else "whole GPUs (nvidia.com/gpu)"
    return Violation(
        f"{container.path}.resources",
        f"requests {request.count} {request.resource}",
        "more than 1 does not give more compute, and a device plugin set up as NVIDIA advises refuses it",
        f"Request 1, or {larger}",
    )


_FOUR_SHARES = """
apiVersion: v1
kind: Pod
metadata: {name: notebook}
spec:
  containers:
    - name: notebook
      image: registry.example.com/notebook:1
      resources: {limits: {nvidia.com/gpu.shared: 4}}
"""

RULE = Rule(
    key="sharedGpus",
    promise="A container requests at most one unit of a shared GPU.",
    problem="People request several shares of a GPU to get more of it, do not get more, or find that their pod failed "
    "on its node with UnexpectedAdmissionError.",
    examples=(Example(_FOUR_SHARES),),
    settings=Settings,
    validate=validate,
)
