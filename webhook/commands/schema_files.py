"""The JSON Schemas of all files that people write, as files for editors that understand `# yaml-language-server:`."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from webhook.policy.cuda_file import cuda_schema
from webhook.policy.exception_format import exceptions_schema
from webhook.policy.policy_quotas import quotas_schema
from webhook.policy.schema import CUDA_FILE, EXCEPTIONS_FILE, QUOTAS_FILE, Schema, policy_schema
from webhook.policy_tests.format import policy_test_schema


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """The schema of a kind: the name of its file, its content, and which files are of the kind, below the policies."""

    name: str
    schema: Callable[[], Schema]
    files: str

    @property
    def text(self) -> str:
        return json.dumps(self.schema(), indent=2, ensure_ascii=False) + "\n"


SCHEMAS: Mapping[str, SchemaFile] = {
    "GPUPolicy": SchemaFile("policy-schema.json", policy_schema, "*.yaml"),
    "GPUSharedQuotas": SchemaFile("quotas-schema.json", quotas_schema, QUOTAS_FILE),
    "GPUCudaTables": SchemaFile("cuda-tables-schema.json", cuda_schema, CUDA_FILE),
    "GPUPolicyExceptions": SchemaFile("exceptions-schema.json", exceptions_schema, EXCEPTIONS_FILE),
    "GPUPolicyTest": SchemaFile("policy-test-schema.json", policy_test_schema, "tests/*.yaml"),
}
"""Kind -> its schema."""


def unreadable_path(directory: Path, policies: Path) -> str:
    """A path to a schema that editors would not read as it is printed; empty if there is none.

    The YAML language server takes such a path up to a space or a #, and decodes nothing in it.
    """
    paths = (_path(directory, one, policies) for one in SCHEMAS.values())
    return next((path for path in paths if re.search(r"[\s#]", path)), "")


def _path(directory: Path, schema: SchemaFile, policies: Path) -> str:
    """The path of a schema from the folder of the files that name it."""
    return Path(os.path.relpath(directory / schema.name, (policies / schema.files).parent)).as_posix()


def write_schemas(directory: Path) -> None:
    """Write every schema into a directory, which is made if it is missing. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    for one in SCHEMAS.values():
        (directory / one.name).write_text(one.text, encoding="utf-8")


def lines_for_editors(directory: Path, policies: Path) -> Iterator[str]:
    """For each kind, its files and the first line that they need. Editors read a path from the file's own folder."""
    for kind, one in SCHEMAS.items():
        files = policies / one.files
        path = _path(directory, one, policies)
        beginning = "" if path.startswith(".") else "./"
        yield f"{files} ({kind}):"
        yield f"  # yaml-language-server: $schema={beginning}{path}"
