"""Hosts have one spelling."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each, golden
from webhook.images.hosts import Host, HostPattern, split_host, split_pattern
from webhook.images.http_request import ImageLookupError, Url, parse_url
from webhook.model.shape import FormatError


@golden
def test_hosts_are_read(text, expected):
    name, port = expected
    assert (name.strip("[]"), port) == split_host(text)


@golden
def test_other_texts_and_unusual_spellings_are_refused(text):
    with pytest.raises(FormatError):
        split_host(text)


@given(st.text(max_size=40))
def test_a_host_that_was_read_has_no_other_spelling(text):
    try:
        name, port = split_host(text)
    except FormatError:
        return
    spelled = Host(name, port or 443).spelled(443)
    assert (name, None if port == 443 else port) == split_host(spelled)
    assert urlsplit(f"https://{spelled}/").hostname == name


@golden
def test_a_pattern_is_a_name_or_a_domain(pattern, host, expected):
    assert HostPattern(pattern).matches(Host(host)) is expected
    assert not HostPattern(pattern).matches(Host(host, 8443))


@pytest.mark.parametrize(
    "text", ["*", "*.", "*.com", "*.1.2.3.4", "*.[::1]", "a.*.example", "*a.example", "**.a.example"]
)
def test_too_broad_patterns_are_refused(text):
    with pytest.raises(FormatError):
        split_pattern(text)


BASE = Url("https", Host("registry.example", 5000), "/v2/a/blobs/b?c")


@each(
    "location, expected",
    {
        "a path": ("/d", Url("https", Host("registry.example", 5000), "/d")),
        "relative": ("d?e=%20#f", Url("https", Host("registry.example", 5000), "/v2/a/blobs/d?e=%20")),
        "a host": ("//b.example", Url("https", Host("b.example"), "/")),
        "capitals, the default port": ("HTTPS://B.example:443?x", Url("https", Host("b.example"), "/?x")),
        "without TLS": ("http://b.example", Url("http", Host("b.example", 80), "/")),
    },
)
def test_urls_are_relative_to_the_url_that_has_them(location, expected):
    assert expected == parse_url(location, BASE)


@pytest.mark.parametrize(
    "location",
    [
        *("ftp://b.example/", "file:///etc/passwd", "https://", "https://[::1", "https://.example/", "https:b.example"),
        *("https://b.example@evil.test/", "https://evil.test@b.example/", "https://evil.test\\@b.example/"),
        *("https://b.example:1:2/", "https://b.example:0/", "https://b.example:99999/", "https://b.example:\uff11/"),
        *("https://2130706433/", "https://0x7f000001/", "https://0177.0.0.1/", "https://127.1/", "https://127.0.0.1./"),
        *("https://b%2eexample/", "https://b.example/a b", "https://b.example/\xe4", "https://b\xf6.example/"),
        "https://" + "a." * 5000 + "example/",
    ],
)
def test_a_url_in_an_unusual_spelling_is_refused(location):
    with pytest.raises(ImageLookupError, match="the registry refers to a URL"):
        parse_url(location)


@given(st.text(max_size=60))
def test_whatever_stands_in_a_location_is_a_url_or_an_error(text):
    for location in (text, f"https://{text}", f"https://a.example{text}"):
        try:
            url = parse_url(location, BASE)
        except ImageLookupError:
            continue
        assert split_host(url.host.spelled(443))
        assert url.target.startswith("/")
        assert url.target.isascii()
        assert url.target.isprintable()
