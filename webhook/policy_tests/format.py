"""The format of files that test policies: models, and the JSON Schema for editors.

`Suite` and `Case` are what a file says, as values, before a case runs.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from webhook.audit.documents import Document
from webhook.model.globs import is_glob
from webhook.model.shape import spelled
from webhook.policy.exception_times import read_instant
from webhook.policy.namespaces import NamespaceGlob
from webhook.policy.schema import Schema, WrittenFile, schema_of
from webhook.rules import RULES
from webhook.yaml_files.camel_model import CamelModel, not_empty, readable
from webhook.yaml_files.file_errors import FileError, KeyPath, key_text
from webhook.yaml_files.yaml_lines import YamlNode

KIND = "GPUPolicyTest"

_RULES = tuple(rule.key for rule in RULES)
_POLICY_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.yaml")


def _rule(value: str) -> str:
    if value not in _RULES:
        raise ValueError(f"{spelled(value)} is no rule")
    return value


def _policy_file(value: str) -> str:
    if not _POLICY_FILE.fullmatch(value):
        raise ValueError("write the name of a policy file, such as _default.yaml")
    return value


def _no_glob(value: str) -> str:
    if is_glob(value):
        raise ValueError(f"{spelled(value)} is a glob; write the name of one namespace")
    return value


Text = Annotated[str, Field(min_length=1)]
Some = not_empty("found an empty list; write at least one entry")
Keys = not_empty("found an empty map; write at least one entry", "minProperties")
Values = Annotated[dict[str, Any], *Keys]


class ExpectedFinding(CamelModel):
    """A refusal or a warning. Every finding of the rule is meant, unless `field` or `message` says which."""

    rule: Annotated[str, AfterValidator(_rule), Field(json_schema_extra={"enum": list(_RULES)})]
    """The rule that finds it."""
    field: Text | None = None
    """The place in the object, as messages name it: `spec.containers[trainer].resources`."""
    message: Text | None = None
    """A part of its message; any white space matches any other."""


class Expectation(CamelModel):
    """What happens to a pod, or to the pods that a workload makes. A resource has to be allowed unless it is expected
    to be refused.
    """

    allowed: bool | None = None
    """Whether it is admitted. `false` without `refused` leaves open which rule refuses it."""
    refused: tuple[ExpectedFinding, ...] | None = None
    """All violations that refuse it, and no others."""
    warned: tuple[ExpectedFinding, ...] | None = None
    """All warnings that its author gets, and no others; `[]` for none. Unset: warnings are not compared.
    """
    injected: Values | None = None
    """A part of the mutated pod that the policy adds. Maps and lists may have more entries than are written here, but
    an empty one matches only an empty one. Entries with a `name` are compared with entries of the same name. `null`
    says that there is no value."""
    result: Values | None = None
    """A part of the mutated pod, no matter who wrote it, such as what the user has written and is kept. Written as
    `injected` is."""
    unchanged: bool | None = None
    """Whether nothing is injected."""

    @property
    def is_refusal(self) -> bool:
        return bool(self.refused) or self.allowed is False

    @property
    def is_empty(self) -> bool:
        """Whether no key about the pods is written."""
        return not self.model_fields_set & set(Expectation.model_fields)

    @model_validator(mode="after")
    def _makes_sense(self) -> "Expectation":
        if self.allowed and self.refused:
            raise ValueError("both allowed and refused; keep one of the two")
        if self.allowed is False and self.refused == ():
            raise ValueError("allowed is false, but refused names no rule; name the rules, or leave out refused")
        for key in ("injected", "result", "unchanged"):
            if self.is_refusal and key in self.model_fields_set:
                raise ValueError(f"a resource that is refused is not mutated; leave out {key}")
        if self.injected is not None and self.unchanged:
            raise ValueError("both injected and unchanged; keep one of the two")
        return self


class ResourceExpectation(Expectation):
    """What happens to a pod, or to all pods that a workload makes."""

    applied: Literal["accepted", "warned", "refused"] | None = None
    """What `kubectl apply` answers. For a workload whose pods would be refused, this depends on `spec.workloads` of the
    policy."""
    groups: dict[str, Expectation] | None = None
    """In addition, what happens to the pods of single groups, by the name that the workload gives them, such as
    `Worker`."""

    @property
    def says_something(self) -> bool:
        return not self.is_empty or self.applied is not None or bool(self.groups)


class CaseExpectation(ResourceExpectation):
    """What happens to each resource of the case."""

    resources: dict[str, ResourceExpectation] | None = None
    """What happens to single resources, by kind and name (`Pod/train`), or by kind, namespace and name. The other keys
    then apply to all other resources."""

    @model_validator(mode="after")
    def _expects_something(self) -> "CaseExpectation":
        own = self.says_something
        named = self.resources or {}
        if not own and not named:
            raise ValueError("expects nothing; write at least one of allowed, refused, warned, injected, unchanged")
        for name, one in named.items():
            if not one.says_something:
                raise ValueError(f"nothing is expected of {name}; write what happens to it, or leave it out")
        every = [self.groups or {}, *(one.groups or {} for one in named.values())]
        for name, group in ((name, group) for groups in every for name, group in groups.items()):
            if group.is_empty:
                raise ValueError(f"nothing is expected of group {name}; write what happens to it, or leave it out")
        return self


class CaseSettings(CamelModel):
    """Resources, and what is expected to happen to them."""

    name: Text
    """What the case shows, in a sentence; unique in the file."""
    description: str | None = None
    """Why it is so, for readers."""
    namespace: Annotated[NamespaceGlob, AfterValidator(_no_glob)] = "default"
    """Namespace of the resources that name none."""
    at: Annotated[str, AfterValidator(readable(read_instant)), Field(examples=["2026-12-01T10:00:00Z"])] | None = None
    """When the resources are applied: a time with its zone, or a day, for its beginning in UTC. Exceptions hold or not
    at this moment. Unset: now."""
    resources: Annotated[tuple[Text | dict[str, Any], ...], *Some]
    """Pods and workloads as they are applied, in this order: objects, and names of files or folders with manifests,
    relative to this file."""
    expect: CaseExpectation
    """What happens to them."""


class PolicyTestMetadata(CamelModel):
    """What this test is called."""

    name: Text
    """What is tested."""


class PolicyTestSpec(CamelModel):
    """What is tested, and by which cases."""

    policies: (
        Text | Annotated[dict[Annotated[str, AfterValidator(_policy_file)], str | dict[str, Any]], *Keys]
    ) | None = None
    """The policies: a directory, relative to this file, or policy files, by name: their text, or their keys, where
    apiVersion, kind and metadata may be left out. Unset: the directory of `--policies`, else the nearest one above this
    file that holds `_default.yaml`."""
    inventory: Text | tuple[dict[str, Any], ...] | None = None
    """The cluster: a file, relative to this one, with what `kubectl get nodes,runtimeclasses,priorityclasses,pods -A -o
    yaml` prints, or such objects. Its pods count against quotas. Unset: the file of `--inventory`, else a cluster about
    which nothing is known."""
    cases: Annotated[tuple[CaseSettings, ...], *Some]
    """The cases. None of them knows of the others: each begins with the pods of the inventory."""


class PolicyTestFile(WrittenFile[Literal["GPUPolicyTest"], PolicyTestMetadata, PolicyTestSpec]):
    """Cases that test policies of gpu-policy-webhook."""


@lru_cache(maxsize=1)
def policy_test_schema() -> Schema:
    """JSON Schema (draft-07) of a test of policies. Callers share it and must not change it."""
    return schema_of(PolicyTestFile, KIND)


@dataclass(frozen=True, slots=True)
class Case:
    """Resources and what is expected of them. `errors` are the mistakes in the resources that the case names.

    `node` is the case as it is written, and `path` its place in the file. `at` is when the resources are applied, in
    seconds since 1970; None for now.
    """

    settings: CaseSettings
    documents: tuple[Document, ...]
    errors: tuple[FileError, ...]
    node: YamlNode
    path: KeyPath
    at: float | None = None

    def error(self, path: KeyPath, message: str) -> FileError:
        return FileError(self.node.file, self.node.at(*path).line, key_text((*self.path, *path)), message)


@dataclass(frozen=True, slots=True)
class Suite:
    """The test in one file. `policies` and `inventory` are as they are written; None for a missing key."""

    file: str
    name: str
    policies: YamlNode
    inventory: YamlNode
    cases: tuple[Case, ...]
