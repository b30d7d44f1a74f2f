"""Who is behind an object, whatever owner references say."""

from typing import Any

from tests.audit.owned import made, reference_to
from tests.golden import each
from webhook.audit.owners import MOST_STEPS, Owners
from webhook.audit.report import ObjectReference


def owners(*learned: dict[str, Any]) -> Owners:
    found = Owners()
    for raw in learned:
        found.learn(raw)
    return found


DEPLOYMENT = made("Deployment", "web")
REPLICA_SET = made("ReplicaSet", "web-1", DEPLOYMENT)
POD = made("Pod", "web-1-a", REPLICA_SET)


def test_behind_a_pod_of_a_replica_set_of_a_deployment_is_the_deployment() -> None:
    root = ObjectReference("team", "Deployment", "web", "apps/v1", "Deployment-web")
    assert owners(DEPLOYMENT, REPLICA_SET).root_of(POD) == root
    assert owners(REPLICA_SET, DEPLOYMENT).root_of(POD).uid == "Deployment-web"


def test_what_nothing_controls_is_its_own_root() -> None:
    alone = made("Pod", "alone")
    assert owners(DEPLOYMENT).root_of(alone) == ObjectReference("team", "Pod", "alone", "v1")
    assert not owners(DEPLOYMENT).is_owned_by_known(alone)


def test_an_owner_that_was_not_learned_is_taken_from_the_reference_to_it() -> None:
    kind = {**made("Widget", "w"), "apiVersion": "example.com/v1"}
    made_by_it = made("Deployment", "made", kind)
    assert owners(made_by_it).root_of(made_by_it) == ObjectReference("team", "Widget", "w", "example.com/v1")
    assert owners().root_of(POD).title == "ReplicaSet team/web-1"


def test_the_metadata_of_an_owner_that_is_not_audited_leads_further_but_hides_nothing() -> None:
    found = owners()
    kind = {**made("Widget", "w"), "apiVersion": "example.com/v1"}
    found.learn(kind, is_audited=False)
    made_by_it = made("Deployment", "made", kind)
    found.learn(made_by_it)
    assert found.root_of(made("Pod", "p", made_by_it)).title == "Widget team/w"
    assert not found.is_owned_by_known(made_by_it)
    assert found.is_owned_by_known(made("ReplicaSet", "r", made_by_it))


@each(
    "owner, is_known",
    {
        "as the API server has it": (reference_to(DEPLOYMENT), True),
        "another version of the group": (reference_to(DEPLOYMENT, apiVersion="apps/v1beta2"), True),
        "no controller": (reference_to(DEPLOYMENT, controller=False), False),
        "a controller that is text": (reference_to(DEPLOYMENT, controller="true"), False),
        "the uid of one that is gone": (reference_to(DEPLOYMENT, uid="an-earlier-one"), False),
        "without a uid": (reference_to(DEPLOYMENT, uid=None), False),
        "a uid that is no text": (reference_to(DEPLOYMENT, uid=["Deployment-web"]), False),
        "the uid with another name": (reference_to(DEPLOYMENT, name="other"), False),
        "the uid with another kind": (reference_to(DEPLOYMENT, kind="StatefulSet"), False),
        "the uid with another group": (reference_to(DEPLOYMENT, apiVersion="example.com/v1"), False),
        "no map": ("Deployment/web", False),
    },
)
def test_only_the_controller_that_is_named_in_full_is_known(owner: Any, is_known: bool) -> None:
    replica_set = made("ReplicaSet", "web-1", ownerReferences=[None, owner])
    assert owners(DEPLOYMENT).is_owned_by_known(replica_set) == is_known


def test_a_reference_that_is_believed_says_no_more_than_it_says() -> None:
    """A uid that is used for another object leads nowhere, so that nobody's findings land on a stranger's."""
    lie = made("Pod", "p", ownerReferences=[reference_to(DEPLOYMENT, kind="StatefulSet", name="mine")])
    assert owners(DEPLOYMENT).root_of(lie).title == "StatefulSet team/mine"


def test_nobody_hides_behind_an_object_of_another_namespace() -> None:
    elsewhere = made("Deployment", "web", namespace="other")
    assert not owners(elsewhere).is_owned_by_known(REPLICA_SET)
    assert owners(elsewhere).root_of(REPLICA_SET).namespace == "team"


def test_an_owner_that_is_in_no_namespace_owns_objects_of_all() -> None:
    everywhere = made("Deployment", "web", namespace=None)
    assert owners(everywhere).root_of(REPLICA_SET).namespace == ""
    assert owners(everywhere).is_owned_by_known(REPLICA_SET)


def test_a_static_pod_is_not_owned_by_its_node() -> None:
    static = made("Pod", "etcd-n1", made("Node", "n1", namespace=None))
    assert owners().root_of(static).title == "Pod team/etcd-n1"
    assert owners().unknown_owner_of(static) is None


