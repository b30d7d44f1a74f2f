"""Replicas behind a load balancer, registered with a real API server, and pods that keep coming."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import Installation
from tests.e2e.load_balancer import LoadBalancer
from tests.e2e.replica_set import ReplicaSet
from tests.e2e.steady_load import Create, SteadyLoad
from tests.lab.soak.account import Account, lacking

SECONDS = float(os.environ.get("SOAK_SECONDS", "60"))
"""How long pods keep coming in each test; below 24 the changes of a policy come faster than replicas look."""


class Site:
    """Three replicas with the certificates and policies of an installation, and a namespace of theirs.

    `balancing` is what the LoadBalancer is told. Entered, it is registered; left, everything has ended and nothing
    is registered. `accounts` collects figures.
    """

    def __init__(
        self, installation: Installation, namespace: str, directory: Path, accounts: list[Account], **balancing: str
    ) -> None:
        self.plane: ControlPlane = installation.plane
        self.policies = {file.name: file.read_text() for file in installation.policies.glob("*.yaml")}
        self.namespace = namespace
        self.directory = directory
        self._installation = installation
        self._accounts = accounts
        arguments = [f"--kubeconfig={self.plane.kubeconfig}", *self.certificate_arguments()]
        self.replicas = ReplicaSet(directory / "replicas", self.policies, arguments)
        self.balancer = LoadBalancer(directory, self.replicas.ports, **balancing)

    def certificate_arguments(self) -> list[str]:
        """What replicas are told about certificates."""
        files = self._installation.files
        return [f"--cert={files.cert_file}", f"--key={files.key_file}"]

    def configurations(self) -> list[dict[str, Any]]:
        """The webhook configurations, leading to the load balancer; where nobody answers there, nothing is admitted."""
        documents = self._installation.configurations()
        for document in documents:
            for webhook in document["webhooks"]:
                webhook["clientConfig"]["service"]["port"] = self.balancer.port
                webhook["failurePolicy"] = "Fail"
        return documents

    def __enter__(self) -> "Site":
        try:
            self.replicas.start()
            self.balancer.start()
            self.wait_for_members()
            self.plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(self.configurations()))
            eventually(self._installation.is_asked)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._installation.unregister()
        self.balancer.stop()
        self.replicas.stop()

    def wait_for_members(self) -> None:
        """Return when the load balancer sends connections to the running replicas and to no others."""
        expected = {replica.port for replica in self.replicas.running}
        eventually(lambda: self.balancer.members() == expected)

    @contextmanager
    def under_load(self, event: str, lacks: Callable[[Create], list[str]] | None = None) -> Iterator[Account]:
        """Create pods while the block runs and for SECONDS at least; the account is kept for the table.

        `lacks` names the injections that a pod should have; by default those of the policies as installed.
        """
        with SteadyLoad(self.plane, self.namespace) as load:
            account = Account(event, load, lacks or lacking)
            yield account
            load.go_on_for(SECONDS)
        self._accounts.append(account)

    def policy_hashes(self) -> list[str]:
        """What each running replica decides by."""
        pages = (replica.get("/readyz")[1] for replica in self.replicas.running)
        return [line for page in pages for line in page.splitlines() if line.startswith("policies: ")]

    def agreed_policy(self) -> str | None:
        """The hash by which all running replicas decide; None while they differ."""
        hashes = set(self.policy_hashes())
        return hashes.pop() if len(hashes) == 1 else None
