"""The kind of Knative Serving that people write.

Fields are those of config/core/300-resources in knative/serving, annotations those of pkg/apis/autoscaling.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.model.workloads.parts import from_template, mapped, part
from webhook.model.workloads.template import Template

_LEAST = ("autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/minScale")
_MOST_DIGITS = 9
_DISALLOWED = frozenset({"spec.activeDeadlineSeconds"})
"""What nobody can write, since Knative takes it for a mistake (pkg/apis/serving/fieldmask.go); pods get it later."""


def service(raw: Mapping[str, Any]) -> Iterator[Template]:
    """Service of Knative."""
    template = part(raw, "spec", "template")
    pods = _least(mapped(template, "metadata", "annotations"))
    for made in from_template(template, "spec.template", pods=pods):
        yield replace(made, unknown=_DISALLOWED)


def _least(annotations: Mapping[str, Any]) -> int | None:
    """The pods that run in any case; not known of what is scaled up from none on demand."""
    written = str(next((annotations[key] for key in _LEAST if key in annotations), ""))
    is_number = written.isascii() and written.isdigit() and len(written) <= _MOST_DIGITS
    return int(written) or None if is_number else None
