"""Quotas count GPUs that only `_cuda.yaml` knows."""

from fractions import Fraction

from tests.rules.samples import container, pod
from webhook.model.pod_reader import pod_from_raw
from webhook.quota.amounts import weight

WHO = "source: me, date: unknown"
R200 = f'gpus:\n- {{name: R200, compute: "10.7", product: NVIDIA-R200, mig: {{1g.50gb: 7}}, {WHO}}}'
OF_R200 = "gpuQuota: {mode: enforce, byModel: {R200: 4}, byResource: {nvidia.com/mig-1g.50gb: 7}}"


def test_a_quota_counts_a_gpu_that_only_the_platform_knows(policies) -> None:
    policies.policy("_default", OF_R200)
    policies.shared_quotas("- {name: research, namespaces: [a], byModel: {R200: 8}}")
    policies.cuda(R200)
    loaded = policies.load()
    asking = pod_from_raw(pod(container(gpus=1), nodeSelector={"nvidia.com/gpu.product": "NVIDIA-R200"}))
    for bound in loaded.quotas_for("a"):
        counting = bound.quota.counting
        assert counting.catalogue.models_of(asking) == ("R200",)
        assert weight("nvidia.com/mig-1g.50gb", ("R200",), counting) == Fraction(1, 7)
    assert len(loaded.quotas_for("a")) == 2


def test_without_its_row_no_limit_may_name_it(policies) -> None:
    policies.policy("_default", OF_R200)
    policies.cuda()
    assert [error.partition(";")[0] for error in policies.errors()] == [
        "_default.yaml:6: spec.rules.gpuQuota.byModel.R200: not allowed as a key here",
        "_default.yaml:6: spec.rules.gpuQuota.byResource.nvidia.com/mig-1g.50gb: not allowed as a key here",
    ]
