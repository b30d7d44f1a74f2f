"""The Deployment of an installation: its arguments, its volumes and its service account."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from webhook.doctor.cluster import Object

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
        """Replicas that should run."""
        return int(self.raw["spec"].get("replicas", 1))

    @property
    def ready(self) -> int:
        """Replicas that are ready."""
        return int(self.raw.get("status", {}).get("readyReplicas", 0))

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels by which the Deployment selects its pods."""
        return dict(self.raw["spec"]["selector"].get("matchLabels", {}))

    @property
    def port(self) -> int:
        """The port that a replica listens on."""
        port = self.arguments.get("port", "")
        return int(port) if port.isdecimal() else DEFAULT_PORT

    @property
    def metrics_port(self) -> int:
        """The port of /metrics."""
        port = self.arguments.get("metrics-port", "")
        return int(port) if port.isdecimal() else self.port

    @property
    def port_names(self) -> tuple[str, ...]:
        """The names of the port that a replica listens on."""
        ports = self._container.get("ports") or ()
        return tuple(str(one["name"]) for one in ports if one.get("containerPort") == self.port and "name" in one)

    @property
    def pod_labels(self) -> Mapping[str, str]:
        """The labels of its pods."""
        return dict(self.raw["spec"]["template"].get("metadata", {}).get("labels") or {})

    @property
    def is_on_host_network(self) -> bool:
        """Whether the replicas listen on the addresses of their nodes."""
        return bool(self._pod.get("hostNetwork"))

    @property
    def service_account(self) -> str:
        """The name of the service account that the replicas run as."""
        return str(self._pod.get("serviceAccountName") or "default")

    @property
    def keeps_certificates(self) -> bool:
        """Whether the replicas make and renew their certificates."""
        return "certificate-secret" in self.arguments

    @property
    def certificate_secret(self) -> str:
        """The Secret with the serving certificate; empty where none is named or mounted."""
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
        """The sources of this kind of the volume that is mounted at a path."""
        volumes = {volume["name"]: volume for volume in self._pod.get("volumes") or ()}
        for mount in self._container.get("volumeMounts") or ():
            if PurePosixPath(mount["mountPath"]) == place:
                volume = volumes.get(mount["name"], {})
                sources = (volume, *(volume.get("projected", {}).get("sources") or ()))
                yield from (source[kind] for source in sources if kind in source)
