"""The look-ups of images of a replica, which run in the background and share their results with the other replicas.

Commands look images up at once, and wait for the results.
"""

import base64
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from certs.cluster import ChangedError, ClusterError
from webhook.admission.metrics import Metrics
from webhook.images.allowlist import AllowList
from webhook.images.client import RegistryClient
from webhook.images.credentials import Credentials
from webhook.images.lookup_limits import LookupLimits
from webhook.images.lookup_queue import LookupQueue
from webhook.images.lookups import LookupService, look_up_all
from webhook.images.packing import KEY, packed_in
from webhook.images.registries import PRESETS
from webhook.images.shared_results import ResultStore, StoredResults
from webhook.kubernetes.api_errors import ApiServerError, ClusterConfigError, ConflictError
from webhook.kubernetes.api_server import ApiServer
from webhook.model.image import NOT_LOOKED_UP, ImageConfig, ImageInfo, ImageReference, parse_reference
from webhook.replica.kubernetes_cluster import KubernetesCluster
from webhook.replica.settings import ConfigMapPlace, ImageSettings
from webhook.yaml_files.file_errors import FileErrors

_log = logging.getLogger("gpu_policy.images")


class ConfigMapStore:
    """`webhook.images.shared_results.ResultStore` in an existing ConfigMap, so that no right to create is needed."""

    def __init__(self, cluster: KubernetesCluster, place: ConfigMapPlace) -> None:
        self._cluster = cluster
        self._place = place
        self._found: dict[str, Any] = {}

    def read(self) -> StoredResults:
        """The results as stored now."""
        try:
            found = self._cluster.get(self._place.path)
        except ClusterError as error:
            raise ApiServerError(str(error)) from error
        if found is None:
            raise ApiServerError(f"there is no ConfigMap {self._place}; apply the release again")
        self._found = found
        return StoredResults(str(found["metadata"].get("resourceVersion")), packed_in(found))

    def write(self, content: bytes, over: StoredResults) -> None:
        """Replace the results. Labels and other keys are kept."""
        metadata = {**self._found["metadata"], "resourceVersion": over.version}
        data = {**(self._found.get("binaryData") or {}), KEY: base64.b64encode(content).decode()}
        try:
            self._cluster.replace(self._place.path, {**self._found, "metadata": metadata, "binaryData": data})
        except ChangedError as error:
            raise ConflictError from error
        except ClusterError as error:
            raise ApiServerError(str(error)) from error

    def now(self) -> float:
        """The API server's clock."""
        try:
            return self._cluster.now().timestamp()
        except ClusterError as error:
            raise ApiServerError(str(error)) from error


class _Client(RegistryClient):
    """Logs once which credentials cannot be used, also when their file has changed."""

    def __init__(self, allowed: AllowList, credentials: Credentials) -> None:
        super().__init__(allowed, credentials, LookupLimits())
        self._logins = credentials
        self._said: tuple[str, ...] = ()
        self._say()

    def look_up(self, reference: ImageReference) -> ImageConfig:
        """What the registry says about the image."""
        try:
            return super().look_up(reference)
        finally:
            self._say()

    def _say(self) -> None:
        warnings = self._logins.warnings
        before, self._said = self._said, warnings
        for warning in warnings:
            if warning not in before:
                _log.warning("%s", warning)


class ImageLookups:
    """The look-ups of one replica. Make it after the fork."""

    def __init__(self, settings: ImageSettings) -> None:
        allowed = AllowList.load(settings.registries_file)
        credentials = Credentials(settings.credentials_file)
        store: ResultStore | None = None
        if settings.results is not None:
            store = ConfigMapStore(KubernetesCluster(ApiServer(settings.kubeconfig)), settings.results)
        queue = LookupQueue(listed_as=allowed.listed_as)
        client = _Client(allowed, credentials)
        self._images = LookupService(client, allowed.allows, store, queue=queue, withheld=allowed.withheld)

    def info(self, text: str, asker: str = "") -> ImageInfo:
        """What is known about the image at this moment. Never waits."""
        return self._images.info(text, asker)

    def recall(self, text: str, asker: str = "") -> ImageInfo:
        """What is known about the image at this moment, without a look-up."""
        return self._images.recall(text, asker)

    def start(self, metrics: Metrics) -> None:
        """Start the threads, and show in the metrics how look-ups go."""
        images = self._images
        metrics.watch_images(lambda: images.known, lambda: images.pending, lambda: images.is_shared)
        images.start(metrics.image_lookup)

    def close(self) -> None:
        """End the threads, within 2 seconds."""
        self._images.close()


def lookups_of(settings: ImageSettings) -> ImageLookups | None:
    """The look-ups; None, with a line in the log, where their files can no longer be used.

    Without look-ups the replica still answers for GPU pods.
    """
    try:
        return ImageLookups(settings)
    except (FileErrors, ClusterConfigError) as error:
        _log.error("%s; until this replica restarts, it looks up no image", error)  # the text says it all
        return None


class Resolver:
    """Asks registries about images for a command, and shares the results with the replicas where there is a store."""

    def __init__(
        self, registries: Path | None, credentials: Path | None, results: str | None, kubeconfig: Path | None
    ) -> None:
        """Make it of the options of a command; without a list the public registries are asked.

        Raises FileErrors and ValueError where the list or the credentials cannot be used.
        """
        if results is not None and (registries is None or kubeconfig is None):
            raise ValueError(
                "--image-results needs --registries, the list that the replicas have, and --kubeconfig, their cluster"
            )
        self._credentials = Credentials(credentials)
        public = (registry for preset in PRESETS.values() for registry in preset)
        self._allowed = AllowList(public) if registries is None else AllowList.load(registries)
        self.withheld = self._allowed.withheld
        self._store: ResultStore | None = None
        if registries is not None:
            settings = ImageSettings.of(registries, credentials, results, kubeconfig)
            self._store = _store(settings.results, kubeconfig)

    def __call__(self, images: Iterable[str]) -> Mapping[str, ImageInfo]:
        """Image -> what its registry says, or why it says nothing."""
        client = RegistryClient(self._allowed, self._credentials, LookupLimits())
        found = look_up_all(images, client, self._allowed.allows, self._store)
        return {image: _not_asked(image) if info is NOT_LOOKED_UP else info for image, info in found.items()}


def _store(place: ConfigMapPlace | None, kubeconfig: Path | None) -> ResultStore | None:
    return None if place is None else ConfigMapStore(KubernetesCluster(ApiServer(kubeconfig)), place)


def _not_asked(image: str) -> ImageInfo:
    registry = parse_reference(image).registry
    reason = "it is not in the list of registries; list it in the file of --registries"
    return ImageInfo(problem=f"{registry} was not queried, because {reason}")
