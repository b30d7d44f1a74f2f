"""Objects that the replicas share: ledgers of quotas, and information about images."""

import math
from collections.abc import Iterator
from fractions import Fraction

from webhook.doctor.doctor_report import DoctorFinding, ok, problem, skipped, warning
from webhook.doctor.installation import DoctorCluster, Installation, Object, UnavailableError
from webhook.images.shared_results import unpack
from webhook.kubernetes.api_paths import CORE, path_of
from webhook.ledger.entries import LABEL, entries_in
from webhook.model.accelerators import Accelerators
from webhook.model.quantity import parse_quantity
from webhook.model.shape import FormatError
from webhook.model.wording import counted, few
from webhook.quota.quota_wording import number
from webhook.quota.quotas import Measure
from webhook.rules.rule_settings import Mode

_API = "/apis/gpupolicy.dev/v1alpha1"
_QUEUES = "/apis/flowcontrol.apiserver.k8s.io/v1"


def quotas(installation: Installation) -> Iterator[DoctorFinding]:
    """Where policies have quotas, the replicas keep ledgers that can be read."""
    namespace = installation.workload.quota_ledgers
    try:
        has_quotas = installation.sound_policies.has_quotas
    except UnavailableError as why:
        yield skipped(str(why), why.remedy)
        has_quotas = False
    if namespace:
        yield from _ledgers(namespace, installation)
    elif has_quotas:
        yield problem(
            "the policies have quotas, but the replicas keep no ledgers: every pod that a quota counts is refused",
            "ledgers in the namespace of the release",
            "helm upgrade with --set quota.enabled=true, or take the quotas out of the policies",
        )
    if namespace and has_quotas:
        if installation.cluster.find(_API) is None:
            yield warning(
                "the API server does not know gpuquotas.gpupolicy.dev: users cannot see the usage of their quotas",
                "its CustomResourceDefinition",
                f"{installation.restore}; with quota.crd=false another release has to bring it",
            )
        else:
            yield from _shown(installation)
        yield from _queues(installation)
        yield from _kueue(installation)


def _kueue(installation: Installation) -> Iterator[DoctorFinding]:
    """No queue of Kueue admits more than the quota behind it: such pods stay gated, and hold Kueue's room."""
    group = installation.cluster.find("/apis/kueue.x-k8s.io")
    if group is None:
        return
    api = f"/apis/{group['preferredVersion']['groupVersion']}"
    try:
        queues = {one["metadata"]["name"]: one["spec"] for one in installation.cluster.items(f"{api}/clusterqueues")}
        local = [
            (one["metadata"]["namespace"], one["metadata"]["name"], one["spec"].get("clusterQueue"))
            for one in installation.cluster.items(f"{api}/localqueues")
        ]
    except UnavailableError as why:
        yield skipped(str(why), why.remedy)
        return
    policies = installation.sound_policies
    for namespace, name, cluster_queue in sorted(local, key=str):
        admits = _most(queues.get(cluster_queue, {}), policies.for_namespace(namespace).accelerators)
        for active in policies.quotas_for(namespace):
            hard = next((one.hard for one in active.quota.limits if one.measure is Measure.GPUS), None)
            if hard is None or active.mode is not Mode.ENFORCE or admits <= hard:
                continue
            most = "any number of" if admits == math.inf else number(Fraction(admits))
            yield warning(
                f"the queue {namespace}/{name} admits {most} GPUs by ClusterQueue {cluster_queue}, GPU quota "
                f"'{active.quota.name}' {number(hard)}: pods that Kueue admits beyond it stay gated",
                "no more GPUs (nominalQuota and borrowingLimit) in the ClusterQueue than in the quota",
                "lower the ClusterQueue, or raise the quota",
            )


def _most(queue: Object, accelerators: Accelerators) -> float:
    """The most units of GPU resources that a ClusterQueue admits; infinite where it may borrow without a limit."""
    borrows, most = queue.get("cohort") or queue.get("cohortName"), 0.0
    for group in queue.get("resourceGroups") or ():
        for one in (one for flavor in group.get("flavors") or () for one in flavor.get("resources") or ()):
            if accelerators.of(str(one.get("name"))) is not None:
                limit = one.get("borrowingLimit", math.inf) if borrows else 0
                most += float(parse_quantity(str(one.get("nominalQuota", 0)))) + float(
                    limit if limit == math.inf else parse_quantity(str(limit))
                )
    return most


