"""When objects run more pods than they say, and which of their pods are of use only together."""

from typing import Any

import pytest
import yaml

from webhook.model.workloads import templates_of
from webhook.model.workloads.peaks import group_of, peaks_of, scaler_of, starts_now

POD = "{spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}}"
DEPLOYMENT = (
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: one}\nspec: {replicas: %s, strategy: %s, template: POD}"
)
AVAILABLE = "{rollingUpdate: {maxUnavailable: 0}}"
ROLLOUT = "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nspec: {replicas: 4, strategy: %s, template: POD}"
LWS = """apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
spec:
  replicas: %s
  rolloutStrategy: {rollingUpdateConfiguration: %s}
  leaderWorkerTemplate: {size: %s, workerTemplate: POD}"""
ON_KNATIVE = "metadata: {annotations: {serving.kserve.io/deploymentMode: Serverless}}\n"
ISVC = """apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
spec:
  predictor: {minReplicas: %s, %s, containers: [{name: kserve-container, resources: {limits: {nvidia.com/gpu: 1}}}]}"""
UNSCALED = "metadata: {annotations: {serving.kserve.io/autoscalerClass: none}}\n"
LLM = """apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
spec: {replicas: 1, template: SPEC%s}"""
KNATIVE = (
    "apiVersion: serving.knative.dev/v1\nkind: Service\nspec: {template: {metadata: {annotations: %s}, spec: SPEC}}"
)
RAY = """apiVersion: ray.io/v1
kind: %s
spec: {%s {enableInTreeAutoscaling: %s, headGroupSpec: {template: POD}, workerGroupSpecs: [
  {groupName: w, replicas: 3, minReplicas: 1, maxReplicas: 5, numOfHosts: 2, template: POD}]}}"""
ENDS = "parallelism: 2, activeDeadlineSeconds: 3600"
CRON = """apiVersion: batch/v1
kind: CronJob
spec: {concurrencyPolicy: %s, jobTemplate: {spec: {parallelism: 2, template: POD}}}"""
WORKERS = "{groupName: x, replicas: 1, maxReplicas: 4, template: POD}"
TWO_GROUPS = (RAY % ("RayJob", "rayClusterSpec:", "true")).replace("template: POD}]", f"template: POD}}, {WORKERS}]")
VOLCANO = """apiVersion: batch.volcano.sh/v1alpha1
kind: Job
spec: {minAvailable: %s, tasks: [{name: w, replicas: 4, template: POD}]}"""
HPA = """apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
spec: {scaleTargetRef: {kind: %s, name: %s}, maxReplicas: %s}"""
KEDA = "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nspec: {scaleTargetRef: {name: one}%s}"
INLINE = "withItems: [a, b], inline: {container: {image: i, resources: {limits: {nvidia.com/gpu: 1}}}}"
ARGO = """apiVersion: argoproj.io/v1alpha1
kind: Workflow
spec:
  parallelism: %s
  templates:
  - {name: all, steps: [[{name: s, template: train, %s}]]}
  - {name: train, container: {image: i, resources: {limits: {nvidia.com/gpu: 1}}}}"""


def read(text: str) -> dict[str, Any]:
    """An object whose pods are POD."""
    raw: dict[str, Any] = yaml.safe_load(text.replace("POD", POD).replace("SPEC", POD[len("{spec: ") : -1]))
    return raw


