"""Pods get devices by resource claims (DRA) only of the device classes that their namespace may use.

Read are the ResourceClaims and ResourceClaimTemplates that a pod names, when it is created and when they are applied,
and the device classes that its containers request as extended resources (`deviceclass.resource.kubernetes.io/...`).
Every alternative of a request counts. Claims beyond their [bounds](dra.md#bounds) are a violation. Nothing is said of
claims that do not exist, nor of an `extendedResourceName`, which may come from a device plugin.

With `adminAccess` a request reaches devices that other pods use. Kubernetes allows it in namespaces with the label
`resource.kubernetes.io/admin-access: "true"`, and this rule in the namespaces that the policy names. `tolerations` are
the keys of device taints that claims may tolerate; a toleration without a key is for all.
"""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from pydantic import Field

from webhook.model.accelerators import DEVICE_CLASSES
from webhook.model.claims import MOST_CLAIMS, TOO_LARGE, ClaimObject, PodResourceClaim, Requests, claims_of, is_too_many
from webhook.model.pod import Container, Pod
from webhook.model.quantity import positive
from webhook.model.wording import PLATFORM_TEAM, cut, few
from webhook.rules.names import KeyGlob, NamespaceGlob, ObjectGlob, is_one_of
from webhook.rules.rule import Example, Facts, Rule, Violation, training_pod
from webhook.rules.rule_settings import RuleSettings
from webhook.yaml_files.camel_model import CamelModel

_ELSE = f"Request another class, or ask {PLATFORM_TEAM}"
_INTOLERANT = f"Remove this toleration from the claim, or ask {PLATFORM_TEAM}"
_SPLIT = "Split the claim into several"


class DeviceClassSettings(CamelModel):
    """Which device classes the pods of a namespace may use."""

    allowed: tuple[ObjectGlob, ...] = ()
    """Globs of the only device classes that pods may use, such as `gpu.nvidia.com`. Empty: all."""
    denied: tuple[ObjectGlob, ...] = ()
    """Globs of device classes that pods may not use. A class that is both allowed and denied is denied."""

    def fault(self, device_class: str) -> str:
        """Why pods may not use a device class; empty if they may."""
        if is_one_of(device_class, self.denied):
            return f"the policy denies {few(self.denied)}"
        if self.allowed and not is_one_of(device_class, self.allowed):
            return f"the policy allows only {few(self.allowed)}"
        return ""


class Settings(RuleSettings):
    """Settings of `resourceClaims`."""

    admin_access: tuple[NamespaceGlob, ...] = ()
    """Globs of the namespaces whose pods may have `adminAccess`, such as `gpu-monitoring`. Empty: none."""
    tolerations: tuple[KeyGlob, ...] = ("*",)
    """Globs of the keys of device taints that claims may tolerate, such as `["example.com/*"]`. Empty: none."""
    device_classes: DeviceClassSettings = Field(default_factory=DeviceClassSettings)
    """Which device classes pods may use: `{allowed: [gpu.nvidia.com]}`, or all but `{denied: ["*.example.com"]}`."""


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation]:
    """Refuse claims of device classes that the namespace may not use, and `adminAccess` without permission."""
    if pod.resource_claims:
        if is_too_many(pod.resource_claims):
            found = f"has {len(pod.resource_claims)} resource claims"
            yield Violation("spec.resourceClaims", found, f"at most {MOST_CLAIMS} are checked", "Use fewer claims")
        for named in claims_of(pod.resource_claims):
            requests = facts.claim(named, pod.namespace) or ()
            yield from _of_a_claim(named, requests, pod, settings)
    if settings.device_classes.allowed or settings.device_classes.denied:
        for container in pod.containers:
            yield from _of_a_container(container, settings)


