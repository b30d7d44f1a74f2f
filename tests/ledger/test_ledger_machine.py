"""The ledger against a simple reference: whatever three replicas do in whatever order, a quota is never passed, and
what is held for pods that never come is given back.

A group that began gets in whole, and room is held for it only as long as one of its pods is there.

Between any two calls of the store, other replicas act, calls fail before or after they have done their work, and time
passes. Whether a pod is stored after it was admitted is up to the machine, as long as an API server could do it. Each
replica goes by the policies that it has heard of, however late that is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.ledger.small_cluster import Disturbed, LateView, Truth, seen_pod
from tests.strategies import examples
from webhook.ledger.context import LedgerContext, LedgerTiming, ReconcileIntervals
from webhook.ledger.entries import Entries
from webhook.ledger.ledger_store import GpuPod, MemoryStore
from webhook.ledger.ledgers import Ledgers
from webhook.ledger.plan import Asked
from webhook.ledger.reconciler import QuotasInForce, Reconciler
from webhook.ledger.remainders import LEASE, GroupRequest, PartRequest, Remainder, joined, key_of
from webhook.ledger.verdicts import AlreadyStored, Exceeded, Granted, QuotaRequest, TooManyUnconfirmed, Verdict
from webhook.quota.amounts import used
from webhook.quota.demand import demand_of
from webhook.quota.quotas import Limit, Measure, Quota, QuotaScope

REPLICAS = 3
REQUEST_TIMEOUT = 60.0
WEBHOOK_TIMEOUT = 10.0
IN_FLIGHT = 90.0

VISION = Quota(QuotaScope.NAMESPACE, "vision", ("vision",), (Limit(Measure.GPUS, "", Fraction(6)),))
SPEECH = Quota(QuotaScope.NAMESPACE, "speech", ("speech",), (Limit(Measure.GPUS, "", Fraction(5)),))
SHARED = Quota(QuotaScope.SHARED, "shared", ("vision", "spee*"), (Limit(Measure.GPUS, "", Fraction(8)),))
QUOTAS = (VISION, SPEECH, SHARED)
NARROWER = replace(SHARED, patterns=("vision",))
SMALLER = replace(VISION, limits=(Limit(Measure.GPUS, "", Fraction(4)),))
POLICIES = (QUOTAS, (VISION, SPEECH, NARROWER), (VISION, SPEECH), (SMALLER, SHARED))
"""The first ones come into force in the end; in the others one is narrower, missing or smaller."""
SETTLED = 180.0
REFUSALS = Exceeded | TooManyUnconfirmed

NAMESPACES = st.sampled_from(["vision", "speech"])
REPLICA = st.integers(0, REPLICAS - 1)
SECONDS = st.sampled_from([1, 10, 20, 30, 45, 61, 91, 120, 301])
GPUS = st.integers(1, 4)
PICK = st.integers(0, 10)
SIZES = st.integers(0, 4)
OF = "podgroups.scheduling.k8s.io/ga//"
DISTURBANCES = st.lists(
    st.one_of(
        st.sampled_from(["", "", "lost", "answer lost", "late"]),
        st.tuples(st.just("reserve"), NAMESPACES, GPUS, st.booleans()),
        st.tuples(st.just("store"), PICK),
        st.tuples(st.just("delete"), PICK),
        st.tuples(st.just("advance"), st.sampled_from([1, 3, 10, 30])),
    ),
    max_size=6,
)


@dataclass
class InForce:
    """The quotas that one replica knows of."""

    machine: "LedgerMachine"
    quotas: tuple[Quota, ...] = QUOTAS
    since: float = -SETTLED

    def __call__(self) -> QuotasInForce:
        own = {quota.name: quota for quota in self.quotas if quota.scope is QuotaScope.NAMESPACE}
        shared = [quota for quota in self.quotas if quota.scope is QuotaScope.SHARED]
        return QuotasInForce(shared, own.get, are_settled=self.machine.now - self.since > SETTLED)


class Objects:
    """The objects of groups, one in each namespace: how often it was made, and its size; 0 where there is none."""

    def __init__(self) -> None:
        self.made = {"vision": (0, 3), "speech": (0, 2)}
        self.of: dict[bytes, str] = {}
        """The namespaces of the pods that are of a group."""

    def key(self, namespace: str) -> bytes:
        return key_of(f"{namespace}-{self.made[namespace][0]}", OF)

    def now(self, key: bytes, one: Remainder, _seconds: float) -> Remainder | None:
        """As `GroupSource`."""
        size = self.made[one.demand.namespace][1]
        return replace(one, size=min(one.size, size)) if size and key == self.key(one.demand.namespace) else None


class Replica:
    """One replica and how much of the cluster it has heard of."""

    def __init__(self, machine: "LedgerMachine", store: MemoryStore) -> None:
        self.view = LateView(machine.truth, machine.happen)
        timing = LedgerTiming(in_flight=IN_FLIGHT, look_up_every=0.0, longest_pause=0.0)
        disturbed = Disturbed(store, machine.happen)
        clock, objects = (lambda: machine.now), machine.objects
        context = LedgerContext(disturbed, self.view, timing, clock=clock, is_bounded=True, groups=objects, wall=clock)
        self.ledgers = Ledgers(context)
        self.in_force = InForce(machine)
        self.reconciler = Reconciler(self.ledgers, self.in_force, intervals=ReconcileIntervals(idle=300.0))


class LedgerMachine(RuleBasedStateMachine):
    """Three replicas, the pods of two namespaces, and an API server that stores what it was allowed to, or does not."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.truth = Truth()
        self.objects = Objects()
        self.store = MemoryStore()
        self.numbers = 0
        self.begun: dict[bytes, tuple[float, GpuPod]] = {}
        """Admissions that were granted and may still store their pod, since when."""
        self.admitted_by: dict[bytes, dict[str, Quota]] = {}
        """The quotas by which pods were admitted; none for those that came past the webhook."""
        self.disturbances: Iterator[object] = iter(())
        self.acting = 0
        self.replicas: list[Replica] = []

    @initialize(before=st.lists(st.tuples(NAMESPACES, st.integers(1, 2)), max_size=2))
    def start(self, before):
        """Some pods may be there before the quotas are."""
        for namespace, gpus in before:
            self.truth.store(self._pod(namespace, gpus))
        self.replicas = [Replica(self, self.store) for _ in range(REPLICAS)]

    # What disturbs

    def happen(self) -> str:
        """What happens at a call of the store or a list of pods; the fault that the call meets."""
        what = next(self.disturbances, "")
        match what:
            case ("reserve", namespace, gpus, is_member):
                others, self.disturbances = self.disturbances, iter(())
                acting, self.acting = self.acting, (self.acting + 1) % REPLICAS
                self._admit(self.acting, self._pod(namespace, gpus, is_member=is_member))
                self.acting, self.disturbances = acting, others
            case ("store", pick):
                self._store(pick)
            case ("delete", pick):
                self._delete(pick)
            case ("advance", seconds):
                self._advance(seconds)
            case str():
                return what
        return ""

    # What people and the API server do

    @rule(replica=REPLICA, namespace=NAMESPACES, gpus=GPUS, is_member=st.booleans(), disturbances=DISTURBANCES)
    def create(self, replica, namespace, gpus, is_member, disturbances):
        self.acting, self.disturbances = replica, iter(disturbances)
        self._admit(replica, self._pod(namespace, gpus, is_member=is_member))
        self.disturbances = iter(())

    @rule(replica=REPLICA, namespace=NAMESPACES, gpus=GPUS, disturbances=DISTURBANCES)
    def create_where_failures_are_allowed(self, replica, namespace, gpus, disturbances):
        """`onLedgerFailure: allow`: the pod may have been entered or not."""
        self.acting, self.disturbances = replica, iter(disturbances)
        pod = self._pod(namespace, gpus)
        verdicts = self._admit(replica, pod)
        if pod.uid not in self.begun and not any(
            isinstance(verdict, Exceeded | TooManyUnconfirmed) for verdict in verdicts
        ):
            self.truth.store(pod)
        self.disturbances = iter(())

    @rule(replica=REPLICA, namespace=NAMESPACES, gpus=GPUS, is_member=st.booleans())
    def create_undisturbed(self, replica, namespace, gpus, is_member):
        """Nobody is refused for what nothing justifies, and no pod for which room is held."""
        pod = self._pod(namespace, gpus, is_member=is_member)
        claims = self._claims(self.replicas[replica], pod)
        has_room = all(map(self._has_room, claims))
        ledgers = [self.replicas[replica].ledgers.of(one.quota.key) for one in claims]
        lists_none = any(one.cache.look_up_from > self.now for one in ledgers)
        verdicts = self._admit(replica, pod)
        assert pod.uid in self.begun or not has_room
        if lists_none:
            return  # a list has taken long a moment ago
        if kept_out := [verdict for verdict in verdicts if isinstance(verdict, TooManyUnconfirmed)]:
            self._is_kept_out_justly(self.replicas[replica], kept_out[0], pod)
        elif pod.uid not in self.begun:
            self._is_justified(self.replicas[replica], claims)

    @rule(namespace=NAMESPACES, size=SIZES, is_new=st.booleans())
    def change_the_object_of_a_group(self, namespace, size, is_new):
        self.objects.made[namespace] = self.objects.made[namespace][0] + is_new, size

    @rule(namespace=NAMESPACES, gpus=GPUS, is_member=st.booleans())
    def create_gated(self, namespace, gpus, is_member):
        """A queue holds it back."""
        self.truth.store(replace(self._pod(namespace, gpus, is_member=is_member), is_gated=True))

    @precondition(lambda self: self.gated)
    @rule(replica=REPLICA, pick=PICK, disturbances=DISTURBANCES)
    def ungate(self, replica, pick, disturbances):
        """The queue takes the last gate away, perhaps once more: another webhook may have refused that."""
        pod = self._picked(self.gated, pick)
        self.acting, self.disturbances = replica, iter(disturbances)
        self._admit(replica, replace(pod, is_gated=False))
        self.disturbances = iter(())

    @precondition(lambda self: self.begun)
    @rule(replica=REPLICA, pick=PICK, disturbances=DISTURBANCES)
    def ask_again(self, replica, pick, disturbances):
        """The API server repeats a call whose answer it did not get; the other replica answers it."""
        begun, pod = self._picked(self.begun, pick)
        self.acting, self.disturbances = replica, iter(disturbances)
        self._admit(replica, pod, begun=begun)
        self.disturbances = iter(())

    @rule(replica=REPLICA, namespace=NAMESPACES, gpus=GPUS)
    def dry_run(self, replica, namespace, gpus):
        before = self.store.read_all(1)
        pod = self._pod(namespace, gpus)
        claims = self._claims(self.replicas[replica], pod)
        self.replicas[replica].ledgers.reserve(pod.uid, claims, self.now + 5, is_dry_run=True)
        assert self.store.read_all(1) == before

    @precondition(lambda self: self.begun)
    @rule(pick=PICK)
    def store_pod(self, pick):
        self._store(pick)

    @precondition(lambda self: self.begun)
    @rule(pick=PICK)
    def refuse_later(self, pick):
        """A ResourceQuota or another webhook refuses what was admitted here."""
        _, pod = self._picked(self.begun, pick)
        del self.begun[pod.uid]

    @precondition(lambda self: self.truth.live)
    @rule(replica=REPLICA, pick=PICK, gpus=GPUS)
    def create_under_a_name_that_exists(self, replica, pick, gpus):
        """The API server refuses it after us; nothing is entered for it where the replica has heard of the name."""
        other = self._picked(self.truth.live, pick)
        pod = replace(self._pod(other.namespace, gpus), name=other.name)
        verdicts = self._admit(replica, pod)
        self.begun.pop(pod.uid, None)
        if self.replicas[replica].view.is_live(other.uid) and verdicts:
            assert set(verdicts) == {AlreadyStored(other.name)}
            assert not any(pod.uid in held.entries.by_uid for held in self.store.read_all(1).values())

    @precondition(lambda self: self.truth.live)
    @rule(pick=PICK)
    def delete_pod(self, pick):
        self._delete(pick)

    @rule(namespace=NAMESPACES, gpus=st.integers(1, 2))
    def create_past_the_webhook(self, namespace, gpus):
        """The webhook was away, and the cluster was told not to mind."""
        self.truth.store(self._pod(namespace, gpus))

    @rule(seconds=SECONDS)
    def time_passes(self, seconds):
        self._advance(seconds)

    # What replicas do

    @rule(replica=REPLICA, events=st.integers(1, 5))
    def hear(self, replica, events):
        self.replicas[replica].view.catch_up(events)

    @rule(replica=REPLICA, disturbances=DISTURBANCES)
    def reconcile(self, replica, disturbances):
        self.acting, self.disturbances = replica, iter(disturbances)
        self.replicas[replica].reconciler.attempt(self.replicas[replica].reconciler.reconcile)
        self.disturbances = iter(())

    @rule(replica=REPLICA, disturbances=DISTURBANCES)
    def remove_gone(self, replica, disturbances):
        self.acting, self.disturbances = replica, iter(disturbances)
        self.replicas[replica].reconciler.remove_gone()
        self.disturbances = iter(())

    @rule(replica=REPLICA, quotas=st.sampled_from(POLICIES), is_late=st.booleans())
    def hear_of_policies(self, replica, quotas, is_late):
        """The others may have heard of newer ones, and this replica of none for long."""
        self.replicas[replica].in_force.quotas = quotas
        self.replicas[replica].in_force.since = self.now - (SETTLED + 1 if is_late else 0)

    @rule(replica=REPLICA)
    def restart(self, replica):
        """A replica begins anew, and lists all pods."""
        before = self.replicas[replica].in_force
        self.replicas[replica] = Replica(self, self.store)
        self.replicas[replica].in_force.quotas = before.quotas
        self.replicas[replica].in_force.since = self.now
        self.replicas[replica].view.list_anew()

    # What must hold

    @invariant()
    def never_passed(self):
        """A narrower shared quota counts less than a wider one, so together they promise only what both count."""
        for quota in QUOTAS:
            admitted = [
                (pod, by[quota.key])
                for uid, pod in self.started.items()
                if quota.key in (by := self.admitted_by.get(uid, {}))
            ]
            if any(by is NARROWER for _, by in admitted):
                admitted = [(pod, by) for pod, by in admitted if NARROWER.covers(pod.namespace)]
            assert sum(pod.pod.gpu_count for pod, _ in admitted) <= quota.limits[0].hard

    @invariant()
    def nobodys(self):
        """No group holds room whose pods have no entry."""
        for held in self.store.read_all(1).values():
            for one in held.entries.remainders.values():
                assert one.members & held.entries.by_uid.keys()

    def teardown(self):
        """When all is quiet for longer than an admission and a lease last, the ledgers are what is stored."""
        if not self.replicas:
            return
        self.disturbances = iter(())
        self.begun.clear()
        for replica in self.replicas:
            replica.in_force.quotas = QUOTAS
        for _ in range(3):
            for replica in self.replicas:
                replica.view.catch_up()
                replica.reconciler.reconcile()
            self.now += LEASE
        for quota in QUOTAS:
            live = {uid for uid, pod in self.started.items() if quota.covers(pod.namespace)}
            held = self.store.read(quota.key, 1)
            assert live == (set(held.entries.by_uid) if held else set())
            assert held is None or held.entries.counts == Entries(held.entries.by_uid).counts

    # Steps

    @property
    def gated(self) -> dict[bytes, GpuPod]:
        return {uid: pod for uid, pod in self.truth.live.items() if pod.is_gated}

    @property
    def started(self) -> dict[bytes, GpuPod]:
        return {uid: pod for uid, pod in self.truth.live.items() if not pod.is_gated}

    def _pod(self, namespace: str, gpus: int, *, is_member: bool = False) -> GpuPod:
        self.numbers += 1
        pod = seen_pod(self.numbers, namespace, gpus)
        if is_member:
            self.objects.of[pod.uid] = namespace
        return pod

    def _claims(self, replica: Replica, pod: GpuPod) -> list[QuotaRequest]:
        claims = []
        size = self.objects.made[pod.namespace][1] if pod.uid in self.objects.of else 0
        started = (one.uid for one in replica.view.seen(pod.namespace) if not one.is_gated)
        present = frozenset(uid for uid in started if uid in self.objects.of)
        for quota in replica.in_force.quotas:
            if quota.covers(pod.namespace):
                demand = demand_of(pod.pod, pod.namespace, quota.counting)
                part = PartRequest(OF, self.objects.key(pod.namespace), demand, size, present)
                group = GroupRequest("PodGroup ga", (part,), int(self.now)) if size else None
                claims.append(QuotaRequest(quota, demand, group=group))
        return claims

    def _has_room(self, claim: QuotaRequest) -> bool:
        """Whether a ledger holds room for the pod, and nothing has changed since."""
        held = self.store.read(claim.quota.key, 1)
        if held is None or claim.group is None or not held.entries.patterns.issuperset(claim.quota.patterns):
            return False
        one = held.entries.remainders.get(claim.group.parts[0].key)
        asked = claim.group.parts[0].demand, claim.group.parts[0].size
        return one is not None and one.left > 0 and (one.demand, one.size) == asked and not one.has_expired(self.now)

    def _admit(self, replica: int, pod: GpuPod, begun: float | None = None) -> tuple[Verdict, ...]:
        since = self.now if begun is None else begun
        asked = self.now
        claims = self._claims(self.replicas[replica], pod)
        starts, until = pod.uid in self.truth.stored, self.now + WEBHOOK_TIMEOUT
        verdicts = self.replicas[replica].ledgers.reserve(pod.uid, claims, until, name=pod.name, starts=starts)
        in_time = self.now - asked <= WEBHOOK_TIMEOUT and self.now - since <= REQUEST_TIMEOUT
        possible = not starts or pod.uid in self.gated
        if in_time and all(isinstance(verdict, Granted) for verdict in verdicts) and possible:
            self.begun[pod.uid] = (since, pod)
            self.admitted_by[pod.uid] = {claim.quota.key: claim.quota for claim in claims}
        elif any(isinstance(verdict, REFUSALS) for verdict in verdicts):
            self.begun.pop(pod.uid, None)
        return verdicts

    def _is_kept_out_justly(self, replica: Replica, verdict: TooManyUnconfirmed, pod: GpuPod) -> None:
        """Its namespace has entries without pods, or had one lately and asks for more than half of what is free."""
        held = self.store.read(SHARED.key, 1)
        entries = held.entries if held else Entries()
        own = {uid for uid, demand in entries.by_uid.items() if demand.namespace == pod.namespace}
        unstored = own - (self.started.keys() - replica.view.gated_among(own))  # a list does not tell who has started
        is_held = any(one.left and one.demand.namespace == pod.namespace for one in entries.remainders.values())
        assert unstored or is_held if verdict.excess.used else verdict.excess.asks > verdict.most

    def _is_justified(self, replica: Replica, claims: list[QuotaRequest]) -> None:
        for claim in claims:
            ledger = replica.ledgers.of(claim.quota.key)
            held = self.store.read(claim.quota.key, 1)
            entries, gone = held.entries if held else Entries(), set()
            for uid in entries.by_uid:
                is_known = (
                    replica.view.is_live(uid) or replica.view.is_gone(uid) or ledger.cache.outlasted(uid, self.now)
                )
                is_waiting = uid in replica.view.gated_among({uid}) and ledger.cache.outlasted(uid, self.now)
                lives = uid in self.started or (uid in self.gated and not is_waiting)
                if is_known and not lives:
                    gone.add(uid)
            before = entries.changed({}, gone)
            gone |= self.objects.of.keys() - self.truth.live.keys()  # the refusal has taken their entries out
            asked = Asked.by(claim, joined(claim.group, b"", before.remainders, gone), before.remainders)
            if asked.excesses(used(before.counts, claim.quota)):
                return
        raise AssertionError("refused although there was room in every quota")

    def _store(self, pick: int) -> None:
        possible = {uid: one for uid, one in self.begun.items() if self.now - one[0] <= REQUEST_TIMEOUT}
        if possible:
            _, pod = self._picked(possible, pick)
            del self.begun[pod.uid]
            if pod.uid in self.gated:
                self.truth.start(pod.uid)
            elif pod.uid not in self.truth.stored:
                self.truth.store(pod)

    def _delete(self, pick: int) -> None:
        if self.truth.live:
            self.truth.delete(self._picked({uid: uid for uid in self.truth.live}, pick))

    def _advance(self, seconds: float) -> None:
        self.now += seconds
        self.begun = {uid: one for uid, one in self.begun.items() if self.now - one[0] <= REQUEST_TIMEOUT}

    @staticmethod
    def _picked(choices, pick):
        values = list(choices.values())
        return values[pick % len(values)]


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=examples(60), stateful_step_count=40)
