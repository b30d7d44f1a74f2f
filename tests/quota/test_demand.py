"""What a pod counts against the quotas of its namespace."""

from fractions import Fraction

import pytest

from tests.rules.samples import container, pod
from webhook.model.pod_reader import pod_from_raw
from webhook.model.violation import Violation
from webhook.quota.demand import demand_of
from webhook.quota.objections import objections
from webhook.quota.quota_wording import is_unspecified
from webhook.quota.quotas import Counting, Demand, Limit, Measure, Quota, QuotaScope, UnspecifiedModel

GPU = "nvidia.com/gpu"
T4 = {"nvidia.com/gpu.product": "Tesla-T4"}


def read(*containers, **spec):
    return pod_from_raw(pod(*containers, **spec))


def test_resources_are_sorted_and_models_said():
    both = read(container("a", 1), container("b", 2, "amd.com/gpu"), nodeSelector=T4)
    assert demand_of(both, "team", Counting()) == Demand("team", (("amd.com/gpu", 2), (GPU, 1)), ("T4",))


@pytest.mark.parametrize(
    "containers",
    [
        pytest.param([container()], id="no GPU"),
        pytest.param([container(gpus=0)], id="none of them"),
        pytest.param([container(gpus=3000, resource="nvidia.com/gpumem")], id="memory of a share"),
        pytest.param([container(gpus=30, resource="nvidia.com/gpucores")], id="cores of a share"),
        pytest.param([container(gpus=1, resource="nvidia.com/rdma-vf")], id="a network card"),
    ],
)
def test_a_pod_without_gpus_asks_for_nothing(containers):
    assert demand_of(read(*containers), "team", Counting()) is None


def test_what_is_wrong_with_a_pod_names_its_place_and_the_shared_quota():
    counting = Counting(unspecified_model=UnspecifiedModel.DENY)
    limits = (Limit(Measure.GPUS, "", Fraction(2)), Limit(Measure.MODEL, "T4", Fraction(1)))
    shared_quota = Quota(QuotaScope.SHARED, "research", ("team",), limits, counting)
    asking = read(container(gpus=3))
    asked = demand_of(asking, "team", counting)
    assert list(objections(asked, shared_quota)) == [
        Violation(
            "spec",
            "does not select a GPU model",
            "GPU quota 'research' limits T4, so a pod has to select one",
            "Add a nodeSelector for the model, such as nvidia.com/gpu.product: Tesla-T4 for T4",
        ),
        Violation("spec", "requests 3 GPUs", "GPU quota 'research' allows 2 GPUs in all", "Request 2 or fewer"),
    ]
    assert is_unspecified(asked, shared_quota)


def test_a_pod_that_says_its_model_is_not_unspecified():
    shared_quota = Quota(QuotaScope.SHARED, "research", ("team",), (Limit(Measure.MODEL, "T4", Fraction(1)),))
    assert not is_unspecified(demand_of(read(container(gpus=1), nodeSelector=T4), "team", Counting()), shared_quota)
