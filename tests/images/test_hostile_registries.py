"""Whatever a registry answers, a look-up ends within its limits, with a result or with a reason.

Row A10 of the attack list: content of registries neither crashes nor exhausts whoever looks at it.
"""

import gzip
import socket
from dataclasses import replace

from tests.golden import each
from tests.images import images
from tests.images.scripted import (
    HASTY,
    PATIENT,
    REPOSITORY,
    Speaker,
    client,
    listed,
    reference,
    refusal,
    serving,
    whole,
)
from webhook.images.http_request import LookupLimits

MANIFEST = f"/v2/{REPOSITORY}/manifests/1"
SMALL = replace(PATIENT, manifest_bytes=4000, config_bytes=4000)


def head(*lines: str) -> bytes:
    return ("HTTP/1.1 200 OK\r\n" + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode()


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKS = head(f"Content-Type: {images.OCI_MANIFEST}", "Transfer-Encoding: chunked")


@each(
    "start, drop",
    {
        "nothing": (b"", b""),
        "a line of the head": (OK, b"X"),
        "lines of the head": (OK, b"X-A: b\r\n"),
        "a body": (head(f"Content-Type: {images.OCI_MANIFEST}", "Content-Length: 1000"), b" "),
        "chunks": (CHUNKS, b"1\r\n \r\n"),
        "heads": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    },
)
def test_a_slow_server_is_given_up(server, start, drop):
    def drip(_heard: object, speaker: Speaker) -> None:
        speaker.send(start)
        speaker.drip(drop)

    server.otherwise = drip
    error = refusal(server, HASTY)
    assert f"registry.example:{server.port} does not answer in time" == str(error)
    assert not error.is_lasting


def test_many_slow_answers_end_with_the_time_of_the_whole_look_up(server):
    def slow(heard: object, speaker: Speaker) -> None:
        speaker.send(b"HTTP/1.1 307 Go On\r\n")
        speaker.drip(b"X-A: b\r\n", times=4)
        speaker.send(f"Location: {MANIFEST}\r\nContent-Length: 0\r\n\r\n".encode())

    server.otherwise = slow
    error = refusal(server, LookupLimits(seconds=2.0, redirects=100))
    assert str(error).endswith("does not answer in time")
    assert 2 <= server.connections <= 20


@each(
    "start, flood",
    {
        "a line": (b"", b"H" * 65536),
        "a head": (OK, b"X-A: " + b"b" * 60_000 + b"\r\n"),
        "heads": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
        "a body": (head(f"Content-Type: {images.OCI_MANIFEST}"), b" " * 65536),
        "chunks of one byte": (CHUNKS, b"1\r\n \r\n" * 1000),
        "extensions of chunks": (CHUNKS, b"1;" + b"e" * 60_000 + b"\r\n \r\n"),
        "a trailer": (CHUNKS + b"0\r\n", b"X-A: b\r\n" * 1000),
        "a chunk of negative size": (CHUNKS + b"-1\r\n", b" " * 65536),
        "an announcement": (head(f"Content-Type: {images.OCI_MANIFEST}", "Content-Length: 99999999999999"), b""),
    },
)
def test_a_server_that_sends_too_much_is_given_up(server, start, flood):
    def send(_heard: object, speaker: Speaker) -> None:
        speaker.send(start)
        speaker.flood(flood, times=10_000)

    server.otherwise = send
    error = refusal(server, SMALL)
    assert f"registry.example:{server.port} sends a larger answer than the limits allow" == str(error)
    assert error.is_lasting


@each(
    "content",
    {
        "another protocol": b"SSH-2.0-OpenSSH_9.9\r\n",
        "no status": b"HTTP/1.1 abc\r\n\r\n",
        "a version of HTTP that does not exist": b"HTTP/9.9 200 OK\r\n\r\n",
        "more headers than anybody needs": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n",
    },
)
def test_a_response_that_is_not_http_is_reported(server, content):
    server.otherwise = lambda _heard, speaker: speaker.send(content)
    assert str(refusal(server)) == f"registry.example:{server.port} answers with something that is not HTTP"


@each(
    "content",
    {
        "at once": b"",
        "in the body": head(f"Content-Type: {images.OCI_MANIFEST}", "Content-Length: 1000") + b"{",
        "between chunks": CHUNKS + b"2\r\n{}\r\n",
    },
)
def test_a_response_that_breaks_off_is_a_passing_failure(server, content):
    server.otherwise = lambda _heard, speaker: speaker.send(content)
    error = refusal(server)
    assert str(error).endswith("cannot be reached, or closes the connection too early")
    assert not error.is_lasting


def test_a_name_that_cannot_be_resolved_is_a_passing_failure(server, monkeypatch):
    def fail(*_place: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    error = refusal(server)
    assert str(error).endswith("the DNS name registry.example cannot be resolved")
    assert not error.is_lasting


def test_a_refused_connection_is_a_passing_failure(server):
    server.close()
    error = refusal(server)
    assert str(error).endswith("cannot be reached, or closes the connection too early")
    assert not error.is_lasting


def test_a_large_body_in_ordinary_chunks_is_read(server):
    config = images.config({"CUDA_VERSION": "12.4.1", "FILLING": "x" * 3_000_000})
    body = config.body
    pieces = (body[at : at + 1000] for at in range(0, len(body), 1000))
    content = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    server.holds("1", images.manifest(config))
    server.scripts[f"/v2/{REPOSITORY}/blobs/{config.digest}"] = lambda _heard, speaker: speaker.send(
        head("Transfer-Encoding: chunked") + content
    )
    assert client(listed(server.port)).look_up(reference(server.port)).env == {"CUDA_VERSION": "12.4.1"}


def test_a_compressed_answer_is_refused_before_it_is_unpacked(server):
    bomb = gzip.compress(b" " * 20_000_000)
    headers = {"Content-Type": images.OCI_MANIFEST, "Content-Encoding": "gzip"}
    server.otherwise = whole(200, bomb, headers)
    assert str(refusal(server)).endswith("answers with a Content-Encoding that was not requested, such as compression")
    assert server.heard[0].headers["accept-encoding"] == "identity"


@each(
    "status, headers, is_lasting, retry_after",
    {
        "a bad request": (400, {}, True, 0),
        "forbidden": (403, {}, True, 0),
        "no such image": (404, {}, True, 0),
        "too slow for the server": (408, {}, False, 0),
        "too many requests": (429, {"Retry-After": "120"}, False, 120),
        "asked to stay away for ever": (429, {"Retry-After": "9" * 5000}, False, 999_999_999),
        "asked to come back earlier than now": (429, {"Retry-After": "-5"}, False, 0),
        "a wait that is none": (500, {"Retry-After": "soon"}, False, 0),
        "a date long ago": (503, {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, False, 0),
        "nothing at all": (204, {}, True, 0),
        "a part that nobody asked for": (206, {}, True, 0),
        "a status that does not exist": (999, {}, False, 0),
    },
)
def test_an_error_says_whether_a_retry_helps(server, status, headers, is_lasting, retry_after):
    server.otherwise = whole(status, b"{}", headers)
    error = refusal(server)
    assert str(error).startswith(f"registry.example:{server.port} ")
    assert (is_lasting, retry_after) == (error.is_lasting, error.retry_after)


def test_a_body_of_unknown_length_is_refused_at_the_first_excess_byte(server):
    for size, said in (
        (SMALL.manifest_bytes, "is not a JSON object"),
        (SMALL.manifest_bytes + 1, "sends a larger answer than the limits allow"),
    ):
        content = head(f"Content-Type: {images.OCI_MANIFEST}") + b"[]".ljust(size)
        server.otherwise = lambda _heard, speaker, content=content: speaker.send(content)
        assert str(refusal(server, SMALL)).endswith(said)


# What is asked for by its digest counts only with this digest


CONFIG = images.config({"CUDA_VERSION": "12.4.1"})
HONEST = images.manifest(CONFIG)
OTHER_CONFIG = images.config({"CUDA_VERSION": "9.0"})
INDEX = images.index(images.entry(HONEST))


@each(
    "first, path, lie, said",
    {
        "a configuration": (HONEST, f"blobs/{CONFIG.digest}", OTHER_CONFIG, "the image configuration does not match"),
        "an image of an index": (
            INDEX,
            f"manifests/{HONEST.digest}",
            images.manifest(OTHER_CONFIG),
            "the manifest does not match",
        ),
    },
)
def test_a_document_with_another_digest_is_refused(server, first, path, lie, said):
    server.holds("1", first, HONEST, CONFIG)
    assert client(listed(server.port)).look_up(reference(server.port)).env == {"CUDA_VERSION": "12.4.1"}
    server.scripts[f"/v2/{REPOSITORY}/{path}"] = serving(lie)
    assert str(refusal(server)).endswith(f"{said} its digest")


def test_an_image_that_is_pinned_by_its_digest_is_this_image(server):
    server.holds("1", HONEST, CONFIG)
    server.scripts[f"/v2/{REPOSITORY}/manifests/{HONEST.digest}"] = serving(images.manifest(OTHER_CONFIG))
    assert str(refusal(server, tag="", digest=HONEST.digest)).endswith("the manifest does not match its digest")


def test_an_index_that_leads_to_an_index_is_refused(server):
    server.holds("1", images.index({**images.entry(INDEX), "mediaType": images.OCI_MANIFEST}), INDEX, HONEST, CONFIG)
    assert str(refusal(server)).endswith(
        "the image index refers to another image index; it must refer to image manifests"
    )
    assert len(server.heard) == 2
