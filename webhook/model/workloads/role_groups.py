"""The kinds of RBG: groups of pods by role, whose templates are written once and patched by role.

Fields and defaults are those of api/workloads (v1alpha1, v1alpha2) in sgl-project/rbg. Its patches are strategic merge
patches (applyStrategicMergePatch in api/workloads/v1alpha2/helper.go). Of pods with directives
in them nothing is known.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.model.workloads.merging import is_worth, patched
from webhook.model.workloads.parts import counted, entries, listed, mapped, named, part, product
from webhook.model.workloads.template import Template

_LISTS = ("containers", "initContainers")


@dataclass(frozen=True, slots=True)
class _Pods:
    """A pod template, where it stands, and which parts of its pods stand in patches of it."""

    template: Mapping[str, Any]
    where: str
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def with_patch(self, patch: Mapping[str, Any], where: str) -> "_Pods | None":
        """The pods as a patch makes them; None for one with directives."""
        if not patch:
            return self
        if _has_directives(patch):
            return None
        return _Pods(patched(self.template, patch), self.where, {**self.elsewhere, **self._moved(patch, where)})

    def _moved(self, patch: Mapping[str, Any], where: str) -> dict[str, str]:
        """Places in the pod -> where their values stand in the patch at `where`."""
        moved: dict[str, str] = {}
        for key, value in mapped(patch, "spec").items():
            place = f"spec.{key}"
            if key not in _LISTS:
                moved[place] = f"{where}.{place}"
                continue
            own = {named(one) for one in listed(self.template, "spec", key)}
            for index, container in enumerate(value if isinstance(value, list) else ()):
                name = named(container)
                inside, there = f"{place}[{name}]", f"{where}.{place}[{name or index}]"
                if name and name in own:
                    moved.update({f"{inside}.{key_}": f"{there}.{key_}" for key_ in container if key_ != "name"})
                elif name:
                    moved[inside] = there
        return moved

    def templates(self, group: str, pods: int | None) -> Iterator[Template]:
        """The pods as templates, none where they have no spec."""
        if mapped(self.template, "spec"):
            yield Template(self.template, f"{self.where}.spec", group, pods, elsewhere=self.elsewhere)


def role_based_group(raw: Mapping[str, Any]) -> Iterator[Template]:
    """RoleBasedGroup."""
    yield from _roles(mapped(raw, "spec"), "spec", 1)


def role_based_group_set(raw: Mapping[str, Any]) -> Iterator[Template]:
    """RoleBasedGroupSet: `template` in v1alpha1, `groupTemplate` since."""
    groups = counted(part(raw, "spec", "replicas"), 1)
    yield from _roles(mapped(raw, "spec", "template"), "spec.template", groups)
    yield from _roles(mapped(raw, "spec", "groupTemplate", "spec"), "spec.groupTemplate.spec", groups)


def _roles(spec: Mapping[str, Any], where: str, groups: int | None) -> Iterator[Template]:
    shared = {
        name: _Pods(mapped(one, "template"), f"{where}.{inside}.template")
        for inside, name, one in entries(spec, "roleTemplates")
        if name
    }
    roles = list(entries(spec, "roles"))
    if not is_worth([one.template for one in shared.values()], 2 * len(roles)):
        return
    for inside, name, role in roles:
        pods = product(groups, counted(role.get("replicas"), 1))
        yield from _role(role, f"{where}.{inside}", name, pods, shared)


def _role(
    role: Mapping[str, Any], where: str, name: str, pods: int | None, shared: Mapping[str, _Pods]
) -> Iterator[Template]:
    for path in (("customComponentsPattern", "components"), ("components",)):
        for inside, component, one in entries(role, *path):
            size = product(pods, counted(one.get("size"), 1))
            own = _Pods(mapped(one, "template"), f"{where}.{inside}.template")
            yield from own.templates(f"{name} {component}".strip(), size)
    if mapped(role, "standalonePattern"):
        made = _source(mapped(role, "standalonePattern"), f"{where}.standalonePattern", shared)
        yield from made.templates(name, pods) if made else ()
    elif mapped(role, "leaderWorkerPattern"):
        pattern, place = mapped(role, "leaderWorkerPattern"), f"{where}.leaderWorkerPattern"
        made = _source(pattern, place, shared)
        yield from _group(made, pattern, place, name, pods, ("leaderTemplatePatch", "workerTemplatePatch"))
    else:  # v1alpha1
        made = _source(role, where, shared)
        made = made and made.with_patch(mapped(role, "templatePatch"), f"{where}.templatePatch")
        group = mapped(role, "leaderWorkerSet")
        if group:
            patches = ("patchLeaderTemplate", "patchWorkerTemplate")
            yield from _group(made, group, f"{where}.leaderWorkerSet", name, pods, patches)
        elif made:
            yield from made.templates(name, pods)


def _source(raw: Mapping[str, Any], where: str, shared: Mapping[str, _Pods]) -> _Pods | None:
    """The template that stands in a part, or that it refers to and patches."""
    if mapped(raw, "template"):
        return _Pods(raw["template"], f"{where}.template")
    reference = mapped(raw, "templateRef")
    found = shared.get(named(reference))
    return found and found.with_patch(mapped(reference, "patch"), f"{where}.templateRef.patch")


def _group(  # noqa: PLR0913, PLR0917  # all that makes a group
    made: _Pods | None,
    pattern: Mapping[str, Any],
    where: str,
    name: str,
    groups: int | None,
    patches: tuple[str, str],
) -> Iterator[Template]:
    """A leader and its workers, of whom `size` counts all."""
    size = counted(pattern.get("size"), 1)
    workers = product(groups, None if size is None else max(size - 1, 0))
    for who, pods, patch in zip(("leader", "worker"), (groups, workers), patches, strict=True):
        one = made and made.with_patch(mapped(pattern, patch), f"{where}.{patch}")
        if one and pods != 0:
            yield from one.templates(f"{name} {who}", pods)


def _has_directives(patch: Mapping[str, Any]) -> bool:
    rest: list[object] = [patch]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            if any(str(key).startswith("$") for key in one):
                return True
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)
    return False
