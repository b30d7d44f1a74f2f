"""How old facts are, and when they are too old: the last known ones stay, whatever the API server does."""

from tests.clock import Clock
from tests.e2e.eventually import eventually
from tests.facts.fake_api_server import (
    CLAIMS,
    DEVICE_CLASSES,
    NODES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    SLICES,
    TEMPLATES,
    Answer,
    FakeApiServer,
    Request,
    always,
    first,
)
from tests.facts.following import STATUS, following, nodes, watched
from tests.facts.samples import node
from webhook.kubernetes.watch import WatchTiming


def test_a_server_that_answers_while_the_watch_fails_makes_the_facts_stale_after_the_bound(server, tmp_path):
    clock = Clock()
    with following(server, tmp_path, clock=clock) as facts:
        eventually(lambda: watched(facts))
        refuse(server, always(500, STATUS))
        eventually(lambda: "answered 500" in facts.status(clock.now).detail)
        clock.now += 60
        within = facts.status(clock.now)
        assert (within.ready, within.stale, within.age_seconds) == (True, False, 60.0)
        clock.now += 1
        beyond = facts.status(clock.now)
        assert (beyond.ready, beyond.stale, beyond.server_reachable, beyond.loaded) == (False, True, True, True)
        assert {"a", "b"} == nodes(facts)
        server.instead_of_watch.clear()
        server.instead.clear()
        eventually(lambda: facts.status(clock.now).ready)
        eventually(lambda: watched(facts))
        for path in (RUNTIME_CLASSES, PRIORITY_CLASSES, DEVICE_CLASSES, CLAIMS, TEMPLATES, SLICES):
            server.tell_event(path, "BOOKMARK", {}, "200")  # their watches were quiet since the clock moved
        eventually(lambda: facts.status(clock.now).age_seconds == 0.0)


def test_after_a_silence_the_age_counts_from_the_last_word(server, tmp_path):
    clock = Clock()

    def silence(request: Request, path: str, query: dict[str, str]) -> None:
        request.begin_stream()
        clock.now += 100
        server.closing.wait(30)

    server.instead_of_watch[NODES] = first(silence, then=always(500, STATUS))
    server.instead[NODES] = first(server.answer, then=always(500, STATUS))
    timing = WatchTiming(watch=(1, 1), margin=1, first_retry=0.02, last_retry=0.1)
    with following(server, tmp_path, timing=timing, clock=clock) as facts:
        eventually(lambda: watched(facts))
        clock.now += 50
        eventually(lambda: "nodes: the API server answered 500" in facts.status(clock.now).detail)
        assert facts.status(clock.now).age_seconds >= 50


def test_a_server_that_is_away_leaves_the_last_known_facts_in_force(server, tmp_path):
    clock = Clock()
    with following(server, tmp_path, clock=clock) as facts:
        eventually(lambda: watched(facts))
        server.vanish()
        eventually(lambda: not facts.status(clock.now).server_reachable)
        clock.now += 3600
        status = facts.status(clock.now)
        assert (status.ready, status.stale, status.age_seconds) == (True, False, 3600.0)
        assert {"a", "b"} == nodes(facts)
        back = FakeApiServer(server.server_port)
        try:
            back.objects[NODES] = [node("c")]
            back.instead_of_watch[NODES] = first(always(410, STATUS), then=back.answer)
            eventually(lambda: nodes(facts) == {"c"})
            eventually(lambda: facts.status(clock.now).server_reachable)
            assert facts.status(clock.now).ready
        finally:
            back.vanish()


def test_facts_do_not_turn_stale_at_the_moment_the_server_is_back(server, tmp_path):
    """After a long absence the bound counts from the first answer, not from the last good watch."""
    clock = Clock()
    with following(server, tmp_path, clock=clock) as facts:
        eventually(lambda: watched(facts))
        server.vanish()
        eventually(lambda: not facts.status(clock.now).server_reachable)
        clock.now += 3600
        back = FakeApiServer(server.server_port)
        try:
            refuse(back, always(503, STATUS))
            eventually(lambda: "answered 503" in facts.status(clock.now).detail)
            status = facts.status(clock.now)
            assert (status.ready, status.stale, status.server_reachable) == (True, False, True)
        finally:
            back.vanish()


def refuse(server: FakeApiServer, answer: Answer) -> None:
    """Break off the watches of nodes, and answer this from now on."""
    server.instead[NODES] = server.instead_of_watch[NODES] = answer
    server.tell(NODES, b"")
    server.break_off()
