"""Findings name namespaces that are left out and do not exist."""

from collections.abc import Iterator
from typing import Any

from webhook.doctor.cluster import DoctorCluster
from webhook.doctor.configurations import absent_namespaces
from webhook.doctor.doctor_report import DoctorFinding, Status
from webhook.doctor.installation import Installation, Place


class Holding(DoctorCluster):
    """A cluster with these namespaces, whose webhook configurations leave others out."""

    def __init__(self, namespaces: list[str], excluded: tuple[str, ...]) -> None:
        self._namespaces = namespaces
        expression = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(excluded)}
        self._configuration = {"webhooks": [{"namespaceSelector": {"matchExpressions": [expression]}}, {}]}

    def find(self, path: str, *_: Any) -> Any:
        return self._configuration if "webhookconfigurations" in path else None

    def items(self, path: str, *_: Any) -> Iterator[Any]:
        assert path == "/api/v1/namespaces"
        yield from ({"metadata": {"name": name}} for name in self._namespaces)


def looked(namespaces: list[str], *excluded: str) -> list[DoctorFinding]:
    return list(absent_namespaces(Installation(Holding(namespaces, excluded), Place())))


def test_A47_a_namespace_that_is_left_out_and_not_there_is_told() -> None:
    there = ["kube-system", "gpu-policy"]
    (found,) = looked(there, "kube-system", "gpu-operator", "gpu-policy", "amd-gpu")
    assert (found.status, found.found) == (
        Status.WARNING,
        "the webhook configurations leave out namespaces that do not exist: amd-gpu, gpu-operator; pods in such a "
        "namespace are not validated",
    )
    assert "webhook.namespaceSelector.exclude" in found.remedy
    (found,) = looked([*there, "gpu-operator"], "kube-system", "gpu-operator", "gpu-policy")
    assert found.status is Status.OK
