"""TrainJobs: the pods of the runtime that they name, with what they say instead."""

from typing import Any

from tests.build import container, node, policies, policy
from tests.golden import each
from webhook import engine
from webhook.facts.facts import ClusterFacts
from webhook.model.json_parts import part

GPU = "nvidia.com/gpu"
TRAINER = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
NODES = [node("n0", labels={"nvidia.com/gpu.product": "Tesla-T4"}, capacity={GPU: "8"})]


def job(name: str, gpus: int, *, is_trainer: bool = False, **spec: Any) -> dict[str, Any]:
    labels = TRAINER if is_trainer else {}
    own = container("node", limits={GPU: gpus} if gpus else {}, image="runtime:1")
    template = {"metadata": {"labels": labels}, "spec": {**spec, "template": {"spec": {"containers": [own]}}}}
    return {"name": name, "template": template}


def runtime(*jobs: dict[str, Any], kind: str = "ClusterTrainingRuntime", **policy: Any) -> dict[str, Any]:
    spec = {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": list(jobs)}}}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": kind, "metadata": {"name": "torch"}, "spec": spec}


def train_job(*, kind: str = "", patches: Any = None, **trainer: Any) -> dict[str, Any]:
    ref = {"name": "torch"} | ({"kind": kind} if kind else {})
    spec = {"runtimeRef": ref, "trainer": trainer} | ({"podTemplateOverrides": patches} if patches else {})
    meta = {"name": "ft", "namespace": "team"}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": meta, "spec": spec}


TORCH = runtime(job("node", 8, is_trainer=True), job("model-initializer", 0), numNodes=2, torch={})
MPI = runtime(job("node", 4), job("launcher", 0, is_trainer=True), numNodes=1, mpi={"runLauncherAsNode": True})
CPU = {"requests": {"cpu": 16, "memory": "9Gi"}}


def outcomes(found: dict[str, Any], of: dict[str, Any], **rules: Any) -> tuple[engine.TemplateOutcome, ...]:
    facts = ClusterFacts.of(NODES)
    known = ClusterFacts(facts.cluster.with_runtimes([of], "team"))
    quotas = policies(rules).quotas_for("team")
    return engine.template_outcomes(found, "team", policy(rules), known, quotas)


@each(
    "found, of, expected",
    {
        "as the runtime": (train_job(), TORCH, {"trainer": (2, 8), "model-initializer": (1, 0)}),
        "its nodes": (train_job(numNodes=4), TORCH, {"trainer": (4, 8), "model-initializer": (1, 0)}),
        "?": (train_job(numNodes="{{n}}"), TORCH, {"trainer": (None, 8), "model-initializer": (1, 0)}),
        "its resources": (
            train_job(resourcesPerNode={"limits": {GPU: 2}}),
            TORCH,
            {"trainer": (2, 2), "model-initializer": (1, 0)},
        ),
        "CPU": (train_job(resourcesPerNode=CPU), TORCH, {"trainer": (2, 0), "model-initializer": (1, 0)}),
        "the launcher is a node": (train_job(numNodes=4), MPI, {"node": (3, 4), "trainer": (1, 0)}),
        "of its namespace": (
            train_job(kind="TrainingRuntime"),
            runtime(job("node", 1, is_trainer=True), kind="TrainingRuntime"),
            {"trainer": (1, 1)},
        ),
        "of another kind": (train_job(kind="TrainingRuntime"), TORCH, {}),
        "odd": (train_job(), runtime({"name": "node"}, job("a", 0, parallelism=3)), {"a": (3, 0)}),
    },
)
def test_a_train_job_makes_the_pods_of_its_runtime(found, of, expected) -> None:
    assert {one.template.group: (one.template.pods, one.gpus) for one in outcomes(found, of)} == expected


def test_what_the_train_job_says_has_its_place_there() -> None:
    selecting = {"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"a": "b"}}}
    said = train_job(image="mine:1", env=[{"name": "A", "value": "1"}], patches=[selecting])
    first, other = (one.template for one in outcomes(said, TORCH))
    inside = first.pod["spec"]["containers"][0]
    assert (inside["image"], inside["env"], part(first.pod, "spec", "nodeSelector")) == (
        "mine:1",
        [{"name": "A", "value": "1"}],
        {"a": "b"},
    )
    assert [first.place(f"spec.{field}") for field in ("containers[node].image", "containers[node].resources")] == [
        "spec.trainer.image",
        "spec.runtimeRef[torch].containers[node].resources",
    ]
    assert other.pod["spec"]["containers"][0]["image"] == "runtime:1"


def test_gpus_that_resources_per_node_takes_away_are_told() -> None:
    (told,) = (one for outcome in outcomes(train_job(resourcesPerNode=CPU), TORCH) for one in outcome.findings)
    assert told.field == "spec.trainer.resourcesPerNode"
    assert told.message == (
        "requests no GPU, and runtime torch requests 8 nvidia.com/gpu; before Trainer 2.3 resourcesPerNode replaces "
        "them, so that the pods get none"
    )
    assert not told.refuses


def test_a_quota_counts_all_nodes() -> None:
    (found,) = outcomes(train_job(numNodes=4), TORCH, gpuQuota={"gpus": 16})[0].findings
    assert "its 4 pods request 32 GPUs together" in found.message


def test_a_replica_knows_no_runtimes() -> None:
    said = engine.validate_workload(train_job(numNodes=4), "team", policy({"gpuQuota": {"gpus": 0}}), ClusterFacts())
    assert said.findings == ()