@pytest.mark.parametrize(
    ("text", "why", "most"),
    [
        (DEPLOYMENT % (1, "{}"), "a rolling update starts 1 pod more (maxSurge 25%)", 2),
        (DEPLOYMENT % (3, "{}"), "a rolling update starts 1 pod more (maxSurge 25%)", 4),
        (DEPLOYMENT % (4, "{}"), "", 0),  # it ends one before it starts one
        (DEPLOYMENT % (4, AVAILABLE), "a rolling update starts 1 pod more (maxSurge 25%)", 5),
        (DEPLOYMENT % (4, "{rollingUpdate: {maxSurge: 50%}}"), "a rolling update starts 2 pods more (maxSurge 50%)", 6),
        (DEPLOYMENT % (1, "{rollingUpdate: {maxSurge: 2}}"), "a rolling update starts 1 pod more (maxSurge 2)", 2),
        (DEPLOYMENT % (1, "{type: Recreate}"), "", 0),
        (DEPLOYMENT % (1, "{rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}"), "", 0),
        (DEPLOYMENT % (1, "{rollingUpdate: {maxSurge: many}}"), "", 0),
        (DEPLOYMENT % (0, "{}"), "", 0),
        (ROLLOUT % "{canary: {maxUnavailable: 0}}", "a rolling update starts 1 pod more (maxSurge 25%)", 5),
        (ROLLOUT % "{blueGreen: {activeService: a}}", "a rolling update starts all pods a second time (blueGreen)", 8),
        (ROLLOUT % "{canary: {trafficRouting: {istio: {}}}}", "a rolling update keeps the stable pods", 8),
        (ROLLOUT % "{canary: {dynamicStableScale: true, trafficRouting: {istio: {}}}}", "", 0),
        (LWS % (2, "{}", 2), "", 0),
        (LWS % (2, "{maxSurge: 1}", 2), "a rolling update starts 2 pods more (maxSurge 1)", 6),
        (LWS % (2, "{maxSurge: 9}", 2), "a rolling update starts 4 pods more (maxSurge 9)", 8),
        (ISVC % (1, "image: x"), "a rolling update starts 1 pod more (maxSurge 25%)", 2),
        (ISVC % (1, "deploymentStrategy: {type: Recreate}"), "", 0),
        (ON_KNATIVE + ISVC % (2, "image: x"), "a rolling update starts a revision beside the last", 4),
        (ISVC % (0, "maxReplicas: 3"), "maxReplicas is 3", 3),
        (UNSCALED + ISVC % (0, "maxReplicas: 3"), "", 0),
        (LLM % "", "a rolling update starts 1 pod more (maxSurge 25%)", 2),
        (LLM % ", prefill: {replicas: 4, template: SPEC}", "a rolling update starts 1 pod more (maxSurge 25%)", 6),
        (LLM % ", rolloutStrategy: {maxSurge: 0, maxUnavailable: 1}", "", 0),
        (LLM % ", worker: SPEC, parallelism: {pipeline: 2}", "", 0),
        (KNATIVE % "{autoscaling.knative.dev/min-scale: '2'}", "a rolling update starts a revision beside the last", 4),
        (KNATIVE % "{autoscaling.knative.dev/max-scale: '7'}", "max-scale (maxReplicas) is 7", 7),
        (KNATIVE % "{autoscaling.knative.dev/max-scale: '0'}", "", 0),
        (RAY % ("RayService", "rayClusterConfig:", "false"), "a rolling update starts a second cluster", 14),
        (RAY % ("RayService", "upgradeStrategy: {type: None}, rayClusterConfig:", "false"), "", 0),
        (RAY % ("RayJob", "rayClusterSpec:", "true"), "maxReplicas is 5", 10),
        (TWO_GROUPS, "maxReplicas is 5 of w and 4 of x", 14),
        (RAY % ("RayJob", "rayClusterSpec:", "false"), "", 0),
        (CRON % "Allow", "a run may start beside the last (concurrencyPolicy Allow)", 4),
        (CRON % "Forbid", "", 0),
        ((CRON % "Allow, schedule: 0 3 * * *").replace("parallelism: 2", ENDS), "", 0),
        ((CRON % "Allow, schedule: 0 */2 * * *").replace("parallelism: 2", ENDS), "a run may start beside the last", 4),
        (ARGO % ("null", "withItems: [a, b, c]"), "all items run at once", 3),
        (ARGO % (2, "withItems: [a, b, c]"), "parallelism 2 lets it run items at once", 2),
        (ARGO % (2, "withParam: '{{x}}'"), "parallelism 2 lets it run items at once", 2),
        (ARGO % ("null", "withSequence: {count: '9'}"), "all items run at once", 9),
        (ARGO % ("null", "withSequence: {start: '3', end: '9'}"), "all items run at once", 7),
        ((ARGO % ("null", INLINE)).replace("template: train, ", ""), "all items run at once", 2),
        ((ARGO % (2, "withItems: [a, b, c]")).replace("container", "synchronization: {mutex: {}}, container"), "", 0),
        (ARGO % ("null", "withParam: '{{x}}'"), "", 0),
        (ARGO % (2, "arguments: {}"), "", 0),
    ],
)
def test_the_most_pods_at_once_follow_from_the_settings_of_each_kind(text: str, why: str, most: int) -> None:
    found = list(peaks_of(read(text), templates_of(read(text))))
    assert [(why in one.why, sum(one.pods.values())) for one in found] == ([(True, most)] if why else [])


