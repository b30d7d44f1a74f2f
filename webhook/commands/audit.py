"""The command `gpu-policy audit`: what policies would do to the objects in files or in a cluster."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from webhook.audit.writing import FORMATS, rendered
from webhook.commands.inputs import (
    UNUSABLE,
    background_of,
    echo,
    fail,
    inventory_of,
    load_policies,
    manifests_of,
    on_progress,
)
from webhook.commands.options import BY_SUFFIX, Policies, SourceOptions, Strict, option, takes

if TYPE_CHECKING:
    from webhook.audit.object_sources import ObjectSource
    from webhook.audit.report import AuditReport
    from webhook.audit.review_objects import LookedUpImages
    from webhook.model.accelerators import Accelerators
    from webhook.policy.policy_set import PolicySet
    from webhook.replica.settings import ConfigMapPlace
    from webhook.why.waiting_pods import WaitingPods


class AuditOptions(SourceOptions, Policies, Strict):
    """Raises ValueError where options contradict each other."""

    format: str = option("Format of the report.", None, otherwise=BY_SUFFIX, type=click.Choice([*FORMATS, "yaml"]))
    against: Path | None = option(
        "Directory of the policies in force. The report then says what --policies would change.", metavar="PATH"
    )
    fail_on: str = option(
        "Exit with status 1 if there is a finding of this level or above.",
        "refuse",
        type=click.Choice(["refuse", "warn", "never"]),
    )
    publish: str | None = option(
        "With --cluster, also write policy reports into the cluster: of this kind, or of the kind that it has (auto).",
        type=click.Choice(["auto", "policyreports", "openreports"]),
    )
    publish_status: str | None = option(
        "With --cluster, also write the totals into this ConfigMap.", metavar="NAMESPACE/NAME"
    )

    def __post_init__(self) -> None:
        if self.cluster == bool(self.paths):
            fail("name either files, directories or - (standard input), or --cluster")
        if self.cluster and self.strict:
            fail("--strict is for files, because objects of a cluster have each key once; leave it out")
        if not self.cluster and (self.publish or self.publish_status):
            fail("--publish and --publish-status need --cluster")
        SourceOptions.__post_init__(self)

    def source(self, accelerators: "Accelerators", waiting: "WaitingPods | None") -> "ObjectSource":
        """The objects, and the facts about their cluster; `accelerators` are the names of GPUs."""
        from webhook.audit import object_sources

        if self.cluster:
            facts = None if self.inventory is None else inventory_of(self.inventory, accelerators).facts
            on_node = waiting.add_node if waiting is not None else lambda _node: None
            read = partial(object_sources.of_cluster, self.server, self.scope, on_progress, facts, accelerators)
            return read(on_node=on_node, reads_scalers=True)
        documents = manifests_of(self.paths, is_strict=self.strict)
        background = background_of(self.inventory, self.kubeconfig, accelerators, self.context)
        return object_sources.of_files(documents, self.default_namespace, background)


@click.command()
@takes(AuditOptions)
def audit(asked: AuditOptions) -> None:
    """Report what policies would do to files or a cluster.

    Audits pods and everything that makes pods, and reports what would be injected, refused and warned about. A fault is
    reported once, for the object that has to be changed: for the Deployment, and not for each of its hundred pods.

    Exit status: 0 no finding of the level of --fail-on or above, 1 there are such findings, 2 some input cannot be used
    (2 takes precedence over 1).
    """
    from webhook.audit.report import Level
    from webhook.audit.reports.as_text import summary
    from webhook.replica.settings import ConfigMapPlace
    from webhook.why.waiting_pods import WaitingPods

    try:
        place = None if asked.publish_status is None else ConfigMapPlace.of("--publish-status", asked.publish_status)
    except ValueError as error:
        fail(str(error))
    images = asked.images()
    directories = filter(None, (asked.policies, asked.against))
    sets = [(str(directory), load_policies(directory)) for directory in directories]
    waiting = WaitingPods(sets[0][1], asked.scope) if asked.cluster else None
    report = _report(asked.source(sets[0][1].accelerators, waiting), sets, images, waiting)
    asked.write(partial(rendered, report))
    if asked.output is not None:
        echo("\n".join(summary(report, str(asked.output))), is_error=True)
    status = report.exit_status(None if asked.fail_on == "never" else Level(asked.fail_on))
    if (asked.publish or place) and not _publish(report, asked, place):
        status = UNUSABLE
    sys.exit(status)


def _report(
    source: "ObjectSource",
    sets: "Sequence[tuple[str, PolicySet]]",
    images: "LookedUpImages | None",
    waiting: "WaitingPods | None",
) -> "AuditReport":
    """Review every object under the proposed policies and, if there are two sets, under the policies in force.

    `waiting` explains the pods of a cluster that are Pending.
    """
    from webhook.audit.auditing import Audit
    from webhook.audit.review_objects import review_object

    proposed, *others = [source.context(policies, directory, images) for directory, policies in sets]
    audit = Audit(source, proposed, datetime.now(UTC), *others)
    facts, documents = source.background.facts, source.documents
    if waiting is not None:
        documents = waiting.passing(documents, source.owners, facts)
    if images is not None:
        contexts = (proposed, *others)
        documents = images.before(
            documents, lambda one: [review_object(one, source.namespace, each, is_running=True) for each in contexts]
        )
    for document in documents:
        audit.add(document)
    report = audit.report()
    return report if waiting is None else replace(report, pending=waiting.explained(facts, proposed.now))


def _publish(report: "AuditReport", asked: AuditOptions, place: "ConfigMapPlace | None") -> bool:
    from certs.cluster import ClusterError
    from webhook.replica.audit_status import store, written
    from webhook.replica.kubernetes_cluster import KubernetesCluster
    from webhook.replica.published_reports import PublishedReports, ReportKind, publish

    server, published = asked.server, PublishedReports()
    if asked.publish is not None:
        published = publish(report, server, ReportKind(asked.publish), place, asked.scope)
    errors = list(published.errors)
    if place is not None:
        try:
            store(KubernetesCluster(server), place, written(report, published, datetime.now(UTC)))
        except ClusterError as error:
            errors.append(str(error))
    for fault in errors:
        echo(fault, is_error=True)
    return not errors