def validate_claim(claim: ClaimObject, settings: Settings, facts: Facts) -> Iterator[Violation]:
    """Refuse claims and templates, when they are applied, if their pods would be refused."""
    if claim.is_too_large:
        found = "has too many alternatives or too long names of device classes"
        yield Violation(claim.where, found, "it cannot be checked which devices it requests", _SPLIT)
        return
    for one in claim.classes:
        if fault := settings.device_classes.fault(one.device_class):
            yield Violation(
                f"{one.where}.deviceClassName", f"requests devices of class {cut(one.device_class)}", fault, _ELSE
            )
        if one.is_administrative and not _may_administer(claim.namespace, settings):
            found, why = f"requests {cut(one.device_class)} with adminAccess", _administration(settings)
            yield Violation(f"{one.where}.adminAccess", found, why, f"Remove adminAccess, or ask {PLATFORM_TEAM}")
        if barred := _not_tolerable(one.tolerated, settings):
            yield Violation(f"{one.where}.tolerations", f"tolerates {barred}", _tolerable(settings), _INTOLERANT)


def _of_a_claim(named: PodResourceClaim, requests: Requests, pod: Pod, settings: Settings) -> Iterator[Violation]:
    where, object_ = f"spec.resourceClaims[{cut(named.name)}]", f"{named.kind} {cut(named.target)}"
    if requests == TOO_LARGE:
        found = f"{object_} has too many alternatives or too long names of device classes"
        yield Violation(where, found, "it cannot be checked which devices it requests", _SPLIT)
        return
    devices = dict.fromkeys(devices for request in requests for devices in request)
    faults: dict[str, dict[str, None]] = {}
    for name in dict.fromkeys(one.device_class for one in devices):
        if fault := settings.device_classes.fault(name):
            faults.setdefault(fault, {})[name] = None
    for fault, names in faults.items():
        what = "class" if len(names) == 1 else "classes"
        yield Violation(where, f"{object_} requests devices of {what} {few(list(names))}", fault, _ELSE)
    administered = list(dict.fromkeys(one.device_class for one in devices if one.is_administrative))
    if administered and not _may_administer(pod.namespace, settings):
        found, mend = (
            f"{object_} requests {few(administered)} with adminAccess",
            f"Remove adminAccess from the {named.kind}",
        )
        yield Violation(where, found, _administration(settings), f"{mend}, or ask {PLATFORM_TEAM}")
    if barred := _not_tolerable({key for one in devices for key in one.tolerated}, settings):
        yield Violation(where, f"{object_} tolerates {barred}", _tolerable(settings), _INTOLERANT)


def _not_tolerable(tolerated: Iterable[str], settings: Settings) -> str:
    """The device taints that a claim may not tolerate, for people; empty if there are none."""
    barred = [key for key in sorted(tolerated) if not is_one_of(key, settings.tolerations)]
    if "" in barred:
        return "all device taints"
    return f"the {'device taint' if len(barred) == 1 else 'device taints'} {few(barred)}" if barred else ""


def _tolerable(settings: Settings) -> str:
    allowed = few(settings.tolerations) if settings.tolerations else "no toleration of device taints"
    return f"the policy allows {allowed}"


def _administration(settings: Settings) -> str:
    namespaces = few(settings.admin_access) if settings.admin_access else "no namespace"
    return f"that reaches devices which other pods use, and the policy allows it in {namespaces}"


def _may_administer(namespace: str, settings: Settings) -> bool:
    """Whether the policy allows `adminAccess`. If the namespace is not known, one allowed namespace is enough."""
    if not namespace:
        return bool(settings.admin_access)
    return any(fnmatchcase(namespace, glob) for glob in settings.admin_access)


def _of_a_container(container: Container, settings: Settings) -> Iterator[Violation]:
    amounts = {**container.limits, **container.requests}
    for name, amount in amounts.items():
        if not name.startswith(DEVICE_CLASSES) or positive(amount) is None:
            continue
        if fault := settings.device_classes.fault(name.removeprefix(DEVICE_CLASSES)):
            yield Violation(f"{container.path}.resources", f"requests {cut(name)}", fault, _ELSE)


RULE = Rule(
    key="resourceClaims",
    promise="Pods claim devices only of the classes that their namespace may use.",
    problem="Everybody may claim devices of every DeviceClass, and with adminAccess also devices that others use.",
    example=Example(
        training_pod(resources="{limits: {deviceclass.resource.kubernetes.io/h200.example.com: 8}}"),
        {"deviceClasses": {"allowed": ["gpu.nvidia.com", "mig.nvidia.com"]}},
    ),
    settings=Settings,
    validate=validate,
    validate_claim=validate_claim,
)
