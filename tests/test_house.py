"""The house does not grow: its mass is written down in `house.json`, and may only fall. `make house` writes it."""

import ast
import json
import re
import subprocess
from collections import Counter, defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
WRITTEN = Path(__file__).with_name("house.json")
LIMIT = re.compile(r"^_?(?:MOST|LONGEST|LARGEST|DEEPEST|FEWEST)\w* *(?::[^=]+)?=", re.MULTILINE)


def tracked(*patterns: str) -> dict[Path, str]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [Path(name) for name in listed.stdout.splitlines()]
    return {file: (ROOT / file).read_text() for file in files if (ROOT / file).exists()}


def imports_of(file: Path, text: str, modules: dict[str, Path]) -> set[Path]:
    named = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            named |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
    return {modules[name] for name in named if name in modules} - {file}


def protocols_with_one_class(texts: dict[Path, str]) -> int:
    """Protocols whose methods are all defined by at most one class of the product; by names, so approximately."""
    protocols, classes = [], []
    for text in texts.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
                is_protocol = any(ast.unparse(base).partition("[")[0] == "Protocol" for base in node.bases)
                (protocols if is_protocol else classes).append(methods - {"__init__"})
    return sum(bool(own) and sum(own <= other for other in classes) <= 1 for own in protocols)


def counts() -> dict[str, int]:
    product = tracked("webhook/*.py", "certs/*.py")
    modules = {".".join(file.with_suffix("").parts): file for file in product if file.name != "__init__.py"}
    graph = {file: imports_of(file, text, modules) for file, text in product.items()}
    importers = defaultdict(set)
    for file, imported in graph.items():
        for one in imported:
            importers[one].add(file)
    try:
        TopologicalSorter(graph).prepare()
        circles = 0
    except CycleError:
        circles = 1
    docs = tracked("docs/*.md", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
    return {
        "lines of product": sum(text.count("\n") for text in product.values()),
        "lines of tests": sum(text.count("\n") for text in tracked("tests/*.py", "lab/*.py").values()),
        "modules": len(modules),
        "modules with one importer": sum(len(them) == 1 for them in importers.values()),
        "named limits": sum(len(set(LIMIT.findall(text))) for text in product.values()),
        "Protocols with one class": protocols_with_one_class(product),
        "import circles": circles,
        "words of documentation": sum(len(text.split()) for text in docs.values()),
    }


def test_the_house_does_not_grow() -> None:
    """What a change takes it gives back. Whoever has to take more says so in the commit that writes the new counts."""
    written, now = Counter(json.loads(WRITTEN.read_text())), Counter(counts())
    assert {what: f"{written[what]} -> {now[what]}" for what in now - written} == {}


if __name__ == "__main__":
    WRITTEN.write_text(json.dumps(counts(), indent=2) + "\n")
