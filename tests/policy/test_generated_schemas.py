"""The JSON Schemas in docs/ are those of the code."""

from pathlib import Path

from webhook.policy.cuda_file import cuda_schema_text
from webhook.policy.policy_quotas import quotas_schema_text
from webhook.policy.schema import policy_schema_text

DOCS = Path(__file__).parents[2] / "docs"


def test_the_json_schema_is_up_to_date() -> None:
    stale = "docs/policy-schema.json is not what the rules say; run: gpu-policy policy schema > docs/policy-schema.json"
    assert (DOCS / "policy-schema.json").read_text() == policy_schema_text(), stale


def test_the_json_schema_of_quotas_is_up_to_date() -> None:
    stale = (
        "docs/quotas-schema.json is not what the settings say; run: gpu-policy policy schema --kind GPUSharedQuotas > "
        + ("docs/quotas-schema.json")
    )
    assert (DOCS / "quotas-schema.json").read_text() == quotas_schema_text(), stale


def test_the_json_schema_of_rows_for_cuda_is_up_to_date() -> None:
    stale = (
        "docs/cuda-tables-schema.json is not what rows say; run: gpu-policy policy schema --kind GPUCudaTables > "
        + ("docs/cuda-tables-schema.json")
    )
    assert (DOCS / "cuda-tables-schema.json").read_text() == cuda_schema_text(), stale
