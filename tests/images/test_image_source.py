"""Facts that also know images hand on everything else."""

from dataclasses import replace

from tests.images.replicas import Clock, Registries, config, looking_up
from webhook.facts.snapshot import Snapshot
from webhook.images.image_source import WithImages
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.rule import Facts

NODE = {
    "metadata": {"name": "n1", "uid": "1", "labels": {"zone": "a"}},
    "status": {"capacity": {"nvidia.com/gpu": "8"}},
}
POD = {"spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}


def test_what_the_cluster_knows_is_handed_on() -> None:
    classes = [{"metadata": {"name": "nvidia"}, "handler": "nvidia"}], [{"metadata": {"name": "low"}, "value": 10}]
    snapshot = Snapshot.of([NODE], *classes)
    with looking_up(Registries(), clock=Clock()) as images:
        facts: Facts = WithImages(snapshot, images)
        pod = pod_from_raw(POD)
        assert facts.matching_nodes(pod) == snapshot.matching_nodes(pod)
        assert len(facts.matching_nodes(pod)) == 1
        assert facts.feasible_nodes(pod) == snapshot.feasible_nodes(pod)
        too_large = replace(pod, containers=pod.containers * 9)
        assert list(facts.feasible_nodes(too_large)) == []
        assert facts.knows_nodes()
        assert facts.gpu_resources() == {"nvidia.com/gpu"}
        assert (facts.largest("nvidia.com/gpu"), facts.largest("cpu", pod)) == (8, None)
        assert list(facts.label_values("zone")) == ["a"]
        assert facts.priority_classes() == snapshot.priority_classes()
        assert set(facts.priority_classes()) == {"low"}
        assert facts.runtime_class("nvidia") is not None
        assert facts.runtime_class("nvidia") == snapshot.runtime_class("nvidia")


def test_asking_about_an_image_has_it_looked_up() -> None:
    with looking_up(Registries(), clock=Clock()) as images:
        facts = WithImages(Snapshot.of(), images)
        assert facts.image("python").is_pending
        assert images.wait(20)
        assert facts.image("python").config == config("docker.io/library/python:latest")
