"""Namespaces carry the label by which the configurations tell them apart."""

from collections.abc import Iterator

from webhook.doctor.doctor_finding import DoctorFinding, ok, problem
from webhook.doctor.installation import Installation

LABEL = "kubernetes.io/metadata.name"


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """Every namespace carries kubernetes.io/metadata.name with its own name."""
    count = wrong = 0
    for namespace in installation.cluster.items("/api/v1/namespaces"):
        count += 1
        name = namespace["metadata"]["name"]
        found = (namespace["metadata"].get("labels") or {}).get(LABEL)
        if found != name:
            wrong += 1
            yield problem(
                f"namespace {name} has {'no label' if found is None else f'the label {found} in'} {LABEL}",
                f"{LABEL}={name}, by which the webhook configurations leave namespaces out",
                f"kubectl label namespace {name} {LABEL}={name} --overwrite",
            )
    if not wrong:
        yield ok(f"{count} namespaces carry {LABEL}")
