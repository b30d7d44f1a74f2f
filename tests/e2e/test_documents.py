"""What docs/rules.md shows of kubectl is what kubectl prints."""

from pathlib import Path

from tests.e2e.installation import Installation
from webhook.rules import gpu_limits
from webhook.rules_page.page_of_rules import shown_example


def test_a_refusal_in_the_documents_is_what_kubectl_prints(
    webhook: Installation, make_namespace, tmp_path: Path
) -> None:
    assert gpu_limits.RULE.example is not None
    file = tmp_path / "train.yaml"
    file.write_text(gpu_limits.RULE.example.manifest)
    done = webhook.plane.kubectl("apply", "-f", str(file), namespace=make_namespace("judged"), check=False)
    printed = done.stderr.strip().splitlines()[-1].replace(str(file), file.name)
    assert printed.startswith("Error from server (Forbidden): ")
    refusal = printed.partition("denied the request: ")[2]
    assert refusal
    assert refusal in " ".join("".join(shown_example(gpu_limits.RULE)).split())
