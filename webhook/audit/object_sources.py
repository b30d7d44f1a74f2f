"""Where the objects of an audit come from, with all that has to be known to judge them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from webhook.audit.auditing import Background
from webhook.audit.cluster_facts import read_facts
from webhook.audit.cluster_objects import ClusterObjects, NamespaceScope, Progress
from webhook.audit.collect import AuditScope
from webhook.audit.documents import Document, DocumentError
from webhook.audit.input_claims import InputClaims, knowing_claims
from webhook.audit.owners import Owners
from webhook.facts.pod_source import LivePods
from webhook.facts.snapshot import Snapshot
from webhook.kubernetes.api_server import ApiServer
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.workloads import is_pod, templates_of


@dataclass(frozen=True, slots=True)
class ObjectSource:
    """The objects, once, and who owns them by the time that they come."""

    documents: Iterable[Document | DocumentError]
    owners: Owners
    place: AuditScope
    background: Background


def of_files(documents: Sequence[Document | DocumentError], namespace: str, background: Background) -> ObjectSource:
    """What was read of files; objects that name no namespace are taken to be in `namespace`."""
    owners, facts = Owners(), knowing_claims(background.facts, documents, namespace)
    for document in documents:
        if isinstance(document, Document):
            makes_pods = bool(templates_of(document.object)) or is_pod(document.api_version, document.kind)
            owners.learn(document.object, is_audited=makes_pods)
    return ObjectSource(
        documents, owners, AuditScope(False, namespace), replace(background, facts=facts, claims=InputClaims(facts))
    )


def of_cluster(
    server: ApiServer,
    scope: NamespaceScope,
    tell: Callable[[Progress], None],
    facts: Snapshot | None = None,
    accelerators: Accelerators = BUILT_IN,
) -> ObjectSource:
    """What an API server holds. It is read while it is gone through; `tell` hears how far that is.

    `facts` are what is known of the cluster already; without them its nodes and classes are read first.
    """
    errors: tuple[DocumentError, ...] = ()
    if facts is None:
        facts, errors = read_facts(server, accelerators)
    objects = ClusterObjects(server, scope, tell)
    place = AuditScope(True, scope=scope)
    return ObjectSource(chain(errors, objects), objects.owners, place, Background(facts))


def read_background(
    server: ApiServer, accelerators: Accelerators = BUILT_IN
) -> tuple[Background, tuple[DocumentError, ...]]:
    """The cluster that files are meant for, and errors for what of it could not be read."""
    facts, errors = read_facts(server, accelerators)
    return Background(facts, LivePods(server, accelerators=accelerators)), errors
