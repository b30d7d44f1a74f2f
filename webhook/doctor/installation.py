"""One installation, and the cluster as the doctor reads it. A part is read when a check first needs it, and then kept.

What cannot be read raises UnavailableError with the reason. The policies of an installation are read from ConfigMaps,
as the kubelet projects them into one directory.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from webhook.facts.facts import ClusterFacts
from webhook.kubernetes.api_errors import AnswerError, ApiServerError, UnreachableError
from webhook.kubernetes.api_paths import CORE, path_of
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.webhook_configurations import (
    PHASES,
    Registration,
    RegistrationError,
    api_path,
    read_registration,
)
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.selectors import Expression
from webhook.model.wording import counted
from webhook.policy.config_maps import files_of
from webhook.policy.directory import contents_of
from webhook.policy.loader import build, load
from webhook.policy.policy_set import PolicySet
from webhook.yaml_files.file_errors import FileErrors

Object = dict[str, Any]
"""A Kubernetes object as JSON has it."""

ANSWER_SECONDS = 15.0
REVIEWED_SECONDS = 75.0
"""Longest time for an answer where webhooks are called, each for at most 30 seconds."""
PAGE = "500"

_NOTHING: Mapping[str, str] = MappingProxyType({})
_OTHER_RIGHTS = "look again with a kubeconfig that may"


class UnavailableError(Exception):
    """Something cannot be read. The text says why, `remedy` what would help. `is_forbidden`: a right is missing."""

    def __init__(self, why: str, remedy: str = "", *, is_forbidden: bool = False) -> None:
        super().__init__(why)
        self.remedy = remedy
        self.is_forbidden = is_forbidden

    @classmethod
    def of(cls, error: ApiServerError) -> "UnavailableError":
        if isinstance(error, UnreachableError):
            return cls(f"the API server does not answer: {error}")
        if isinstance(error, AnswerError):
            return cls(f"the API server answers something other than JSON: {error}")
        is_forbidden = error.status == 403
        return cls(str(error), _OTHER_RIGHTS if is_forbidden else "", is_forbidden=is_forbidden)


class DoctorCluster:
    """The API server, with the rights of the user of the command."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    @property
    def clock_skew(self) -> float:
        return self._server.clock_skew

    def now(self) -> datetime:
        return datetime.now(UTC) - timedelta(seconds=self._server.clock_skew)

    def find(self, path: str, query: Mapping[str, str] = _NOTHING) -> Object | None:
        """The object at `path`; None where there is none. Raises UnavailableError where it cannot be read."""
        try:
            return self._server.get(path, query, ANSWER_SECONDS)
        except ApiServerError as error:
            if error.status == 404:
                return None
            raise UnavailableError.of(error) from None

    def items(self, path: str, query: Mapping[str, str] = _NOTHING) -> Iterator[Object]:
        """The objects of a list, page by page. Raises UnavailableError, also for a kind that the server does not know.

        Set `limit` in the query for large objects.
        """
        query = {"limit": PAGE, **query}
        while True:
            page = self.find(path, query)
            if page is None:
                raise UnavailableError(f"the API server does not know {path}")
            yield from page.get("items") or ()
            if not (rest := page.get("metadata", {}).get("continue")):
                return
            query["continue"] = rest

    def create(self, path: str, body: Mapping[str, Any], query: Mapping[str, str] = _NOTHING) -> Object:
        """Create an object and return it. Raises RefusedError for a refusal, else UnavailableError."""
        try:
            return self._server.send("POST", path, body, REVIEWED_SECONDS, query)
        except (UnreachableError, AnswerError) as error:
            raise UnavailableError.of(error) from None


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector selects an object with these labels."""
    exact = (selector.get("matchLabels") or {}).items() <= labels.items()
    return exact and all(
        Expression(one["key"], one["operator"], tuple(one.get("values") or ())).matches(labels)
        for one in selector.get("matchExpressions") or ()
    )


def of_config_maps(mounted: Sequence[tuple[Object, Object]]) -> PolicySet:
    """The policies in ConfigMaps, each after its volume source. Of two files with one name the later wins.

    Raises FileErrors, and UnavailableError where there is no ConfigMap.
    """
    if not mounted:
        raise UnavailableError("the Deployment mounts no ConfigMap with policies")
    files: dict[str, bytes] = {}
    for source, config_map in mounted:
        files.update(files_of(config_map, source.get("items") or ()))
    where = Path(" and ".join(f"ConfigMap {source['name']}" for source, _ in mounted))
    return build(contents_of(where, files))


def changed_at(config_map: Object) -> datetime:
    """When the ConfigMap was last written, by its metadata."""
    metadata = config_map["metadata"]
    times = [metadata["creationTimestamp"], *(one.get("time") for one in metadata.get("managedFields") or ())]
    return max(datetime.fromisoformat(time) for time in times if time)


DEFAULT_PORT = 8443


@dataclass(frozen=True)
class WebhookDeployment:
    """A Deployment of the webhook, as the API server gives it."""

    raw: Object

    @cached_property
    def arguments(self) -> Mapping[str, str]:
        """The options of `gpu-policy serve` by name, without dashes; of a repeated option the last value."""
        words = [str(word) for word in (*self._container.get("command", ()), *self._container.get("args", ()))]
        options: dict[str, str] = {}
        for word, following in zip(words, (*words[1:], ""), strict=True):
            if word.startswith("--"):
                name, equals, value = word[2:].partition("=")
                options[name] = value if equals else following
        return options

    @property
    def wanted(self) -> int:
        return int(self.raw["spec"].get("replicas", 1))

    @property
    def ready(self) -> int:
        return int(self.raw.get("status", {}).get("readyReplicas", 0))

    @property
    def labels(self) -> Mapping[str, str]:
        return dict(self.raw["spec"]["selector"].get("matchLabels", {}))

    @property
    def port(self) -> int:
        written = self.arguments.get("port", "")
        return int(written) if written.isdecimal() else DEFAULT_PORT

    @property
    def port_names(self) -> tuple[str, ...]:
        ports = self._container.get("ports") or ()
        return tuple(str(one["name"]) for one in ports if one.get("containerPort") == self.port and "name" in one)

    @property
    def pod_labels(self) -> Mapping[str, str]:
        return dict(self.raw["spec"]["template"].get("metadata", {}).get("labels") or {})

    @property
    def is_on_host_network(self) -> bool:
        return bool(self._pod.get("hostNetwork"))

    @property
    def service_account(self) -> str:
        return str(self._pod.get("serviceAccountName") or "default")

    @property
    def keeps_certificates(self) -> bool:
        return "certificate-secret" in self.arguments

    @property
    def certificate_secret(self) -> str:
        if self.keeps_certificates:
            return self.arguments["certificate-secret"].rpartition("/")[2]
        place = PurePosixPath(self.arguments.get("cert", "/")).parent
        return next((source["secretName"] for source in self._mounted(place, "secret") if "secretName" in source), "")

    @property
    def image_results(self) -> str:
        """The ConfigMap in which the replicas share image information; empty where they do not share it."""
        return self.arguments.get("image-results", "").rpartition("/")[2]

    @property
    def quota_ledgers(self) -> str:
        """The namespace in which the replicas keep the ledgers of quotas; empty where they keep none."""
        return self.arguments.get("quota-ledgers", "")

    @property
    def policy_config_maps(self) -> tuple[Object, ...]:
        """The volume sources of the ConfigMaps with policies, in their order: `name` and perhaps `items`."""
        place = PurePosixPath(self.arguments.get("policies", "/"))
        return tuple(self._mounted(place, "configMap"))

    @property
    def _pod(self) -> Mapping[str, Any]:
        pod: Mapping[str, Any] = self.raw["spec"]["template"]["spec"]
        return pod

    @property
    def _container(self) -> Mapping[str, Any]:
        containers: list[Mapping[str, Any]] = self._pod["containers"]
        return next((one for one in containers if "serve" in one.get("args", ())), containers[0])

    def _mounted(self, place: PurePosixPath, kind: str) -> Iterator[Object]:
        volumes = {volume["name"]: volume for volume in self._pod.get("volumes") or ()}
        for mount in self._container.get("volumeMounts") or ():
            if PurePosixPath(mount["mountPath"]) == place:
                volume = volumes.get(mount["name"], {})
                sources = (volume, *(volume.get("projected", {}).get("sources") or ()))
                yield from (source[kind] for source in sources if kind in source)


REGISTRATION_KEY = "webhooks.yaml"


@dataclass(frozen=True, slots=True)
class Place:
    """The namespace and the name of an installation, and the namespace for dry runs of GPU pods."""

    namespace: str = "gpu-policy"
    name: str = "gpu-policy"
    dry_run_namespace: str = "default"
    policies: Path | None = None
    """The policies as files, for users who may not read ConfigMaps."""


@dataclass
class Installation:
    """The parts of one installation. Reading any part may raise UnavailableError."""

    cluster: DoctorCluster
    place: Place

    @property
    def title(self) -> str:
        return f"deployment/{self.place.name}"

    @property
    def kubectl(self) -> str:
        return f"kubectl -n {self.place.namespace}"

    @property
    def restore(self) -> str:
        helm = f"helm upgrade RELEASE ... --namespace {self.place.namespace}"
        return f"apply the release again: {helm}, or kubectl apply -f install.yaml"

    def path(self, kind: str, name: str = "", api: str = CORE) -> str:
        return path_of(api, kind, namespace=self.place.namespace, name=name)

    @cached_property
    def deployment(self) -> WebhookDeployment | None:
        found = self.cluster.find(self.path("deployments", self.place.name, "/apis/apps/v1"))
        return None if found is None else WebhookDeployment(found)

    @property
    def workload(self) -> WebhookDeployment:
        """The Deployment; UnavailableError where there is none."""
        if self.deployment is None:
            raise UnavailableError(f"there is no Deployment {self.place.namespace}/{self.place.name}")
        return self.deployment

    @cached_property
    def pods(self) -> tuple[Object, ...]:
        selector = ",".join(f"{key}={value}" for key, value in sorted(self.workload.labels.items()))
        pods = self.cluster.items(self.path("pods"), {"labelSelector": selector})
        return tuple(
            pod
            for pod in pods
            if pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        )

    @cached_property
    def registration(self) -> Registration | None:
        """The configurations as installed, None where the ConfigMap that holds them is missing.

        Raises RegistrationError where its content is no registration.
        """
        name = f"{self.place.name}-registration"
        found = self.cluster.find(self.path("configmaps", name))
        if found is None:
            return None
        text = (found.get("data") or {}).get(REGISTRATION_KEY, "")
        return read_registration(text, f"ConfigMap {self.place.namespace}/{name}, {REGISTRATION_KEY}")

    @cached_property
    def configurations(self) -> Mapping[str, Object | None]:
        """`mutating` and `validating` -> the configuration in the cluster; None where it is missing."""
        try:
            expected = self.registration
        except (RegistrationError, UnavailableError):
            expected = None
        found: dict[str, Object | None] = {}
        for kind, phase in PHASES.items():
            document = {"kind": kind, "metadata": {"name": self.place.name}} if expected is None else expected[phase]
            found[phase] = self.cluster.find(api_path(document))
        return found

    @property
    def validating(self) -> Object:
        live = self.configurations["validating"]
        if live is None:
            raise UnavailableError(f"there is no validating webhook configuration {self.place.name}")
        return live

    @cached_property
    def entries(self) -> tuple[Object, ...]:
        return tuple(entry for found in self.configurations.values() if found for entry in found.get("webhooks", ()))

    @cached_property
    def certificate_secret(self) -> Object | None:
        try:
            name = self.workload.certificate_secret
        except UnavailableError:
            name = ""
        return self.cluster.find(self.path("secrets", name or f"{self.place.name}-tls"))

    @cached_property
    def policy_config_maps(self) -> tuple[tuple[Object, Object], ...]:
        """Each ConfigMap with policies after its volume source, in the order of the Deployment's mounts."""
        found = [
            (source, self.cluster.find(self.path("configmaps", source["name"])))
            for source in self.workload.policy_config_maps
        ]
        for source, config_map in found:
            if config_map is None and not source.get("optional"):
                raise UnavailableError(f"there is no ConfigMap {self.place.namespace}/{source['name']}", self.restore)
        return tuple((source, config_map) for source, config_map in found if config_map is not None)

    @cached_property
    def policies(self) -> PolicySet:
        """The policies in the ConfigMaps that the Deployment mounts, else in the files of `place`.

        Raises FileErrors where they have mistakes.
        """
        try:
            return of_config_maps(self.policy_config_maps)
        except UnavailableError as error:
            if self.place.policies is None:
                raise UnavailableError(f"the policies are not known: {error}", "name them with --policies") from None
            return load(self.place.policies)

    @property
    def sound_policies(self) -> PolicySet:
        """The policies; UnavailableError where they have mistakes, which the check `policies` reports."""
        try:
            return self.policies
        except FileErrors as error:
            raise UnavailableError(
                f"the policies are not known: they have {counted(len(error.errors), 'mistake')}"
            ) from None

    @cached_property
    def accelerators(self) -> Accelerators:
        """The names of GPUs; the built-in ones where the policies are not known."""
        try:
            return self.sound_policies.accelerators
        except UnavailableError:
            return BUILT_IN

    @cached_property
    def nodes(self) -> tuple[Object, ...]:
        return tuple(self.cluster.items("/api/v1/nodes"))

    @cached_property
    def facts(self) -> ClusterFacts:
        kinds = ("node.k8s.io/v1/runtimeclasses", "scheduling.k8s.io/v1/priorityclasses")
        return ClusterFacts.of(self.nodes, *(tuple(self.cluster.items(f"/apis/{kind}")) for kind in kinds))


def decoded(data: Mapping[str, str], key: str) -> bytes:
    """One value of a Secret's data, decoded; empty where it is missing or no base64."""
    try:
        return base64.b64decode(data.get(key) or "")
    except binascii.Error:
        return b""
