"""What pods go through on their way into the API server: nothing, the product, or a peer of it."""

import base64
import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.deploy.manifests import shipped
from tests.e2e.control_plane import ControlPlane
from tests.lab.benchmarks import gatekeeper
from tests.lab.benchmarks.injections import Raw, completed, demand_all, shared
from tests.lab.benchmarks.minimal import ANNOTATIONS
from tests.lab.benchmarks.peers import CEL_ANNOTATIONS, cel_policies
from tests.lab.benchmarks.runs import demand
from tests.lab.benchmarks.served import Served
from webhook.engine.mutating import stamp_of
from webhook.policy.loader import load

DRY_RUN = "/api/v1/namespaces/bench/pods?dryRun=All"
PATIENCE = 30.0
"""Seconds until what was registered has to be in force."""
_RULES = "tolerations,runtimeClass,sharedMemory,ncclEnv,cudaDriver"


@dataclass(frozen=True, slots=True)
class Case:
    """One way. `objects` are what is registered meanwhile, and `server` takes CPU for it.

    It makes `expected` of `base`, the pod as it is stored when nobody changes it. Where it `refuses`, that is what
    becomes of a pod with too many GPUs.
    """

    name: str
    base: Raw
    expected: Raw
    objects: Sequence[Raw] = ()
    server: Served | None = None
    refuses: bool = False

    @contextmanager
    def in_force(self, plane: ControlPlane) -> Iterator[None]:
        """Registered, and seen to be: dry runs end as they should."""
        text = yaml.safe_dump_all(self.objects)
        if self.objects:
            plane.kubectl("apply", "-f", "-", input=text)
        try:
            self._wait(plane)
            yield
        finally:
            if self.objects:
                plane.kubectl("delete", "-f", "-", input=text)

    def _wait(self, plane: ControlPlane) -> None:
        deadline = time.monotonic() + PATIENCE
        greedy = copy.deepcopy(self.base)
        for amounts in greedy["spec"]["containers"][0]["resources"].values():
            amounts["nvidia.com/gpu"] = "16"
        while True:
            status, pod = plane.raw("POST", DRY_RUN, self.base)
            is_refused = plane.raw("POST", DRY_RUN, greedy)[0] != 201
            if status == 201 and shared(pod) == shared(self.expected) and is_refused is self.refuses:
                return
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
        demand(status == 201, f"{self.name}: the pod of this benchmark is refused: {pod}")
        demand_all([pod], self.expected, range(1, 2), self.name)
        demand(False, f"{self.name}: 16 GPUs are {'refused' if is_refused else 'allowed'}, and should not be")


def cases_of(plane: ControlPlane, servers: Mapping[str, Served], policies: Path, base: Raw) -> list[Case]:
    """All ways; `servers` are the product, the minimal webhook, and Gatekeeper, perhaps."""
    (product, one), (minimal, other), *rest = servers.items()
    stamp = stamp_of(load(policies).for_namespace("bench"))
    pod = completed(base, {"gpupolicy.dev/injected": _RULES, "gpupolicy.dev/policy": stamp})
    cases = [
        Case("no webhook", base, base),
        Case(product, base, pod, _registration(one), one, refuses=True),
        Case(minimal, base, completed(base, ANNOTATIONS, {}), _registration(other), other),
        Case("CEL policies", base, completed(base, CEL_ANNOTATIONS), cel_policies(), refuses=True),
    ]
    for name, server in rest:
        objects = gatekeeper.registration(_bundle(server), server.port)
        cases.append(Case(name, base, completed(base, gatekeeper.ANNOTATIONS), objects, server, refuses=True))
    return cases


def _registration(server: Served) -> list[Raw]:
    """Both configurations of deploy/, pointing at the server by Service reference."""
    objects = shipped()
    for entry in objects.entries:
        entry["clientConfig"]["caBundle"] = _bundle(server)
        entry["clientConfig"]["service"]["port"] = server.port
    return objects.configurations


def _bundle(server: Served) -> str:
    return base64.b64encode(server.ca_file.read_bytes()).decode()
