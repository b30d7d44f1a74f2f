"""Challenges of registries are read, in time that is linear in their length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.images.login import parse_challenges


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param([""], [], id="an empty one"),
        pytest.param(["Negotiate"], [("negotiate", {})], id="a scheme alone"),
        pytest.param(
            ['Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a:pull,push"'],
            [
                (
                    "bearer",
                    {
                        "realm": "https://auth.docker.io/token",
                        "service": "registry.docker.io",
                        "scope": "repository:a:pull,push",
                    },
                )
            ],
            id="Docker Hub",
        ),
        pytest.param(
            ['Basic realm="a, b=c", Bearer realm="d" , Service=e'],
            [("basic", {"realm": "a, b=c"}), ("bearer", {"realm": "d", "service": "e"})],
            id="two in one header",
        ),
        pytest.param(["Basic a=b", "Bearer c=d"], [("basic", {"a": "b"}), ("bearer", {"c": "d"})], id="two headers"),
        pytest.param([r'X a="say \"hello\" \\"'], [("x", {"a": r'say "hello" \ '.strip()})], id="escapes"),
        pytest.param(["Negotiate, Basic realm=x"], [("negotiate", {}), ("basic", {"realm": "x"})], id="a list"),
        pytest.param(['Bearer realm="a'], [("bearer", {})], id="a quote that does not end"),
        pytest.param(["=, ="], [], id="nonsense"),
        pytest.param(["Bearer " + 'a="' * 10_000], [], id="too long"),
    ],
)
def test_challenges_are_read(headers, expected):
    assert parse_challenges(headers) == dict(expected)


@given(st.lists(st.text(alphabet=' ,="\\aBé\t', max_size=50), max_size=3))
def test_reading_ends_for_any_headers(headers):
    assert all(parse_challenges(headers))


@pytest.mark.parametrize("piece", ['a="', "a=", '\\"', 'a="\\', "a ", ", ", "a, "])
def test_reading_a_long_header_of_one_piece_ends(piece):
    parse_challenges(["Bearer " + piece * (8000 // len(piece))] * 20)
