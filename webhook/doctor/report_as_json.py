"""The report as JSON, for programs. The shape is a contract; its version is in `apiVersion`."""

import json

from webhook.doctor.checklist import DoctorReport
from webhook.doctor.doctor_finding import Status
from webhook.doctor.installation import Place

API_VERSION = "gpupolicy.dev/v1alpha1"


def render(report: DoctorReport, place: Place) -> str:
    """The report, indented, with a newline at its end, in plain ASCII so that any pipe carries it."""
    document = {
        "apiVersion": API_VERSION,
        "kind": "DoctorReport",
        "namespace": place.namespace,
        "name": place.name,
        "counts": {status.value: report.count(status) for status in Status},
        "results": [
            {
                "check": result.check.key,
                "status": result.finding.status.value,
                "found": result.finding.found,
                "expected": result.finding.expected,
                "remedy": result.finding.remedy,
            }
            for result in report.results
        ],
    }
    return json.dumps(document, indent=2) + "\n"