def quota_objects(cluster: DoctorCluster, namespace: str | None = None) -> Iterator[Object]:
    """The objects of kind GPUQuota, of one namespace or of all. Raises UnavailableError with a remedy."""
    path = path_of(_API, "gpuquotas", namespace=namespace)
    if cluster.find(_API) is None:
        raise UnavailableError(
            "the cluster has no objects of kind GPUQuota",
            "install gpu-policy there with quota.enabled, or count the pods of a file: --inventory",
        )
    try:
        yield from cluster.items(path)
    except UnavailableError as why:
        if namespace is None and why.is_forbidden:
            raise UnavailableError(str(why), "name a NAMESPACE that you may look at") from None
        raise


def _ledgers(namespace: str, installation: Installation) -> Iterator[DoctorFinding]:
    ledgers = pods = 0
    path = path_of(CORE, "configmaps", namespace=namespace)
    for raw in installation.cluster.items(path, {"labelSelector": f"{LABEL}=true"}):
        try:
            pods += len(entries_in(raw).by_uid)
            ledgers += 1
        except ValueError as error:
            name = raw["metadata"]["name"]
            yield problem(
                f"the ledger {name} cannot be read: {error}",
                "a ledger as the replicas write it",
                "wait for half a minute: the replicas write it anew from the cluster's pods, or their log says why not",
            )
    yield ok(f"{counted(ledgers, 'ledger')}, {counted(pods, 'entry', 'entries')}")


def _shown(installation: Installation) -> Iterator[DoctorFinding]:
    """There are no GPUQuota objects of quotas that the policies do not have."""
    policies = installation.sound_policies
    stale = []
    for raw in quota_objects(installation.cluster):
        namespace, name = raw["metadata"]["namespace"], raw["metadata"]["name"]
        if name not in {bound.quota.key for bound in policies.quotas_for(namespace)}:
            stale.append(f"{namespace}/{name}")
    if stale:
        namespace, _, name = stale[0].partition("/")
        yield warning(
            f"there are GPUQuota objects of quotas that the policies do not have: {few(stale)}",
            "none; the replicas delete them within three minutes after a change of policies",
            f"kubectl delete gpuquotas -n {namespace} {name}",
        )


def _queues(installation: Installation) -> Iterator[DoctorFinding]:
    """The replicas' requests do not wait behind requests about pods that wait for the replicas."""
    if installation.cluster.find(_QUEUES) is None:
        return  # before 1.29
    if installation.cluster.find(f"{_QUEUES}/flowschemas/{installation.place.name}") is None:
        yield warning(
            "the API server has no separate queue for the replicas: their writes to ledgers may wait behind other "
            "requests",
            f"the FlowSchema {installation.place.name}",
            "helm upgrade with --set flowControl.enabled=true, or kubectl apply -f deploy/flow-control.yaml",
        )


def image_results(installation: Installation) -> Iterator[DoctorFinding]:
    """Where images are looked up, the replicas share the results. No finding where images are not looked up."""
    if "registries" not in installation.workload.arguments:
        return
    name = installation.workload.image_results
    if not name:
        yield warning(
            "replicas do not share what they find out about images, and forget it when they end",
            "a ConfigMap that they share",
            "start them with --image-results NAMESPACE/NAME",
        )
        return
    place = f"ConfigMap {installation.place.namespace}/{name}"
    found = installation.cluster.find(installation.path("configmaps", name))
    if found is None:
        yield problem(
            f"there is no {place}: replicas do not share what they find out about images, and forget it when they end",
            "the ConfigMap, with or without content",
            installation.restore,
        )
        return
    try:
        known = len(unpack(found))
    except FormatError as error:
        yield warning(
            f"{place} does not hold image information: {error}",
            "what the replicas write, or nothing",
            "find out who wrote it, in the API server's audit log; the replicas write it again with the next image",
        )
        return
    yield ok(f"{'1 image is' if known == 1 else f'{known} images are'} known to all replicas")
