"""What the replicas share of what they know of images."""

from collections.abc import Iterator

from webhook.doctor.doctor_finding import DoctorFinding, ok, problem, warning
from webhook.doctor.installation import Installation
from webhook.images.packing import PackError, packed_in, unpack


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """Where images are looked up, the replicas share what they find; silent where none are."""
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
        content = unpack(packed) if (packed := packed_in(found)) else None
    except PackError as error:
        yield warning(
            f"{place} holds something else than what is known of images: {error}",
            "what the replicas wrote, or nothing",
            "find out who wrote it: the API server's audit log; the replicas write it anew with the next image",
        )
        return
    results = content.results.values() if content is not None else ()
    known = sum(result.config is not None for result in results)
    yield ok(f"{_images(known)} known to all replicas, {_images(len(results) - known)} could not be looked up")


def _images(count: int) -> str:
    return "1 image is" if count == 1 else f"{count} images are"
