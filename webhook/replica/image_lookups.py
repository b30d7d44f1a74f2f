"""The look-ups of images of a replica, which run in the background and share their results with the other replicas.

Commands look images up at once, and wait for the results.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from webhook.admission.metrics import LOOKUP_RESULTS, Metrics
from webhook.images.allowlist import PRESETS, AllowList
from webhook.images.client import RegistryClient
from webhook.images.credentials import Credentials
from webhook.images.lookups import LookupService, look_up_all
from webhook.images.shared_results import ConfigMapStore
from webhook.kubernetes.api_errors import ClusterConfigError
from webhook.kubernetes.api_server import ApiServer
from webhook.model.image import NOT_LOOKED_UP, ImageInfo, parse_reference
from webhook.replica.settings import ConfigMapPlace
from webhook.yaml_files.file_errors import FileErrors

_log = logging.getLogger("gpu_policy.images")


class ImageLookups:
    """The look-ups of one replica. Make it after the fork."""

    def __init__(
        self, registries: Path, credentials: Path | None, results: ConfigMapPlace | None, kubeconfig: Path | None
    ) -> None:
        """Without `results` they are not shared. `kubeconfig` is None inside the cluster."""
        allowed, store = AllowList.load(registries), _store(results, kubeconfig)
        self.service = LookupService(RegistryClient(allowed, Credentials(credentials)).look_up, allowed, store)

    def start(self, metrics: Metrics) -> None:
        images = self.service
        count = metrics.count_results("image_lookups", LOOKUP_RESULTS)
        metrics.watch("images_known", lambda: images.known)
        metrics.watch("images_pending", lambda: images.pending)
        metrics.watch("image_results_shared", lambda: images.is_shared)
        images.start(count)

    def close(self) -> None:
        self.service.close()


def lookups_of(
    registries: Path, credentials: Path | None, results: ConfigMapPlace | None, kubeconfig: Path | None
) -> ImageLookups | None:
    """The look-ups; None, with a line in the log, where their files can no longer be used.

    Without look-ups the replica still answers for GPU pods.
    """
    try:
        return ImageLookups(registries, credentials, results, kubeconfig)
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
        self._store = _store(None if results is None else ConfigMapPlace.of("--image-results", results), kubeconfig)

    def __call__(self, images: Iterable[str]) -> Mapping[str, ImageInfo]:
        """Image -> what its registry says, or why it says nothing."""
        found = look_up_all(
            images, RegistryClient(self._allowed, self._credentials).look_up, self._allowed, self._store
        )
        text = "{} was not queried, because it is not in the list of registries; list it in the file of --registries"
        return {
            image: ImageInfo(problem=text.format(parse_reference(image).registry)) if info is NOT_LOOKED_UP else info
            for image, info in found.items()
        }


def _store(place: ConfigMapPlace | None, kubeconfig: Path | None) -> ConfigMapStore | None:
    return None if place is None else ConfigMapStore(ApiServer(kubeconfig), place.namespace, place.name)
