"""An exception ends in all replicas at once, while pods of its kind keep coming."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from tests.e2e.eventually import eventually
from tests.e2e.objects import gpu_pod
from tests.e2e.steady_load import RATE, TOO_MANY
from tests.lab.soak.site import Site

BEFORE, AFTER = 12, 12
"""Seconds for which pods come before the end, and after it."""
LATEST = 3.0
"""Seconds after the end from which nothing of the old kind may be stored."""
EXCEPTIONS = """\
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicyExceptions
metadata: {{name: _exceptions}}
spec:
  exceptions:
    - name: ends
      namespaces: [{namespace}]
      match: {{names: ["old-*"]}}
      {kind}
      until: "{until}"
      reason: a test
"""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One create: when it was sent and answered, in seconds since 1970, and what became of it."""

    sent: float
    answered: float
    status: int
    said: str


def attempts(create: Callable[[int], tuple[int, str]], until: float) -> Iterator[Attempt]:
    """RATE creates a second until then, whatever becomes of those before."""

    def one(number: int) -> Attempt:
        sent = time.time()
        status, said = create(number)
        return Attempt(sent, time.time(), status, said)

    with ThreadPoolExecutor(RATE) as pool:
        begun, number, pending = time.time(), 0, []
        while time.time() < until:
            pending.append(pool.submit(one, number))
            number += 1
            time.sleep(max(0.0, begun + number / RATE - time.time()))
        yield from (each.result() for each in pending)


@pytest.mark.parametrize("kind", ["rules: [gpuLimits]", "settings: {gpuLimits: {maxPerPod: 200}}"])
def test_nothing_of_the_old_kind_is_stored_three_seconds_after_the_end(site: Site, kind: str, capsys) -> None:
    """Three replicas, 20 pods a second that only the exception lets through."""
    end = int(time.time()) + 10 + BEFORE
    until = datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    before = site.agreed_policy()
    text = EXCEPTIONS.format(namespace=site.namespace, kind=kind, until=until)
    for replica in site.replicas.running:
        replica.policies.replace({**site.policies, "_exceptions.yaml": text})
    eventually(lambda: site.agreed_policy() not in (None, before))

    def create(number: int) -> tuple[int, str]:
        path = f"/api/v1/namespaces/{site.namespace}/pods"
        status, answer = site.plane.raw("POST", path, gpu_pod(f"old-{number}", TOO_MANY))
        return status, str(answer.get("message", "") if isinstance(answer, dict) else answer)

    made = list(attempts(create, end + AFTER))
    early = [one for one in made if one.answered < end - 1]
    late = [one for one in made if one.sent > end + LATEST]
    stored = [one for one in made if one.status == 201]
    with capsys.disabled():
        last = max(one.answered for one in stored) - end
        print(f"\n{len(made)} creates, {len(stored)} stored, the last {last:+.2f} s from the end")
    assert len(early) > RATE * BEFORE / 3
    assert [one.said for one in early if one.status != 201] == []
    assert len(late) > RATE * (AFTER - LATEST) / 3
    assert {(one.status, f"requests {TOO_MANY} GPUs" in one.said) for one in late} == {(403, True)}
