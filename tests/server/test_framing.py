"""The cost of a byte depends neither on the bytes before it nor on the pieces in which they arrive."""

import pytest
from gunicorn.config import Config

from webhook.server import framing
from webhook.server.framing import BodyBudget, HeadReader, RequestReader
from webhook.server.refusal import Refusal

MOST = 7 * 2**20
HEAD = b"POST /validate HTTP/1.1\r\nHost: webhook\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


class Counted(bytearray):
    """Counts the bytes that are looked at or moved in all of its kind."""

    handled = 0

    def find(self, wanted, start=0):
        at = super().find(wanted, start)
        Counted.handled += (len(self) if at < 0 else at) - start
        return at

    def __iadd__(self, data):
        Counted.handled += len(data)
        return super().__iadd__(data)

    def __delitem__(self, where):
        Counted.handled += len(range(len(self))[where])
        super().__delitem__(where)


@pytest.fixture
def work(monkeypatch):
    """What readers do from now on, as `handled` bytes."""
    monkeypatch.setattr(Counted, "handled", 0)
    monkeypatch.setattr(framing, "bytearray", Counted, raising=False)
    return Counted


@pytest.fixture
def budget():
    return BodyBudget(MOST)


@pytest.fixture
def reader(work, budget):
    return RequestReader(HeadReader(Config()), ("127.0.0.1", 1), MOST, budget)


def with_length(size, *lines):
    return HEAD + b"".join(line + b"\r\n" for line in (*lines, b"Content-Length: %d" % size)) + b"\r\n"


def feed(reader, message, size):
    for piece in pieces(message, size):
        reader.feed(piece)


def pieces(message, size):
    return [message[start : start + size] for start in range(0, len(message), size)]


@pytest.mark.parametrize("size", [pytest.param(1, id="a byte"), pytest.param(16_384, id="a record")])
@pytest.mark.parametrize(
    "message",
    [
        pytest.param(with_length(200_000) + b"x" * 200_000, id="a large body"),
        pytest.param(with_length(5, *[b"X-%d: y" % number for number in range(90)]) + b"hello", id="a long head"),
    ],
)
def test_A36_a_request_is_taken_in_with_work_in_proportion_to_its_bytes(reader, work, message, size):
    taken = [reader.take() for piece in pieces(message, size) if reader.feed(piece)]
    assert len(taken) == 1
    assert work.handled <= 8 * len(message)


def test_A36_requests_that_are_sent_ahead_cost_each_what_it_has_itself(reader, work):
    message = with_length(5) + b"hello"
    assert reader.feed(message * 200)
    for number in range(200):
        assert reader.take().body.read() == b"hello"
        assert reader.feed(b"") == (number < 199)
    assert work.handled <= 8 * 200 * len(message)


@pytest.mark.parametrize("size", [pytest.param(1, id="bytewise"), pytest.param(16_384, id="in records")])
def test_A36_nothing_is_read_of_a_body_in_chunks(reader, work, size):
    with pytest.raises(Refusal, match="Transfer-Encoding: found chunked") as refused:
        feed(reader, CHUNKED + b"1\r\nx\r\n" * 250_000, size)
    assert refused.value.status == "411 Length Required"
    assert work.handled <= 8 * (len(CHUNKED) + size)
    reader.give_up()
    assert reader.pending, "what still comes has to be drained"


@pytest.mark.parametrize("size", [pytest.param(1, id="bytewise"), pytest.param(16_384, id="in records")])
def test_A36_a_head_of_lines_without_end_is_refused_before_it_has_grown(reader, work, size):
    with pytest.raises(Refusal, match="the head is larger"):
        feed(reader, HEAD + b"X: y\r\n" * 200_000, size)
    assert reader.held <= 16_384 + size
    assert work.handled <= 5 * reader.held


def test_A36_a_client_without_the_demanded_certificate_is_refused_at_the_head_of_its_body(reader, budget):
    reader.objection = "client certificate: found none"
    with pytest.raises(Refusal, match="client certificate: found none") as refused:
        reader.feed(with_length(MOST) + b"x")
    assert refused.value.code == 403
    assert budget.left == MOST, "nothing was set aside for it"


def test_a_client_without_the_demanded_certificate_may_ask_for_pages(reader):
    reader.objection = "client certificate: found none"
    assert reader.feed(b"GET /readyz HTTP/1.1\r\nHost: webhook\r\n\r\n")
    assert reader.take().head.path == "/readyz"


def test_what_is_set_aside_for_a_large_body_is_kept_until_it_is_answered(reader, budget):
    assert reader.feed(with_length(100_000) + b"x" * 100_000)
    reader.take()
    assert budget.left == MOST - 100_000
    reader.release()
    assert budget.left == MOST


def test_what_has_arrived_is_forgotten_with_the_request_that_is_given_up(reader, budget):
    reader.feed(with_length(MOST) + b"x" * MOST)
    reader.give_up()
    assert reader.held == 0
    assert budget.left == MOST
