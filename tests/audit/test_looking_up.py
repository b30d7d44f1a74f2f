"""With --resolve an audit asks registries about the images that rules ask about, each once, before it judges."""

from collections.abc import Iterable, Mapping
from typing import Any

from tests.audit.audits import CREATED
from tests.build import FACTS, pod, policy, workload
from webhook.audit.auditing import Audit
from webhook.audit.documents import Document, DocumentError
from webhook.audit.object_sources import Background, of_files
from webhook.audit.report import AuditReport, Level
from webhook.audit.review_objects import MOST_IMAGES, LookedUpImages, review_object
from webhook.model.image import ImageConfig, ImageInfo
from webhook.policy.policy_set import PolicySet

USING = PolicySet.of(policy({"cudaDriver": {}}), {})
NEWEST = ImageInfo(ImageConfig("sha256:" + "0" * 64, {"CUDA_VERSION": "99.0"}, ("amd64",)))


class Registry:
    """Answers about any image, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, images: Iterable[str]) -> Mapping[str, ImageInfo]:
        self.asked.append(list(images))
        return dict.fromkeys(self.asked[-1], NEWEST)


def audited(registry: Registry, *objects: Any, told: str = "") -> AuditReport:
    """The audit of these objects; with `told` the registry is for that namespace alone."""
    documents = [one if isinstance(one, DocumentError) else Document("f", 1, 1, one) for one in objects]
    source = of_files(documents, "default", Background(FACTS))
    private = ImageInfo(problem="not for you")
    images = LookedUpImages(registry, lambda _image, asker: private if told not in ("", asker) else None)
    context = source.context(USING, "policies", images)
    audit = Audit(source, context, CREATED)
    for document in images.before(source.documents, lambda one: review_object(one, "default", context)):
        audit.add(document)
    return audit.report()


def with_image(raw: dict[str, Any], image: str) -> dict[str, Any]:
    for container in raw["spec"]["containers"]:
        container["image"] = image
    return raw


def test_what_a_registry_says_decides() -> None:
    report = audited(Registry(), with_image(pod(1), "registry.example.com/a:1"))
    assert [one.rule for one in report.at(Level.REFUSE)] == ["cudaDriver"]
    assert "99.0" in next(report.at(Level.REFUSE)).message


def test_what_a_registry_says_decides_in_the_namespaces_alone_for_which_it_is() -> None:
    image = "registry.example.com/a:1"
    objects = [with_image(pod(1, namespace=name), image) for name in ("team-a", "team-b")]
    report = audited(Registry(), *objects, told="team-b")
    assert [one.object.namespace for one in report.at(Level.REFUSE)] == ["team-b"]


def test_each_image_is_asked_about_once_and_only_those_of_gpus() -> None:
    registry = Registry()
    images = ["registry.example.com/a:1", "registry.example.com/b:1"]
    objects = [with_image(pod(1, name=f"p{i}"), images[i % 2]) for i in range(450)]
    audited(registry, *objects, workload("Job", with_image(pod(1), "registry.example.com/c:1")), pod(0))
    assert sorted(image for asked in registry.asked for image in asked) == [*images, "registry.example.com/c:1"]


def test_an_audit_asks_about_so_many_images_and_no_more() -> None:
    registry = Registry()
    objects = [with_image(pod(1, name=f"p{i}"), f"registry.example.com/a:{i}") for i in range(MOST_IMAGES + 100)]
    report = audited(registry, *objects)
    assert (sum(map(len, registry.asked)), report.counts.refused) == (MOST_IMAGES, MOST_IMAGES)


def test_what_is_broken_is_an_error_as_without_registries() -> None:
    fault = DocumentError("f", 1, 1, "m")
    report = audited(Registry(), fault, workload("Job", {"spec": {"containers": 7}}), pod(1))
    assert (len(report.errors), report.counts.pods) == (2, 1)
