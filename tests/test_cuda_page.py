"""docs/cuda.md says what the program does."""

import json
import re
import textwrap
from pathlib import Path

from tests.cuda_command import answer, batch, run
from webhook.cuda.checks import Verdict
from webhook.policy.cuda_file import KEYS
from webhook.policy.loader import load

PAGE = (Path(__file__).parents[1] / "docs" / "cuda.md").read_text()
NO_RULES = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: _default}\nspec: {rules: {}}\n"


def test_the_reference_is_printed_as_it_stands_in_the_docs() -> None:
    assert run("docs").stdout == PAGE


def test_the_question_of_the_docs_gets_the_answer_that_stands_below_it() -> None:
    question, expected = re.findall(r"```json\n(.+?)```", PAGE, re.DOTALL)
    answers, status = batch(question.strip())
    assert (answers, status) == ([json.loads(expected)], 0)


def test_every_verdict_is_explained_in_the_docs_and_no_other_is() -> None:
    table = PAGE.partition("| Verdict |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == set(Verdict)


def test_the_mapping_of_the_docs_is_a_policy_that_loads(tmp_path: Path) -> None:
    example, _ = re.findall(r"```yaml\n(.+?)```", PAGE, re.DOTALL)
    head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: _default}\n"
    (tmp_path / "_default.yaml").write_text(head + textwrap.dedent(example))
    told = answer("registry.example.com/vision/app:1", "--policies", tmp_path)
    assert (told["cuda"], told["evidence"]) == ("12.4", "policy images: registry.example.com/vision/*")
    assert answer("registry.example.com/tools/app:1", "--policies", tmp_path)["cuda"] == "none"


def test_the_rows_of_the_docs_are_a_file_that_loads(tmp_path: Path) -> None:
    """Each list has an example, and all of them go together."""
    _, example = re.findall(r"```yaml\n(.+?)```", PAGE, re.DOTALL)
    (tmp_path / "_default.yaml").write_text(NO_RULES)
    (tmp_path / "_cuda.yaml").write_text(example)
    assert load(tmp_path).cuda.written.keys() == KEYS.keys()


def test_texts_of_rows_keep_to_their_cell(tmp_path: Path) -> None:
    (tmp_path / "_default.yaml").write_text(
        "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: _default}\nspec: {rules: {}}\n"
    )
    (tmp_path / "_cuda.yaml").write_text(
        "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUCudaTables\nmetadata: {name: _cuda}\nspec:\n"
        '  drivers: [{branch: 650, cuda: "14.0", source: b, note: "a | two\\nlines \\e[31m", date: unknown}]\n'
    )
    assert "| 650 | 14.0 |  | a \\| two lines \\x1b[31m |\n" in run("docs", "--policies", str(tmp_path)).stdout
