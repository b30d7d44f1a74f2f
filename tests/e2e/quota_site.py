"""Three replicas that share the ledgers of quotas, behind a load balancer, registered with a real API server."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import yaml

from tests.deploy.manifests import shipped
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import NAMESPACE, Installation
from tests.e2e.load_balancer import EAGER, LoadBalancer
from tests.e2e.objects import JUDGED
from tests.e2e.quota_proxy import ApiProxy
from tests.e2e.replica_set import ReplicaSet
from webhook.ledger.entries import LABEL, PREFIX, entries_in

CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


def quota_policy(prefix: str, quota: str) -> str:
    """The policy of the namespaces `<prefix>-*`, which injects nothing; `quota` is its gpuQuota, YAML on one line."""
    head = f"apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {{name: {prefix}}}\n"
    return f'{head}spec:\n  namespaces: ["{prefix}-*"]\n  rules:\n    gpuQuota: {quota}\n{JUDGED}'


def shared_quotas_text(*shared_quotas: Mapping[str, Any]) -> str:
    """The file of the quotas."""
    head = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUSharedQuotas", "metadata": {"name": "_quotas"}}
    return yaml.safe_dump({**head, "spec": {"quotas": list(shared_quotas)}})


def ledger_path(key: str) -> str:
    """Where the ledger of a quota is."""
    return f"{CONFIG_MAPS}/{PREFIX}{key}"


class QuotaSite:
    """Entered, it is registered; left, everything has ended, nothing is registered and no ledger is left.

    `policies` are added to those of the installation, by file name. There are `size` replicas; the first `proxied` of
    them reach the API server through a proxy of their own.
    """

    def __init__(
        self,
        installation: Installation,
        directory: Path,
        policies: Mapping[str, str],
        *,
        in_flight_seconds: float,
        size: int = 3,
        proxied: int = 3,
    ) -> None:
        self.plane: ControlPlane = installation.plane
        self.installation = installation
        self._policies = {file.name: file.read_text() for file in installation.policies.glob("*.yaml")} | policies
        files = installation.files
        arguments = [
            f"--cert={files.cert_file}",
            f"--key={files.key_file}",
            f"--quota-ledgers={NAMESPACE}",
            f"--quota-in-flight-seconds={in_flight_seconds:g}",
        ]
        self.replicas = ReplicaSet(directory / "replicas", self._policies, arguments, size)
        self.proxies = [ApiProxy(self.plane, directory) for _ in range(proxied)]
        for place, replica in enumerate(self.replicas.running):
            kubeconfig = self.proxies[place].kubeconfig if place < proxied else self.plane.kubeconfig
            replica.arguments.append(f"--kubeconfig={kubeconfig}")
        self.balancer = LoadBalancer(directory, self.replicas.ports, extra=EAGER)

    def __enter__(self) -> "QuotaSite":
        try:
            self._define()
            self.replicas.start()
            self.balancer.start()
            self.wait_for_members()
            self.register()
            eventually(self.installation.is_asked)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.installation.unregister()
        self.balancer.stop()
        for replica in self.replicas.running:
            replica.kill()
        for proxy in self.proxies:
            proxy.close()
        self.plane.raw("DELETE", f"{CONFIG_MAPS}?labelSelector={quote(LABEL)}")

    def register(self, failure_policy: str = "Fail") -> None:
        """Have the API server ask the load balancer."""
        configurations = self.installation.configurations()
        for webhook in (entry for configuration in configurations for entry in configuration["webhooks"]):
            webhook["clientConfig"]["service"]["port"] = self.balancer.port
            webhook["failurePolicy"] = failure_policy
        self.installation.apply(configurations)

    def wait_for_members(self) -> None:
        """Return when the load balancer sends connections to every running replica."""
        expected = {replica.port for replica in self.replicas.running}
        eventually(lambda: self.balancer.members() == expected)

    def write_policies(self, policies: Mapping[str, str]) -> None:
        """Change policies by file name, and return when every replica decides by them."""
        self._policies |= policies
        before = self._hashes()
        for replica in self.replicas.running:
            replica.policies.replace(self._policies)
        eventually(lambda: not self._hashes() & before and len(self._hashes()) == 1)

    def ledger(self, key: str) -> dict[str, Any]:
        """The object in which the ledger of a quota is kept; empty where there is none."""
        status, found = self.plane.raw("GET", ledger_path(key))
        assert status in {200, 404}, found
        return dict(found) if status == 200 else {}

    def entered(self, key: str) -> set[str]:
        """The uids that have an entry in the ledger of a quota."""
        ledger = self.ledger(key)
        return {str(UUID(bytes=uid)) for uid in entries_in(ledger).by_uid} if ledger else set()

    def metric(self, name: str, *labels: str) -> float:
        """The sum of a metric over all replicas."""
        return sum(replica.metric(name, *labels) for replica in self.replicas.running)

    def logs(self) -> str:
        """The end of what each replica wrote, for whoever has to find out why an assertion failed."""
        return "\n".join("\n".join(one.log.read_text().splitlines()[-15:]) for one in self.replicas.running)

    def _define(self) -> None:
        definitions = shipped().of("CustomResourceDefinition")
        self.plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(definitions))
        self.plane.kubectl(
            "wait", "--for=condition=Established", *(f"crd/{d['metadata']['name']}" for d in definitions)
        )

    def _hashes(self) -> set[str]:
        pages = (replica.get("/readyz")[1] for replica in self.replicas.running)
        return {line for page in pages for line in page.splitlines() if line.startswith("policies: ")}
