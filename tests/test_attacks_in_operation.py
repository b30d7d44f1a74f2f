"""Attacks and faults of operation that happened to other admission webhooks, tried on a replica as a process where that
makes a difference. Those that need a real API server are in tests/e2e.
"""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import FACTS, WORKLOADS, patched, pod, policies, request, requests_only, review, workload
from tests.build import container as make_container
from tests.e2e.eventually import eventually
from tests.facts.fake_api_server import NODES, PODS, FakeApiServer, always, fake_api_server
from tests.operation import Operated, ask, operated
from tests.rules.every_rule import INJECTING
from tests.server.serving import make_certificate, wait_for
from tests.strategies import checked
from webhook.admission import phases

ENFORCED = policies(INJECTING | {"gpuLimits": {"maxPerPod": 4}})
REPAIRING = policies(INJECTING | {"gpuLimits": {"requestsOnly": "repair"}})


@pytest.fixture
def api_server() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        yield server


def inventory(directory: Path) -> Path:
    """A file with the facts of a cluster that has a runtime class and nothing else."""
    file = directory / "inventory.yaml"
    file.write_text("apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: nvidia}\nhandler: nvidia\n")
    return file


def mutate(*args: Any, using: Any = ENFORCED, **kwargs: Any) -> phases.Decision:
    return phases.mutate(request(*args, **kwargs), using, FACTS)


def validate(*args: Any, using: Any = ENFORCED, **kwargs: Any) -> phases.Decision:
    return phases.validate(request(*args, **kwargs), using, FACTS)


# A13: the subresources resize and scale are ways around the rules.


@pytest.mark.parametrize("replicas", [pytest.param(count, id=f"{count} replicas") for count in (0, 1, 1000, None)])
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"])
def test_a_template_is_checked_at_any_number_of_replicas(kind: str, operation: str, replicas: int | None) -> None:
    raw = workload(kind, pod(9))
    raw["spec"]["replicas"] = replicas
    old = workload(kind, pod(0)) if operation == "UPDATE" else None
    assert phases.workloads(request(raw, operation, old=old), ENFORCED, FACTS).answer.warnings


# A14: an update of something else is checked again, and finalizers cannot be removed. tests/e2e does it with a pod that
# is being deleted.


# A15: a fresh replica is ready before it knows the policies, and admits everything.


def test_before_it_knows_the_cluster_a_replica_decides_nothing_and_then_its_reviews_write_nothing(
    tmp_path: Path, api_server: FakeApiServer
) -> None:
    """A27: no request to the API server, which every watch has a connection of its own to, and no file."""
    api_server.instead[NODES] = always(500, {"kind": "Status", "message": "not yet"})
    with operated(tmp_path, f"--kubeconfig={api_server.kubeconfig(tmp_path)}") as replica:
        assert replica.page("/readyz")[0] == 503
        for path in ("/mutate", "/validate"):
            status, headers, body = replica.ask(path, review(pod(9)))
            assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
            assert b"allowed" not in body
        assert replica.metric("gpu_policy_errors_total", reason="not_ready") == 2
        api_server.instead.clear()
        eventually(lambda: replica.page("/readyz")[0] == 200)
        assert not json.loads(replica.ask("/validate", review(pod(9)))[2])["response"]["allowed"]
        eventually(lambda: all(api_server.watches(path) for path in api_server.objects if path != PODS))
        requests, connections, files = len(api_server.seen), len(api_server.sockets), sorted(tmp_path.rglob("*"))
        client = replica.connect()
        for _ in range(50):
            for path in ("/mutate", "/validate"):
                assert ask(client, path, review(pod(9)))[0] == 200
        assert (requests, connections) == (len(api_server.seen), len(api_server.sockets))
        assert files == sorted(tmp_path.rglob("*"))


# A16: a watch is lost, and a replica that calls itself ready decides on what it knew minutes ago.


# A17: a rolling update loses requests, or takes the configuration away. Behind a load balancer: tests/lab/soak.


