"""Quotas of GPUs: the ledgers can be read, and people are shown what is in use and no quota that is gone."""

from collections.abc import Iterator

from webhook.doctor.cluster import DoctorCluster, Object, UnavailableError
from webhook.doctor.doctor_finding import DoctorFinding, ok, problem, skipped, warning
from webhook.doctor.installation import Installation
from webhook.kubernetes.api_paths import CORE, path_of
from webhook.ledger.book import LABEL, book_in

_API = "/apis/gpupolicy.dev/v1alpha1"
_QUEUES = "/apis/flowcontrol.apiserver.k8s.io/v1"
_MOST_NAMED = 3


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """Where there are quotas, they can be kept."""
    namespace = installation.workload.quota_ledgers
    try:
        has_quotas = installation.sound_policies.has_quotas
    except UnavailableError as why:
        yield skipped(str(why), why.remedy)
        has_quotas = False
    if namespace:
        yield from _kept(namespace, installation, has_quotas=has_quotas)
    elif has_quotas:
        yield problem(
            "the policies have quotas of GPUs, and the replicas keep no ledgers: every pod that counts is refused",
            "ledgers in the namespace of the release",
            "helm upgrade with --set quota.enabled=true, or take the quotas out of the policies",
        )


def quota_objects(cluster: DoctorCluster, namespace: str | None = None) -> Iterator[Object]:
    """The objects of kind GPUQuota, of one namespace or of all; UnavailableError says what helps."""
    path = path_of(_API, "gpuquotas", namespace=namespace)
    if cluster.find(_API) is None:
        raise UnavailableError(
            "the cluster has no objects of kind GPUQuota",
            "install gpu-policy there with quota.enabled, or count the pods of a file: --inventory",
        )
    try:
        yield from cluster.items(path)
    except UnavailableError as why:
        if namespace is None and "403" in str(why):
            raise UnavailableError(str(why), "name a NAMESPACE that you may look at") from None
        raise


def _kept(namespace: str, installation: Installation, *, has_quotas: bool) -> Iterator[DoctorFinding]:
    yield from _ledgers(namespace, installation)
    if has_quotas:
        if installation.cluster.find(_API) is None:
            yield warning(
                "the API server does not know gpuquotas.gpupolicy.dev: nobody is shown what is in use",
                "its CustomResourceDefinition",
                f"{installation.restore}; with quota.crd=false another release has to bring it",
            )
        else:
            yield from _shown(installation)
        yield from _queues(installation)


def _ledgers(namespace: str, installation: Installation) -> Iterator[DoctorFinding]:
    """Every ledger can be read."""
    ledgers = pods = broken = 0
    path = path_of(CORE, "configmaps", namespace=namespace)
    for raw in installation.cluster.items(path, {"labelSelector": f"{LABEL}=true"}):
        try:
            pods += len(book_in(raw).entries)
            ledgers += 1
        except ValueError as error:
            broken += 1
            name = raw["metadata"]["name"]
            yield problem(
                f"the ledger {name} cannot be read: {error}",
                "what the replicas wrote; until then every pod that the quota counts is refused",
                f"kubectl delete configmap -n {namespace} {name}; it is written anew from the pods that there are",
            )
    if not broken:
        yield ok(f"{ledgers} {'ledger' if ledgers == 1 else 'ledgers'}, {pods} {'entry' if pods == 1 else 'entries'}")


def _shown(installation: Installation) -> Iterator[DoctorFinding]:
    """Nobody is shown a quota that is no more."""
    policies = installation.sound_policies
    stale = []
    for raw in quota_objects(installation.cluster):
        namespace, name = raw["metadata"]["namespace"], raw["metadata"]["name"]
        if name not in {bound.quota.key for bound in policies.quotas_for(namespace)}:
            stale.append(f"{namespace}/{name}")
    if stale:
        named = ", ".join(stale[:_MOST_NAMED]) + (", ..." if len(stale) > _MOST_NAMED else "")
        namespace, _, name = stale[0].partition("/")
        yield warning(
            f"GPUQuota objects of quotas that the policies do not have: {named}",
            "none; the replicas delete them within three minutes after a change of policies",
            f"kubectl delete gpuquotas -n {namespace} {name}",
        )


def _queues(installation: Installation) -> Iterator[DoctorFinding]:
    """The replicas' requests do not wait behind the pods that wait for them."""
    if installation.cluster.find(_QUEUES) is None:
        return  # before 1.29
    if installation.cluster.find(f"{_QUEUES}/flowschemas/{installation.place.name}") is None:
        yield warning(
            "the API server has no queues of its own for the replicas, whose writes to ledgers may wait behind pods",
            f"the FlowSchema {installation.place.name}",
            "helm upgrade with --set flowControl.enabled=true, or kubectl apply -f deploy/flow-control.yaml",
        )
