"""The labels by which the pods of a job that may run on several nodes are known once their controller has made them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.model.likeness import INDEX, JOB_SET, LEADER_WORKER_SET, RAY, TRAINING, VOLCANO
from webhook.model.workloads.parts import counted, part
from webhook.model.workloads.template import Template

_OF_GROUPS = {
    "kubeflow.org": TRAINING,
    "trainer.kubeflow.org": JOB_SET,
    "jobset.x-k8s.io": JOB_SET,
    "leaderworkerset.x-k8s.io": LEADER_WORKER_SET,
    "disaggregatedset.x-k8s.io": LEADER_WORKER_SET,
    "ray.io": RAY,
    "batch.volcano.sh": VOLCANO,
    "flow.volcano.sh": VOLCANO,
}
"""API group -> what controllers of its kinds write on their pods."""
_ALONE = frozenset({"Notebook"})


def labelled(raw: Mapping[str, Any], templates: Iterable[Template]) -> Iterator[Template]:
    """The templates of an object with the label that its controller adds."""
    name = _label(raw, str(raw.get("apiVersion")).rpartition("/")[0], str(raw.get("kind")))
    for template in templates:
        yield replace(template, labels={name: ""}) if name else template


def _label(raw: Mapping[str, Any], group: str, kind: str) -> str:
    if group == "batch":
        path = ("spec", "jobTemplate", "spec") if kind == "CronJob" else ("spec",)
        return INDEX if part(raw, *path, "completionMode") == "Indexed" else ""
    if kind == "LeaderWorkerSet" and counted(part(raw, "spec", "leaderWorkerTemplate", "size"), 1) == 1:
        return ""
    return "" if kind in _ALONE else _OF_GROUPS.get(group, "")