class Senders:
    """Clients that ask one thing after the other, as the API server does: on connections that they keep."""

    def __init__(self, replica: Operated, count: int) -> None:
        self.replica = replica
        self.answered = 0
        self.lost: list[str] = []
        self.threads = [threading.Thread(target=self._run) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def _run(self) -> None:
        while True:
            try:
                client = self.replica.connect()
            except ConnectionRefusedError:  # its port is closed; a Service would have led to another replica
                return
            except OSError as error:
                self.lost.append(f"connecting: {error!r}")
                return
            try:
                self._ask(client)
            except (OSError, EOFError) as error:
                self.lost.append(f"asking: {error!r}")
                return

    def _ask(self, client: Any) -> None:
        while True:
            status, headers, body = ask(client, "/validate?timeout=5s", review(pod(9)))
            if status != 200 or json.loads(body)["response"]["allowed"]:
                self.lost.append(f"answer: {status} {body!r}")
            self.answered += 1
            if headers["connection"] == "close":
                return

    def wait(self) -> None:
        for thread in self.threads:
            thread.join(60)


def test_a_replica_that_is_told_to_end_answers_everyone_first(tmp_path: Path) -> None:
    with operated(tmp_path, f"--inventory={inventory(tmp_path)}", "--drain-seconds=0.5") as replica:
        senders = Senders(replica, 4)
        wait_for(lambda: senders.answered > 50 or senders.lost)
        assert replica.daemon is not None
        replica.daemon.stop(grace=30)
        senders.wait()
        assert senders.lost == []
        assert replica.daemon.returncode == 0


# A26: an annotation of the pod switches the rules off. A25, labels of its namespace: tests/deploy and tests/e2e.


KEYS = st.sampled_from(
    [
        "gpupolicy.dev/injected",
        "gpupolicy.dev/exempt",
        "gpupolicy.dev/mode",
        "gpupolicy.dev/ignore",
        "admission.gatekeeper.sh/ignore",
        "admissions.enforcer/disabled",
        "policies.kyverno.io/scored",
        "polaris.fairwinds.com/exempt",
        "control-plane",
        "kubernetes.io/config.mirror",
        "kubernetes.io/metadata.name",
        "helm.sh/hook",
    ]
)
VALUES = st.sampled_from(["true", "false", "", "gpuLimits", "*", "disabled", "kube-system", "gpuLimits,visibleDevices"])
OTHERS = st.text(st.characters(exclude_characters="-./"), max_size=20)
"""No keys by which a pod asks for devices."""
WRITTEN = st.dictionaries(KEYS | OTHERS, VALUES | st.text(max_size=20), max_size=4)


@checked
@given(annotations=WRITTEN, labels=WRITTEN)
def test_nothing_that_is_written_on_a_pod_exempts_it(annotations: dict[str, str], labels: dict[str, str]) -> None:
    """Neither phase looks away, nobody's message changes, and what is injected is the same."""
    raw = pod(9, annotations=annotations, labels=labels)
    assert validate(pod(9)).answer == validate(raw).answer
    plain, dressed = pod(2), pod(2, annotations=annotations, labels=labels)
    assert patched(plain, mutate(plain))["spec"] == patched(dressed, mutate(dressed))["spec"]


# A29: two controllers undo each other's changes for ever.


def test_what_another_webhook_adds_between_two_calls_is_completed_and_the_rest_left_alone() -> None:
    once = patched(raw := pod(2), mutate(raw))
    once["spec"]["containers"].append(make_container("sidecar"))
    again = mutate(once)
    assert {
        operation["path"].split("/")[3] for operation in again.answer.patch if "containers" in operation["path"]
    } == {"1"}
    assert mutate(patched(once, again)).answer.patch == ()


@pytest.mark.parametrize("kind", WORKLOADS)
def test_workloads_stay_as_they_were_written(kind: str) -> None:
    for raw in (pod(2), pod(9), pod(0), requests_only()):
        for using in (ENFORCED, REPAIRING):
            asked = request(workload(kind, raw))
            assert phases.mutate(asked, using, FACTS) is phases.UNCONCERNED
            assert phases.workloads(asked, using, FACTS).answer.patch == ()


# A33: somebody other than the API server talks to the port. A46: usage of other namespaces in refusals.

RUNNING = """apiVersion: v1
kind: Pod
metadata: {name: secret-training, namespace: team}
spec:
  containers: [{name: c, image: registry.example.com/train:1, resources: {limits: {nvidia.com/gpu: 6}}}]
"""
LIMITED = """apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicy
metadata: {name: team}
spec: {rules: {gpuQuota: {mode: enforce, gpus: 8}}}
"""


def test_with_an_authority_for_clients_only_its_clients_are_answered_and_hear_no_more_than_the_platform_says(
    tmp_path: Path,
) -> None:
    """That a client of another name is objected to is in tests/server/test_tls.py, and what is said of usage otherwise
    in tests/admission/test_service_quotas.py.
    """
    file = tmp_path / "inventory.yaml"
    file.write_text(RUNNING)
    ours = make_certificate(tmp_path, "api-server")
    names = ["--client-name=other", "--client-name=api-server", "--quota-names=none"]
    replica = Operated(tmp_path, f"--inventory={file}", f"--client-ca={ours[0]}", *names)
    (replica.policies / "team.yaml").write_text(LIMITED)
    try:
        replica.start()
        for path in ("/mutate", "/validate"):
            status, _, body = ask(replica.connect(*ours), path, review(pod(4), namespace="team"))
            assert status == 200
            assert replica.ask(path, review(pod(9)))[0] == 403
        for page in ("/livez", "/readyz", "/metrics"):
            assert replica.page(page)[0] == 200
        assert replica.metric("gpu_policy_errors_total", reason="forbidden") == 2
    finally:
        replica.stop()
    message = json.loads(body)["response"]["status"]["message"]
    assert "requested 4, more than is free of 8;" in message
    assert not [word for word in ("secret-training", "used", "6") if word in message]
