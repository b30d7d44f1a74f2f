"""An API server that knows policy reports or does not, and what stands in them."""

from pathlib import Path
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from webhook.audit.reports.policy_results import Format
from webhook.replica.published_reports import FORMATS, ReportKind

DEFINITIONS = {
    ReportKind.POLICY_REPORTS: Path(__file__).parent / "crds" / "policyreports.yaml",
    ReportKind.OPEN_REPORTS: Path(__file__).parent / "crds" / "reports.yaml",
}

Raw = dict[str, Any]


class ReportCluster:
    """The session's API server; `objects` of a kind are all that there are, of every namespace and of none."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    def install(self, *kinds: ReportKind) -> None:
        """Have it know these kinds of reports, and no others."""
        for kind, file in DEFINITIONS.items():
            if self.is_served(kind) is (kind in kinds):
                continue
            if kind in kinds:
                self.plane.kubectl("apply", "-f", str(file))
            else:
                self.plane.kubectl("delete", "--ignore-not-found", "--wait", "-f", str(file))
            eventually(lambda kind=kind: self.is_served(kind) is (kind in kinds))

    def is_served(self, kind: ReportKind) -> bool:
        """Whether both objects of a kind can be listed and are discovered."""
        form = FORMATS[kind]
        paths = [f"/apis/{form.api}", *self._paths(form)]
        return all(self.plane.raw("GET", path)[0] == 200 for path in paths)

    def objects(self, kind: ReportKind) -> list[Raw]:
        """All of them, sorted by namespace and name."""
        found = [raw for path in self._paths(FORMATS[kind]) for raw in self.plane.raw("GET", path)[1]["items"]]
        return sorted(found, key=lambda raw: (raw["metadata"].get("namespace", ""), raw["metadata"]["name"]))

    def places(self, kind: ReportKind) -> list[tuple[str, str]]:
        """Namespace and name of each."""
        return [(raw["metadata"].get("namespace", ""), raw["metadata"]["name"]) for raw in self.objects(kind)]

    def versions(self, kind: ReportKind) -> dict[str, str]:
        """The resourceVersion of each, by its uid."""
        return {raw["metadata"]["uid"]: raw["metadata"]["resourceVersion"] for raw in self.objects(kind)}

    @staticmethod
    def _paths(form: Format) -> list[str]:
        return [f"/apis/{form.api}/{plural}" for plural in (form.plural(), form.plural(is_of_cluster=True))]
