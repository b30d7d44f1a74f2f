"""Hot reload: the whole set is swapped, or the last good one kept."""

import logging
import threading

import pytest

from tests.clock import Clock
from tests.e2e.eventually import eventually
from webhook.policy.policy_store import PolicyStore
from webhook.yaml_files.file_errors import FileErrors

LIMIT = "gpuLimits: {{mode: enforce, maxPerPod: {}}}"


def most(policy_set, namespace="anything") -> int:
    return policy_set.for_namespace(namespace).rules[0].settings.max_per_pod


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(policies, clock) -> PolicyStore:
    policies.policy("_default", LIMIT.format(1))
    return PolicyStore(policies.path, clock=clock)


@pytest.mark.parametrize("text", [None, "x: ["], ids=["empty directory", "bad file"])
def test_starting_with_nothing_usable_is_an_error(policies, text) -> None:
    if text is not None:
        policies.write("_default.yaml", text)
    with pytest.raises(FileErrors):
        PolicyStore(policies.path)


def test_a_change_is_noticed_at_the_next_check(store, policies, clock) -> None:
    policies.policy("_default", LIMIT.format(2))
    clock.now += 5
    assert store.check()
    assert most(store.current) == 2
    assert (store.status.reloads, store.status.loaded_at_monotonic) == (1, clock.now)
    assert (store.status.hash, store.status.last_ok) == (store.current.hash, True)
    assert not store.check()


def test_a_quota_that_is_gone_with_its_file_is_logged_and_counted(policies, store, caplog) -> None:
    policies.policy("team", "gpuQuota: {mode: enforce, gpus: 8}")
    policies.policy("web", "gpuLimits: {maxPerPod: 1}")
    assert store.check()
    assert store.status.removed_quotas == 0
    for file in ("team.yaml", "web.yaml"):
        (policies.path / file).unlink()
    assert store.check()
    assert store.status.removed_quotas == 1
    assert "team.yaml: namespace team has the policy _default now, and no quota any more" in caplog.text
    assert "web.yaml: namespace web has the policy _default now\n" in caplog.text
    policies.policy("_default", LIMIT.format(3))
    assert store.check()
    assert store.status.removed_quotas == 1


def test_the_same_policies_written_differently_are_no_new_set(store, policies) -> None:
    before = store.current.hash
    policies.policy("_default", "# said anew\ngpuLimits: {maxPerPod: 1, mode: enforce}")
    assert not store.check()
    assert (store.current.hash, store.status.reloads) == (before, 0)


def test_a_bad_file_keeps_the_last_good_set_and_is_logged_once(store, policies, caplog) -> None:
    before = store.current
    policies.policy("_default", "gpuLimits: {mode: off}")
    with caplog.at_level(logging.INFO, "gpu_policy.policy"):
        assert not store.check()
        assert not store.check()
    assert store.current is before
    assert (store.status.last_ok, store.status.failures, store.status.reloads) == (False, 1, 0)
    assert "off is a boolean in YAML" in store.status.last_error
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert f"those of {before.short_hash} stay in use" in record.getMessage()


def test_mending_a_file_back_to_what_is_in_use_ends_the_error_without_a_new_set(store, policies) -> None:
    policies.write("_default.yaml", "x: [")
    store.check()
    policies.policy("_default", LIMIT.format(1))
    assert not store.check()
    assert (store.status.last_ok, store.status.last_error, store.status.reloads) == (True, "", 0)


@pytest.mark.parametrize(
    ("file", "remedy"),
    [
        ("_default.yaml", "the file is gone; restore it, or start again without it"),
        ("_quotas.yaml", "the file is gone; restore it, or write `quotas: []` in it"),
        ("_cuda.yaml", "the file is gone; restore it, or write `spec: {}` in it"),
    ],
)
def test_losing_a_file_of_all_namespaces_is_refused_until_it_is_back_or_says_nothing(
    store, policies, file: str, remedy: str
) -> None:
    policies.policy("team-a", LIMIT.format(2))
    policies.shared_quotas(SHARED_QUOTA.format(1))
    policies.cuda("drivers: [{branch: 650, cuda: '14.0', source: me, date: unknown}]")
    assert store.check()
    held = store.current
    (policies.path / file).unlink()
    assert not store.check()
    assert store.current is held
    assert f"{file}: {remedy}" in store.status.last_error
    policies.policy("_default", LIMIT.format(3))
    policies.shared_quotas()
    policies.cuda()
    assert store.check()
    assert (most(store.current), store.current.shared_quotas, store.current.cuda.counts) == (3, (), "")


SHARED_QUOTA = "- {{name: a, namespaces: [x], gpus: {}}}"


def test_an_emptied_or_removed_directory_keeps_the_last_good_set(store, policies) -> None:
    (policies.path / "_default.yaml").unlink()
    assert not store.check()
    assert "holds no policy file" in store.status.last_error
    policies.path.rmdir()
    assert not store.check()
    assert "No such file or directory" in store.status.last_error
    assert store.status.failures == 2
    assert most(store.current) == 1


def test_starting_without_a_default_is_said_and_adding_one_later_is_a_reload(policies, caplog) -> None:
    policies.policy("team-a", LIMIT.format(2))
    with caplog.at_level(logging.WARNING, "gpu_policy.policy"):
        store = PolicyStore(policies.path)
    assert "namespaces without a file of their own have no rules" in caplog.text
    policies.policy("_default", LIMIT.format(1))
    assert store.check()
    assert most(store.current) == 1


def test_the_listener_hears_of_good_and_bad_reloads(policies) -> None:
    policies.policy("_default", LIMIT.format(1))
    heard = []
    store = PolicyStore(policies.path, listener=heard.append)
    policies.write("_default.yaml", "x: [")
    store.check()
    policies.policy("_default", LIMIT.format(2))
    store.check()
    assert [(status.last_ok, status.failures, status.reloads) for status in heard] == [(False, 1, 0), (True, 1, 1)]


def test_watching_reloads_by_itself_until_closed(policies) -> None:
    policies.policy("_default", LIMIT.format(1))
    store = PolicyStore(policies.path, interval=0.01)
    store.watch()
    policies.policy("_default", LIMIT.format(2))
    eventually(lambda: most(store.current) == 2)
    store.close()
    policies.policy("_default", LIMIT.format(3))
    assert not any(thread.name == "policy-watch" for thread in threading.enumerate())
    assert most(store.current) == 2


def test_watching_goes_on_after_an_unforeseen_fault(policies, caplog) -> None:
    policies.policy("_default", LIMIT.format(1))
    heard = []

    def listener(status) -> None:
        heard.append(status)
        if len(heard) == 1:
            raise RuntimeError("unforeseen")

    store = PolicyStore(policies.path, listener=listener, interval=0.01)
    store.watch()
    policies.policy("_default", LIMIT.format(2))
    eventually(lambda: len(heard) == 1)
    policies.policy("_default", LIMIT.format(3))
    eventually(lambda: most(store.current) == 3)
    store.close()
    assert "checking the policies" in caplog.text