def test_of_owners_in_a_circle_one_and_the_same_is_the_root_of_all() -> None:
    first = made("Job", "a", ownerReferences=[reference_to(made("Job", "c"))])
    second, third = made("Job", "b", first), made("Job", "c", made("Job", "b"))
    found = owners(first, second, third)
    pods = [made("Pod", "p", owner) for owner in (first, second, third)]
    assert {found.root_of(raw).title for raw in (first, second, third, *pods)} == {"Job team/a"}
    assert [found.is_owned_by_known(raw) for raw in (first, second, third, pods[0])] == [False, True, True, True]


def test_an_object_that_owns_itself_is_not_hidden() -> None:
    itself = made("Job", "a", made("Job", "a"))
    assert owners(itself).root_of(itself).title == "Job team/a"
    assert not owners(itself).is_owned_by_known(itself)


def test_a_circle_hides_no_object_behind_those_that_are_not_audited() -> None:
    widget = {**made("Alpha", "a"), "apiVersion": "example.com/v1"}
    job = made("Job", "b", widget)
    widget["metadata"]["ownerReferences"] = [reference_to(job)]
    found = owners(job)
    found.learn(widget, is_audited=False)
    assert not found.is_owned_by_known(job)


def test_a_chain_of_owners_without_end_is_followed_for_some_steps() -> None:
    chain = [made("Job", "0")]
    for number in range(1, 10_000):
        chain.append(made("Job", str(number), chain[-1]))
    found = owners(*chain)
    assert found.root_of(chain[-1]).name == str(9_999 - MOST_STEPS)
    assert found.is_owned_by_known(chain[-1])


@each(
    "raw",
    {
        "nothing": {},
        "metadata that is a list": {"kind": 1, "metadata": []},
        "wrong types": {"kind": "Pod", "metadata": {"name": 3, "uid": {}, "ownerReferences": {}}},
        "an owner without anything": made("Pod", "p", ownerReferences=[{"controller": True}]),
        "garbled owner": made("Pod", "p", ownerReferences=[{"controller": True, "name": 1, "kind": []}]),
    },
)
def test_whatever_stands_there_has_itself_as_root(raw: dict[str, Any]) -> None:
    found = owners(raw)
    assert found.root_of(raw).name in ("", "p")
    assert not found.is_owned_by_known(raw)


def test_an_owner_behind_an_unknown_one_is_asked_for_and_no_other() -> None:
    unknown = ObjectReference("team", "ReplicaSet", "web-1", "apps/v1")
    assert owners().unknown_owner_of(POD) == unknown
    assert owners(REPLICA_SET).unknown_owner_of(POD) == ObjectReference("team", "Deployment", "web", "apps/v1")
    assert owners(REPLICA_SET, DEPLOYMENT).unknown_owner_of(POD) is None


BY_HASH = made("Pod", "web-7d9f-x", made("ReplicaSet", "web-7d9f"), labels={"pod-template-hash": "7d9f"})


def test_a_deployment_is_found_by_the_hash_where_its_replica_set_is_missing() -> None:
    assert owners(DEPLOYMENT).root_of(BY_HASH).uid == "Deployment-web"
    manifest = made("Deployment", "web", uid=None, namespace=None)
    found = Owners("team")
    found.learn(manifest)
    assert found.root_of(BY_HASH).title == "Deployment web"


@each(
    "pod, learned",
    {
        "no hash": (made("Pod", "p", made("ReplicaSet", "web-7d9f")), DEPLOYMENT),
        "no labels": ({**BY_HASH, "metadata": {**BY_HASH["metadata"], "labels": None}}, DEPLOYMENT),
        "the end of a hash": (
            {**BY_HASH, "metadata": {**BY_HASH["metadata"], "labels": {"pod-template-hash": "9f"}}},
            DEPLOYMENT,
        ),
        "no such Deployment": (BY_HASH, made("Deployment", "other")),
        "a Deployment of another namespace": (BY_HASH, made("Deployment", "web", namespace="others")),
        "another kind": (BY_HASH, made("StatefulSet", "web")),
        "another group of that kind": (BY_HASH, {**made("Deployment", "web"), "apiVersion": "example.com/v1"}),
    },
)
def test_a_replica_set_stays_the_root_where_its_deployment_is_not_certain(pod: Any, learned: Any) -> None:
    assert owners(learned).root_of(pod).kind == "ReplicaSet"


def test_a_replica_set_that_is_found_by_the_hash_alone_is_still_asked_for() -> None:
    """A cluster knows better who owns it."""
    behind = owners(DEPLOYMENT).unknown_owner_of(BY_HASH)
    assert behind is not None
    assert behind.title == "ReplicaSet team/web-7d9f"
