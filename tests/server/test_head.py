"""Heads that differ only in the length of their bodies are parsed once."""

import pytest
from gunicorn.config import Config
from gunicorn.http.errors import InvalidHeader, ParseException

from webhook.server.framing import HeadCache

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


def test_the_head_of_an_api_server_is_parsed_once_for_bodies_of_any_length():
    heads = HeadCache(Config())
    first, length = heads.read(with_length(5525), PEER)
    again, longer = heads.read(with_length(61), ("127.0.0.2", 7))
    assert [length, longer] == [5525, 61]
    assert again is first
    assert (first.method, first.path, first.environ["QUERY_STRING"]) == ("POST", "/mutate", "timeout=5s")
    assert first.environ["CONTENT_TYPE"] == "application/json"


def test_nothing_of_one_client_is_in_what_is_remembered():
    head, _ = HeadCache(Config()).read(with_length(5525), PEER)
    assert not {"wsgi.input", "gunicorn.socket", "REMOTE_ADDR", "REMOTE_PORT", "CONTENT_LENGTH"} & set(head.environ)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(("POST /validate?timeout=5s HTTP/1.1", *OF_AN_API_SERVER[1:]), id="another path"),
        pytest.param((*OF_AN_API_SERVER, "Connection: close"), id="one more header"),
        pytest.param((*OF_AN_API_SERVER[:3], "X: 1", *OF_AN_API_SERVER[3:]), id="one more before the length"),
        pytest.param(("POST /mutate?timeout=5s HTTP/1.0", *OF_AN_API_SERVER[1:]), id="another version"),
    ],
)
def test_heads_that_differ_in_anything_else_are_parsed_each(lines):
    heads, alone = HeadCache(Config()), HeadCache(Config())
    heads.read(with_length(5525), PEER)
    found, expected = heads.read(head_of(*lines), PEER), alone.read(head_of(*lines), PEER)
    assert str(expected[0].environ | {"wsgi.errors": ""}) == str(found[0].environ | {"wsgi.errors": ""})
    assert (expected[0].is_last, expected[0].is_http_1_0) == (found[0].is_last, found[0].is_http_1_0)


@pytest.mark.parametrize(
    "second",
    [
        pytest.param("Content-Length: 5", id="twice"),
        pytest.param("Content-Length: ", id="once more without a number"),
        pytest.param("content-length: 6", id="in small letters"),
    ],
)
def test_a_head_with_two_lengths_is_refused_however_often_it_comes(second):
    heads = HeadCache(Config())
    heads.read(with_length(5525), PEER)
    for _ in range(3):
        with pytest.raises(InvalidHeader):
            heads.read(head_of(*OF_AN_API_SERVER, second), PEER)


@pytest.mark.parametrize("number", ["-1", "+1", "1_0", " 1", "0x1", "1 1", "", "\u0661"])
def test_a_length_that_is_no_number_is_refused_after_one_that_is(number):
    heads = HeadCache(Config())
    heads.read(with_length(5525), PEER)
    alone = HeadCache(Config())
    try:
        expected = alone.read(with_length(number), PEER)[1]
    except ParseException as refused:
        with pytest.raises(type(refused)):
            heads.read(with_length(number), PEER)
    else:
        assert expected == heads.read(with_length(number), PEER)[1]


def test_a_head_with_credentials_is_not_remembered():
    heads = HeadCache(Config())
    lines = (*OF_AN_API_SERVER, "Authorization: Bearer secret")
    assert heads.read(head_of(*lines), PEER)[0] is not heads.read(head_of(*lines), PEER)[0]


def test_whoever_sends_ever_new_heads_makes_nobody_remember_them_all():
    heads = HeadCache(Config())
    for number in range(1000):
        heads.read(head_of(*OF_AN_API_SERVER, f"X: {number}"), PEER)
        heads.read(head_of(*OF_AN_API_SERVER, f"X: {number}" + "y" * 2000), PEER)
    assert heads.remembered <= 64
