"""Heads are read as gunicorn reads them, however often they come."""

import pytest
from gunicorn.config import Config
from gunicorn.http.errors import InvalidHeader

from webhook.server.framing import HeadReader

PEER = ("127.0.0.1", 1)
OF_AN_API_SERVER = (
    "POST /mutate?timeout=5s HTTP/1.1",
    "Host: gpu-policy.gpu-policy.svc:443",
    "User-Agent: kube-apiserver-admission",
    "Content-Length: 5525",
    "Accept: application/json, */*",
    "Content-Type: application/json",
    "Accept-Encoding: gzip",
)


def head_of(*lines):
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


def with_length(number, lines=OF_AN_API_SERVER):
    return head_of(*[f"Content-Length: {number}" if line.startswith("Content-Length") else line for line in lines])


def test_the_head_of_an_api_server_says_what_is_asked_and_how_long_the_body_is():
    head, length = HeadReader(Config()).read(with_length(5525), PEER)
    assert length == 5525
    assert (head.method, head.path, head.environ["QUERY_STRING"]) == ("POST", "/mutate", "timeout=5s")
    assert head.environ["CONTENT_TYPE"] == "application/json"


def test_nothing_of_one_client_is_in_the_environment_of_a_head():
    head, _ = HeadReader(Config()).read(with_length(5525), PEER)
    assert not {"wsgi.input", "gunicorn.socket", "REMOTE_ADDR", "REMOTE_PORT", "CONTENT_LENGTH"} & set(head.environ)


@pytest.mark.parametrize(
    "second",
    [
        pytest.param("Content-Length: 5", id="twice"),
        pytest.param("Content-Length: ", id="once more without a number"),
        pytest.param("content-length: 6", id="in small letters"),
    ],
)
def test_a_head_with_two_lengths_is_refused(second):
    with pytest.raises(InvalidHeader):
        HeadReader(Config()).read(head_of(*OF_AN_API_SERVER, second), PEER)
