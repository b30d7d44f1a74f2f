"""Asking registries on behalf of a command: now, and for as long as it takes."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from webhook.images.allowlist import AllowList, AllowListError
from webhook.images.client import RegistryClient
from webhook.images.credentials import Credentials, CredentialsError
from webhook.images.lookup_limits import LookupLimits
from webhook.images.presets import PRESETS
from webhook.images.resolving import resolve
from webhook.images.shared_results import ResultStore
from webhook.kubernetes.api_server import ApiServer, ClusterConfigError
from webhook.model.image import NOT_LOOKED_UP, ImageInfo, parse_reference
from webhook.replica.certificate_cluster import KubernetesCluster
from webhook.replica.image_lookups import ConfigMapStore
from webhook.replica.settings import ConfigMapPlace, ImageSettings


class UnusableError(ValueError):
    """What a command was given to ask registries with cannot be used; the text says why."""


class Resolver:
    """Asks registries about images, and shares what they say with the replicas where there is a place for it."""

    def __init__(
        self, registries: Path | None, credentials: Path | None, results: str | None, kubeconfig: Path | None
    ) -> None:
        """From what a command line gives; without a list, the public registries are asked. Raises UnusableError."""
        if results is not None and (registries is None or kubeconfig is None):
            raise UnusableError(
                "--image-results needs --registries, the list that the replicas have, and --kubeconfig, their cluster"
            )
        try:
            self._credentials = Credentials(credentials)
            self._allowed = _public() if registries is None else AllowList.load(registries)
            self._store: ResultStore | None = None
            if registries is not None:
                settings = ImageSettings.of(registries, credentials, results, kubeconfig)
                self._store = _store(settings.results, kubeconfig)
        except (AllowListError, CredentialsError, ClusterConfigError, ValueError) as error:
            raise UnusableError(str(error)) from error

    def __call__(self, images: Iterable[str]) -> Mapping[str, ImageInfo]:
        """What the registry of each image says, or why it says nothing."""
        client = RegistryClient(self._allowed, self._credentials, LookupLimits())
        found = resolve(images, client, self._allowed.admits, self._store)
        return {image: _not_asked(image) if sight is NOT_LOOKED_UP else sight for image, sight in found.items()}


def _public() -> AllowList:
    return AllowList(registry for preset in PRESETS.values() for registry in preset)


def _store(place: ConfigMapPlace | None, kubeconfig: Path | None) -> ResultStore | None:
    return None if place is None else ConfigMapStore(KubernetesCluster(ApiServer(kubeconfig)), place)


def _not_asked(image: str) -> ImageInfo:
    registry = parse_reference(image).registry
    reason = "it is not in the list of registries; list it in the file of --registries"
    return ImageInfo(problem=f"{registry} was not queried, because {reason}")