def test_an_incremental_upgrade_starts_as_much_as_it_says() -> None:
    how = "upgradeStrategy: {type: NewClusterWithIncrementalUpgrade, clusterUpgradeOptions: {maxSurgePercent: 50}}, "
    raw = read(RAY % ("RayService", f"{how}rayClusterConfig:", "false"))
    (found,) = peaks_of(raw, templates_of(raw))
    assert found.why == "a rolling update starts 50 % of the pods more (maxSurgePercent)"
    assert sorted(found.pods.values()) == [2, 9]


ONE, NONE = DEPLOYMENT % (1, "{type: Recreate}"), DEPLOYMENT % (0, "{}")
LWS_ONE = "metadata: {name: one}\n" + LWS % (2, "{}", 3)


@pytest.mark.parametrize(
    ("text", "scaler", "most", "fit"),
    [
        (ONE, HPA % ("Deployment", "one", 9), 9, 9),
        (ONE, (HPA % ("Deployment", "one", 9)).replace("{kind", "{apiVersion: apps/v1, kind"), 9, 9),
        (ONE, (HPA % ("Deployment", "one", 9)).replace("{kind", "{apiVersion: example.com/v1, kind"), 0, 0),
        (ONE, KEDA % ", maxReplicaCount: 8", 8, 8),
        (ONE, KEDA % "", 100, 100),
        (NONE, KEDA % ", maxReplicaCount: 8", 8, 8),
        (NONE, HPA % ("Deployment", "one", 9), 0, 0),  # which does not scale from none
        (LWS_ONE, HPA % ("LeaderWorkerSet", "one", 9), 27, 9),
        (ONE, HPA % ("StatefulSet", "one", 9), 0, 0),
        (ONE, HPA % ("Deployment", "two", 9), 0, 0),
        (ONE, HPA % ("Deployment", "one", "x"), 0, 0),
        (ONE, "{apiVersion: v1, kind: Service, spec: {maxReplicas: 9}}", 0, 0),
    ],
)
def test_an_autoscaler_is_joined_with_the_object_that_it_names(text: str, scaler: str, most: int, fit: int) -> None:
    raw, found = read(text), scaler_of(yaml.safe_load(scaler))
    peaks = peaks_of(raw, templates_of(raw), [] if found is None else [found])
    assert [(sum(one.pods.values()), one.units) for one in peaks if one.pods] == ([(most, fit)] if most else [])


@pytest.mark.parametrize(
    ("text", "group"),
    [
        (LWS % (3, "{}", 2), ("one group", 2, 3)),
        (LWS % (3, "{}", 1), None),
        (VOLCANO % 4, ("the job", 4, 1)),
        (VOLCANO % 3, ("minAvailable", 3, 1)),
        (VOLCANO % "null", ("the job", 4, 1)),
        (RAY % ("RayService", "rayClusterConfig:", "false"), ("its minimum", 3, 1)),
        (DEPLOYMENT % (2, "{}"), None),
    ],
)
def test_the_pods_of_a_group_are_known_where_its_kind_has_groups(text: str, group: Any) -> None:
    found = group_of(read(text), templates_of(read(text)))
    assert group == (None if found is None else (found.name, sum(found.pods.values()), found.number))


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        (DEPLOYMENT % (1, "{}"), True),
        (CRON % "Allow", False),
        ("{apiVersion: batch/v1, kind: Job, spec: {suspend: true}}", False),
        ("{apiVersion: kubeflow.org/v1, kind: PyTorchJob, spec: {runPolicy: {suspend: true}}}", False),
        ("{apiVersion: apps/v1, kind: Deployment, metadata: {labels: {kueue.x-k8s.io/queue-name: q}}}", False),
    ],
)
def test_pods_start_with_their_object_unless_a_schedule_or_a_queue_says_when(text: str, starts: bool) -> None:
    assert starts_now(read(text)) is starts
