"""Interactive GPU pods end after a while, because people forget them.

A pod is interactive if its labels match one of the `selectors`. The rule limits its `activeDeadlineSeconds`, after
which the kubelet fails the pod (DeadlineExceeded), and its GPUs are free. A server of JupyterHub stays ended; a pod of
a StatefulSet or Deployment, such as a Kubeflow Notebook, is created anew, without what was in memory. Kubernetes
refuses `activeDeadlineSeconds` in the templates of these, so the rule injects it into their pods under
`missing: refuse`, too.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from webhook.model.edits import SetActiveDeadline
from webhook.model.globs import matcher
from webhook.model.pod import Pod
from webhook.model.quantity import format_duration, parse_duration
from webhook.rules.names import LabelKey, LabelValueGlob
from webhook.rules.rule import Advice, Example, Facts, Rule, Violation
from webhook.rules.rule_settings import Duration, InjectionSettings
from webhook.yaml_files.camel_model import not_empty

_WHERE = "spec.activeDeadlineSeconds"
_UNABLE = frozenset({"DaemonSet", "ReplicaSet", "ReplicationController", "StatefulSet"})
"""Kinds in whose templates Kubernetes refuses a deadline (pkg/apis/apps/validation and pkg/apis/core/validation)."""


def _are_labels(selector: object) -> object:
    """Check that a selector is a map of labels. Selectors in the form of Kubernetes get a message of their own."""
    if isinstance(selector, Mapping):
        if not selector:
            raise ValueError("names no label; write one such as component: singleuser-server")
        kubernetes = [key for key in ("matchLabels", "matchExpressions") if not isinstance(selector.get(key, ""), str)]
        if kubernetes:
            raise ValueError(f"has {kubernetes[0]}; write the labels themselves, such as component: singleuser-server")
    return selector


Selector = Annotated[Mapping[LabelKey, LabelValueGlob], Field(min_length=1), BeforeValidator(_are_labels)]


class Settings(InjectionSettings):
    """Settings of `timeLimit`."""

    selectors: Annotated[
        tuple[Selector, ...], *not_empty("selects no pod; write at least one map of labels, or disable the rule")
    ] = ({"component": "singleuser-server"}, {"notebook-name": "*"})
    """Labels of interactive pods, each with its value or a glob of values; a pod has all labels of one of the maps."""
    max: Duration = "12h"
    """The longest time that an interactive GPU pod may run, such as `8h`, `90m` or `1h30m`."""
    missing: Literal["inject", "refuse"] = "inject"
    """What happens to a pod without `activeDeadlineSeconds`: `inject` gives it `max`, `refuse` refuses it."""
    longer: Literal["refuse", "cap"] = "refuse"
    """What happens to a pod with a longer limit: `refuse`, or `cap`, which overwrites it with `max` and warns."""

    @cached_property
    def keys(self) -> frozenset[str]:
        return frozenset(key for selector in self.selectors for key in selector)

    @cached_property
    def seconds(self) -> int:
        return parse_duration(self.max)


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[SetActiveDeadline | Advice]:
    """Limit the time of an interactive GPU pod that has no limit, or a longer one if the policy caps it."""
    if not _is_interactive(pod, settings):
        return
    most, found = settings.seconds, pod.active_deadline
    if found is None:
        if not _must_say_so_itself(pod, settings):
            yield SetActiveDeadline(most)
    elif found > most and settings.longer == "cap":
        yield SetActiveDeadline(most)
        yield Advice(
            _WHERE,
            f"{_spelled(found)} is longer than the {_spelled(most)} that the policy gives interactive GPU pods",
            "Save your work in time, or ask the platform team for more",
        )


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation]:
    """Refuse interactive GPU pods without a limit or with a longer one, unless `mutate` sets it."""
    if not _is_interactive(pod, settings):
        return
    most, found = settings.seconds, pod.active_deadline
    if found is None and _must_say_so_itself(pod, settings):
        yield _too_long("is not set", most, f"Set it to {most} or less")
    elif found is not None and found > most and settings.longer == "refuse":
        is_able = pod.owner_kind not in _UNABLE
        yield _too_long(f"is {_spelled(found)}", most, f"Set it to {most} or less" if is_able else "Leave it out")


def _too_long(found: str, most: int, remedy: str) -> Violation:
    return Violation(_WHERE, found, f"interactive GPU pods may run for {_spelled(most)} at most", remedy)


def _must_say_so_itself(pod: Pod, settings: Settings) -> bool:
    return settings.missing == "refuse" and pod.owner_kind not in _UNABLE


def _is_interactive(pod: Pod, settings: Settings) -> bool:
    if not pod.gpus or settings.keys.isdisjoint(pod.labels):
        return False
    return any(
        all(
            isinstance(value := pod.labels.get(key), str) and matcher(glob).fullmatch(value)
            for key, glob in one.items()
        )
        for one in settings.selectors
    )


def _spelled(seconds: int) -> str:
    return f"{seconds} ({format_duration(seconds)})"


_SERVER = """\
apiVersion: v1
kind: Pod
metadata:
  name: jupyter-ada
  labels: {component: singleuser-server}
spec:
  containers:
    - name: notebook
      image: quay.io/jupyter/pytorch-notebook:cuda12-python-3.12
      resources: {limits: {cpu: 4, memory: 16Gi, nvidia.com/gpu: 1}}
"""

RULE = Rule(
    key="timeLimit",
    promise="Interactive GPU pods end after a while.",
    problem="A notebook that somebody forgot on Friday keeps its GPU over the weekend.",
    example=Example(_SERVER, {"max": "8h"}),
    settings=Settings,
    mutate=mutate,
    validate=validate,
    validates_own_injection=True,
    labels=lambda settings: settings.keys,
)
