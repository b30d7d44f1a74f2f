"""The JSON Schemas of all files that people write, as files for editors that understand `# yaml-language-server:`."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from webhook.policy.cuda_rows import cuda_schema_text
from webhook.policy.exception_format import exceptions_schema_text
from webhook.policy.policy_quotas import quotas_schema_text
from webhook.policy.schema import CUDA_FILE, EXCEPTIONS_FILE, QUOTAS_FILE, policy_schema_text
from webhook.policy_tests.format import policy_test_schema_text


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """The schema of a kind: the name of its file, its text, and which files are of the kind, below the policies."""

    name: str
    text: Callable[[], str]
    files: str


SCHEMAS: Mapping[str, SchemaFile] = {
    "GPUPolicy": SchemaFile("policy-schema.json", policy_schema_text, "*.yaml"),
    "GPUQuotaPots": SchemaFile("quotas-schema.json", quotas_schema_text, QUOTAS_FILE),
    "GPUCudaTables": SchemaFile("cuda-tables-schema.json", cuda_schema_text, CUDA_FILE),
    "GPUPolicyExceptions": SchemaFile("exceptions-schema.json", exceptions_schema_text, EXCEPTIONS_FILE),
    "GPUPolicyTest": SchemaFile("policy-test-schema.json", policy_test_schema_text, "tests/*.yaml"),
}
"""Kind -> its schema."""


def write_schemas(directory: Path) -> None:
    """Write every schema into a directory, which is made if it is missing. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    for one in SCHEMAS.values():
        (directory / one.name).write_text(one.text(), encoding="utf-8")


def lines_for_editors(directory: Path, policies: Path) -> Iterator[str]:
    """For each kind, its files and the first line that they need. Editors read a path from the file's own folder."""
    for kind, one in SCHEMAS.items():
        files = policies / one.files
        path = Path(os.path.relpath(directory / one.name, files.parent)).as_posix()
        beginning = "" if path.startswith(".") else "./"
        yield f"{files} ({kind}):"
        yield f"  # yaml-language-server: $schema={beginning}{path}"
