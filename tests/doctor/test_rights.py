"""What the doctor asks for is what the chart grants, no more and no less, however certificates are kept."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from tests.deploy.manifests import needs_helm, rendered
from tests.golden import golden
from webhook.doctor.installation import Place, WebhookDeployment
from webhook.doctor.replicas import needed


def granted(role: dict[str, Any]) -> Iterator[tuple[str, str, str, str, str]]:
    namespace = role["metadata"].get("namespace", "")
    for rule in role["rules"]:
        names = rule.get("resourceNames", [""])
        for group, resource, verb, name in product(rule["apiGroups"], rule["resources"], rule["verbs"], names):
            yield verb, group, resource, name, namespace


@needs_helm
@golden
def test_the_rights_that_are_needed_are_those_that_the_chart_grants(values: dict[str, Any]) -> None:
    objects = rendered(values)
    asked = {
        (right.verb, right.group, right.resource, right.name, right.namespace)
        for right in needed(WebhookDeployment(objects.one("Deployment")), Place())
    }
    roles = [objects.one("ClusterRole", "gpu-policy"), *objects.of("Role")]
    assert asked == {right for role in roles for right in granted(role)}
