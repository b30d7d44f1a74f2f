"""A directory of policy files to write into, as a platform team would."""

import textwrap
from pathlib import Path

import pytest

from webhook.policy.loader import load
from webhook.policy.policy_set import PolicySet
from webhook.yaml_files.file_errors import FileErrors


class PolicyDirectory:
    """Writes policy files and loads them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(exist_ok=True)

    def write(self, file: str, text: str | bytes) -> None:
        """Write a whole file."""
        source = textwrap.dedent(text).encode() if isinstance(text, str) else text
        (self.path / file).write_bytes(source)

    def policy(self, name: str, rules: str = "{}", namespaces: str = "") -> None:
        """Write NAME.yaml; `rules` is YAML for the place after `rules:`, on line 6 (7 with namespaces)."""
        self.write(f"{name}.yaml", policy_text(name, rules, namespaces))

    def shared_quotas(self, quotas: str = "") -> None:
        """Write _quotas.yaml; `quotas` is YAML for the list, which begins on line 6, and no text means none."""
        head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUSharedQuotas\nmetadata: {name: _quotas}\nspec:\n"
        listed = textwrap.indent(textwrap.dedent(quotas).strip("\n"), "    ")
        self.write("_quotas.yaml", f"{head}  quotas:\n{listed}\n" if quotas else f"{head}  quotas: []\n")

    def cuda(self, lists: str = "") -> None:
        """Write _cuda.yaml; `lists` is YAML for the place below `spec:`, which begins on line 5."""
        head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUCudaTables\nmetadata: {name: _cuda}\nspec:"
        body = textwrap.indent(textwrap.dedent(lists).strip("\n"), "  ")
        self.write("_cuda.yaml", f"{head}\n{body}\n" if lists else f"{head} {{}}\n")

    def exceptions(self, exceptions: str) -> None:
        """Write _exceptions.yaml; `exceptions` is YAML for the list, which begins on line 6."""
        head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicyExceptions\nmetadata: {name: _exceptions}\nspec:\n"
        listed = textwrap.indent(textwrap.dedent(exceptions).strip("\n"), "    ")
        self.write("_exceptions.yaml", f"{head}  exceptions:\n{listed}\n")

    def load(self, now: float | None = None) -> PolicySet:
        return load(self.path, now=now)

    def errors(self, now: float | None = None) -> list[str]:
        """The errors of loading, without the directory."""
        with pytest.raises(FileErrors) as caught:
            self.load(now)
        return [str(error).replace(f"{self.path}/", "") for error in caught.value.errors]


def policy_text(name: str, rules: str = "{}", namespaces: str = "") -> str:
    head = f"apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {{name: {name}}}\nspec:\n"
    patterns = f"  namespaces: {namespaces}\n" if namespaces else ""
    body = textwrap.indent(textwrap.dedent(rules).strip("\n"), "    ")
    return f"{head}{patterns}  rules:\n{body}\n"


@pytest.fixture
def policies(tmp_path: Path) -> PolicyDirectory:
    return PolicyDirectory(tmp_path / "policies")
