"""The chart as a whole: helm accepts it, and what is generated is in step with what it is made from."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.generate import CHART, INSTALL, MANIFESTS, chart_files, helm, manifest, render
from tests.deploy.manifests import NEWEST, needs_helm, rendered_text, shipped
from tests.deploy.value_sets import EXISTING, large_sets
from tests.golden import each

ROOT = CHART.parents[1]
TEMPLATES = sorted((CHART / "templates").iterdir())
VARYING = re.compile(r"gen\w+|derivePassword|rand\w*|uuidv4|shuffle|now|date\w*|ago|lookup|getHostByName|(expand)?env")
"""Functions of templates whose answer differs from one call to the next."""


@needs_helm
@large_sets
def test_helm_finds_nothing_to_complain_about(values: dict[str, Any]) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), "--values=-", values=values)


@needs_helm
def test_the_plain_manifests_are_what_the_chart_makes() -> None:
    for file in MANIFESTS:
        assert manifest(file) == file.read_text(), "run `python -m deploy.generate`"


@pytest.mark.parametrize("file", chart_files(), ids=lambda file: file.name)
def test_generated_files_of_the_chart_are_what_their_sources_make_of_them(file: Path) -> None:
    assert chart_files()[file] == file.read_text(), "run `python -m deploy.generate`"


@needs_helm
@large_sets
def test_rendering_twice_gives_the_same_bytes(values: dict[str, Any]) -> None:
    assert render(values, f"--kube-version={NEWEST}", namespace="platform") == rendered_text(
        values, namespace="platform"
    )


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.name)
def test_no_template_makes_certificates_or_draws_at_random_or_asks_the_cluster(file: Path) -> None:
    actions = " ".join(re.findall(r"\{\{(?!-? *\/\*).*?\}\}", file.read_text()))
    functions = set(re.findall(r"(?<![.\"$\w])[a-zA-Z]\w*", actions))
    assert "include" in functions or "define" in functions or "fail" in functions
    assert not [name for name in functions if VARYING.fullmatch(name)]


def test_no_certificate_and_no_key_is_shipped() -> None:
    assert not re.search(r"-----BEGIN|caBundle:\s*\S", INSTALL.read_text())
    (secret,) = shipped().of("Secret")
    assert not {"data", "stringData"} & secret.keys()


# What helm says after an installation

IGNORED = {"webhook": {"validate": {"failurePolicy": "Ignore"}}}


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, Any]], str]:
    """Renders NOTES.txt, which helm itself prints only where there is a cluster."""
    chart = tmp_path_factory.mktemp("notes") / "chart"
    shutil.copytree(CHART, chart)
    (chart / "templates" / "NOTES.txt").rename(chart / "notes.txt")
    (chart / "templates" / "notes.yaml").write_text('notes: {{ tpl (.Files.Get "notes.txt") . | toJson }}\n')
    template = [
        "template",
        "gate",
        str(chart),
        "--namespace=platform",
        "--show-only=templates/notes.yaml",
        "--kube-version=1.28.0",
    ]

    def render_notes(values: dict[str, Any]) -> str:
        return str(yaml.safe_load(helm(*template, "--values=-", values=values))["notes"])

    return render_notes


@needs_helm
def test_the_notes_name_the_next_steps_and_the_way_back(notes: Callable[[dict[str, Any]], str]) -> None:
    text = notes({})
    assert "kubectl --namespace platform rollout status deployment/gate-gpu-policy" in text
    assert "gpu-policy doctor --namespace platform --name gate-gpu-policy" in text
    assert "helm uninstall gate --namespace platform" in text
    assert not re.search("WARNING|NOTE", text)


@needs_helm
@each(
    "values, said",
    {
        "one replica": ({"replicas": 1}, "WARNING: replicas is 1"),
        "no pod depends": (IGNORED, "NOTE: failurePolicy is Ignore"),
        "nothing to trust": (EXISTING, "caBundle is empty"),
        "the nodes' network": ({"hostNetwork": True}, "a node of its own"),
    },
)
def test_the_notes_warn_of_what_the_values_mean(
    notes: Callable[[dict[str, Any]], str], values: dict[str, Any], said: str
) -> None:
    assert said in notes(values)
