"""Names of GPUs that only the platform knows: declared once for all namespaces, checked strictly, read at the start."""

import re

import pytest

from tests.golden import golden
from webhook.model.accelerators import Declared, Share, Vendor
from webhook.yaml_files.file_errors import FileErrors

HEAD = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {{name: {name}}}\nspec:\n"
VGPU = '{name: "example.com/vgpu-*", vendor: nvidia, share: shared}'


def write(policies, *extra: str, name: str = "_default", rules: str = "{}") -> None:
    """Write a file in which the entries stand on line 7 and below."""
    entries = "".join(f"      - {entry}\n" for entry in extra)
    declared = f"  accelerators:\n    extra:\n{entries}" if extra else ""
    policies.write(f"{name}.yaml", f"{HEAD.format(name=name)}{declared}  rules: {rules}\n")


def test_what_the_default_declares_holds_in_every_namespace(policies) -> None:
    write(policies, VGPU, "{name: example.com/a30, vendor: nvidia, dra: true}")
    write(policies, name="team")
    loaded = policies.load()
    expected = (
        Declared("example.com/vgpu-*", Vendor.NVIDIA, Share.SHARED),
        Declared("example.com/a30", Vendor.NVIDIA, Share.WHOLE, by_dra=True),
    )
    assert {loaded.for_namespace(name).accelerators.declared for name in ("team", "other")} == {expected}
    assert loaded.accelerators.declared == expected


@golden
def test_a_glob_is_a_pattern_that_re2_reads_alike(
    name: str, matching: tuple[str, ...], others: tuple[str, ...]
) -> None:
    """Only what both have and mean alike: escaped dots, any text, any character."""
    pattern = Declared(name, Vendor.NVIDIA).pattern
    assert re.fullmatch(r"([A-Za-z0-9/_-]|\\\.|\.\*?)+", pattern)
    assert [bool(re.fullmatch(pattern, one)) for one in (*matching, *others)] == [True] * len(matching) + [False] * len(
        others
    )


@golden
def test_settings_may_name_what_is_declared_and_nothing_else(policies, rules: str) -> None:
    write(policies, VGPU, rules=rules)
    policies.load()
    write(policies, rules=rules)
    with pytest.raises(FileErrors, match="is no GPU resource"):
        policies.load()


def test_shared_quotas_and_pools_may_name_what_is_declared(policies) -> None:
    pool = '{name: a, resource: "example.com/vgpu-a", product: NVIDIA-A100-SXM4-80GB, gpus: 8}'
    write(policies, VGPU, rules=f"{{}}\n  nodePools: [{pool}]")
    policies.shared_quotas('- {name: all, namespaces: [team], byResource: {"example.com/vgpu-a": 4}}')
    loaded = policies.load()
    assert loaded.default.node_pools[0].gpu_resources == {"example.com/vgpu-a"}
    assert [bound.quota.counting.accelerators for bound in loaded.shared_quotas] == [loaded.accelerators]
