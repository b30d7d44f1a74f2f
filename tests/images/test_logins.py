"""Logging in as registries demand, without sending credentials or tokens to other hosts."""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each, golden
from tests.images import images, private_authority
from tests.images.scripted import (
    REPOSITORY,
    Heard,
    Script,
    ScriptedServer,
    client,
    guarded,
    listed,
    reference,
    scripted,
    serving,
    token,
    whole,
)
from webhook.images.allowlist import Registry
from webhook.images.client import parse_challenges
from webhook.images.credentials import Credentials
from webhook.images.hosts import HostPattern
from webhook.images.http_request import ImageLookupError
from webhook.model.image import ImageConfig

CONFIG = images.config({"CUDA_VERSION": "12.4.1"})
MANIFEST = images.manifest(CONFIG)
KNOWN = ImageConfig(MANIFEST.digest)
TAG = f"/v2/{REPOSITORY}/manifests/1"
BLOB = f"/v2/{REPOSITORY}/blobs/{CONFIG.digest}"
BASIC = "Basic " + base64.b64encode(b"robot:secret").decode()
SCOPE = f"repository:{REPOSITORY}:pull"


@pytest.fixture
def tokens() -> Iterator[ScriptedServer]:
    """A token server at a host of its own, with TLS."""
    with scripted(private_authority.server_context("tokens.example", "elsewhere.example")) as tokens:
        tokens.scripts["/token"] = token("tok")
        yield tokens


def bearer(realm: str, *more: str) -> str:
    return "Bearer " + ",".join((f'realm="{realm}"', *more))


def demand(server: ScriptedServer, authorization: str, challenge: str) -> None:
    """Let the server demand a login for the image."""
    server.scripts[TAG] = guarded(serving(MANIFEST), authorization, challenge)
    server.scripts[BLOB] = guarded(serving(CONFIG), authorization, challenge)


def with_tokens(server: ScriptedServer, tokens: ScriptedServer) -> Registry:
    pattern = HostPattern("tokens.example", tokens.port)
    return listed(server.port, token_hosts=(pattern,), authorities=private_authority.PEM)


def credentials(directory: Path, server: ScriptedServer, **entry: str) -> Credentials:
    """The file that docker would write, with a login for the server."""
    file = directory / "config.json"
    file.write_text(json.dumps({"auths": {f"registry.example:{server.port}": entry}}))
    return Credentials(file)


def query(heard: Heard) -> dict[str, list[str]]:
    return parse_qs(urlsplit(heard.path).query)


def refused(registry: Registry, server: ScriptedServer, known: Credentials | None = None) -> ImageLookupError:
    with pytest.raises(ImageLookupError) as caught:
        client(registry, credentials=known).look_up(reference(server.port))
    return caught.value


def test_a_token_is_fetched_for_pulling_this_image_and_used_until_it_is_refused(server, tokens):
    realm = f"https://tokens.example:{tokens.port}/token"
    demand(server, "Bearer tok", bearer(realm, 'service="a registry"', 'scope="repository:team/image:pull,push"'))
    asking = client(with_tokens(server, tokens))
    assert asking.look_up(reference(server.port)).env == {"CUDA_VERSION": "12.4.1"}
    asking.look_up(reference(server.port))
    asking.look_up(reference(server.port), KNOWN)
    assert [query(heard) for heard in tokens.heard] == [{"service": ["a registry"], "scope": [SCOPE]}]
    assert tokens.heard[0].authorization is None


def test_a_token_is_not_used_for_another_repository(server, tokens):
    demand(server, "Bearer tok", bearer(f"https://tokens.example:{tokens.port}/token"))
    other = "/v2/other/manifests/1"
    server.scripts[other] = guarded(
        serving(MANIFEST), "Bearer tok", bearer(f"https://tokens.example:{tokens.port}/token")
    )
    asking = client(with_tokens(server, tokens))
    asking.look_up(reference(server.port), KNOWN)
    asking.look_up(replace(reference(server.port), repository="other"), KNOWN)
    scopes = [query(heard)["scope"] for heard in tokens.heard]
    assert scopes == [[SCOPE], ["repository:other:pull"]]
    assert [heard.authorization for heard in server.heard if heard.path == other] == [None, "Bearer tok"]


def test_a_token_that_is_no_longer_accepted_is_replaced_once(server, tokens):
    challenge = bearer(f"https://tokens.example:{tokens.port}/token")
    demand(server, "Bearer tok", challenge)
    asking = client(with_tokens(server, tokens))
    asking.look_up(reference(server.port))
    demand(server, "Bearer new", challenge)
    with pytest.raises(ImageLookupError, match="denies access to"):
        asking.look_up(reference(server.port))
    tokens.scripts["/token"] = token("new")
    assert asking.look_up(reference(server.port)).digest == MANIFEST.digest


@golden
def test_another_scope_than_a_repository_is_requested_as_it_is(server, tokens, scope):
    demand(server, "Bearer tok", bearer(f"https://tokens.example:{tokens.port}/token", f'scope="{scope}"'))
    client(with_tokens(server, tokens)).look_up(reference(server.port))
    assert query(tokens.heard[0])["scope"] == [scope]


@golden
def test_a_token_for_another_repository_is_never_requested(server, tokens, scope):
    demand(server, "Bearer tok", bearer(f"https://tokens.example:{tokens.port}/token", f'scope="{scope}"'))
    client(with_tokens(server, tokens)).look_up(reference(server.port))
    assert query(tokens.heard[0])["scope"] == [SCOPE]


def test_a_realm_with_a_scope_gets_one_scope(server, tokens):
    realm = f"https://tokens.example:{tokens.port}/token?account=x&scope=repository:team/image:pull,push"
    demand(server, "Bearer tok", bearer(realm))
    client(with_tokens(server, tokens)).look_up(reference(server.port))
    assert query(tokens.heard[0]) == {"account": ["x"], "scope": [SCOPE]}


def test_credentials_are_shown_to_the_token_server_and_the_token_to_the_registry(server, tokens, tmp_path):
    demand(server, "Bearer tok", bearer(f"https://tokens.example:{tokens.port}/token"))
    known = credentials(tmp_path, server, username="robot", password="secret")
    client(with_tokens(server, tokens), credentials=known).look_up(reference(server.port))
    assert [heard.authorization for heard in tokens.heard] == [BASIC]
    assert {heard.authorization for heard in server.heard} == {None, "Bearer tok"}


def test_an_identity_token_is_exchanged(server, tokens, tmp_path):
    demand(server, "Bearer tok", bearer(f"https://tokens.example:{tokens.port}/token", 'service="svc"'))
    known = credentials(tmp_path, server, identitytoken="id&token")
    client(with_tokens(server, tokens), credentials=known).look_up(reference(server.port))
    (heard,) = tokens.heard
    assert (heard.method, heard.path, heard.authorization) == ("POST", "/token", None)
    assert parse_qs(heard.body.decode()) == {
        "grant_type": ["refresh_token"],
        "client_id": ["gpu-policy-webhook"],
        "refresh_token": ["id&token"],
        "service": ["svc"],
        "scope": [SCOPE],
    }


@each(
    "challenge, said",
    {
        "basic": ('Basic realm="corp"', "the registry demands a user name and a password, but none are configured"),
        "Kerberos": (
            "Negotiate",
            "the registry demands a login, but offers neither Bearer nor Basic, the supported authentication schemes",
        ),
        "nothing": (
            "",
            "the registry demands a login, but offers neither Bearer nor Basic, the supported authentication schemes",
        ),
        "no realm": (
            "Bearer",
            "the registry demands a token but does not name a token server (realm in WWW-Authenticate)",
        ),
        "a realm without a host": ('Bearer realm="/token"', "the registry refers to a URL that is not valid"),
        "a very long one": ('Bearer realm="x' + "y" * 60_000 + '"', "offers neither Bearer nor Basic"),
    },
)
def test_a_demand_that_cannot_be_met_is_reported(server, challenge, said):
    demand(server, "never", challenge)
    error = refused(listed(server.port), server)
    assert said in str(error)
    assert error.is_lasting


@golden
def test_a_token_is_requested_from_listed_hosts_only(server, tokens, tmp_path, realm):
    demand(server, "never", bearer(realm.format(tokens=tokens.port)))
    registry = listed(
        server.port,
        token_hosts=(HostPattern("tokens.example", tokens.port),),
        blob_hosts=(HostPattern("blobs.example", tokens.port),),
    )
    error = refused(registry, server, credentials(tmp_path, server, username="robot", password="secret"))
    assert "the registry names " in str(error)
    assert re.search(
        r" as its token server, and its tokenHosts do not list \S+; list the host there if it belongs to the registry$",
        str(error),
    )
    assert tokens.connections == 0


def test_a_token_is_not_requested_without_tls(server, tokens, tmp_path):
    demand(server, "never", bearer(f"http://tokens.example:{tokens.port}/token"))
    error = refused(with_tokens(server, tokens), server, credentials(tmp_path, server, username="r", password="s"))
    assert str(error).endswith(
        f"the registry names tokens.example:{tokens.port} as its token server, without TLS; that host must be used "
        "over https"
    )
    assert tokens.connections == 0


def test_a_token_server_that_redirects_is_not_followed(server, tokens, tmp_path):
    tokens.scripts["/token"] = whole(307, b"", {"Location": f"https://elsewhere.example:{tokens.port}/steal"})
    demand(server, "never", bearer(f"https://tokens.example:{tokens.port}/token"))
    error = refused(with_tokens(server, tokens), server, credentials(tmp_path, server, username="r", password="s"))
    assert f"tokens.example:{tokens.port} answers with status 307 instead of a token for {REPOSITORY}" in str(error)
    assert len(tokens.heard) == 1


@each(
    "script, said, is_lasting",
    {
        "no access": (
            whole(401),
            "gives no token to anonymous clients (401); configure credentials for the registry",
            True,
        ),
        "no such page": (whole(404), "does not have a token for team/image (404)", True),
        "too often": (
            whole(429, b"", {"Retry-After": "7"}),
            "rejects requests for now, because there were too many (429)",
            False,
        ),
        "in trouble": (whole(503), "cannot answer the request at the moment (503)", False),
        "a web page": (whole(200, b"<html>"), "the answer of the token server is not JSON", True),
        "no token": (whole(200, b"{}"), "answers without a usable token", True),
        "a number": (token(5), "answers without a usable token", True),
        "more lines of head": (token("a\r\nX-Injected: b"), "answers without a usable token", True),
        "longer than any server reads": (token("t" * 20_000), "answers without a usable token", True),
        "a long answer": (whole(200, b" " * 100_000), "sends a larger answer than the limits allow", True),
    },
)
def test_a_token_server_without_a_token_is_reported(server, tokens, script: Script, said, is_lasting):
    tokens.scripts["/token"] = script
    demand(server, "never", bearer(f"https://tokens.example:{tokens.port}/token"))
    error = refused(with_tokens(server, tokens), server)
    assert said in str(error)
    assert is_lasting is error.is_lasting


def test_a_registry_that_accepts_no_login_gets_two_requests(server, tokens):
    demand(server, "never", bearer(f"https://tokens.example:{tokens.port}/token"))
    error = refused(with_tokens(server, tokens), server)
    assert str(error) == (
        f"registry.example:{server.port} denies access to registry.example:{server.port}/team/image:1 "
        "(401); check that it exists and that the configured credentials may pull it"
    )
    assert (len(server.heard), len(tokens.heard)) == (2, 1)


def test_no_error_shows_a_secret(server, tokens, tmp_path):
    tokens.scripts["/token"] = whole(401)
    demand(server, "never", bearer(f"https://tokens.example:{tokens.port}/token"))
    known = credentials(tmp_path, server, username="robot", password="hush-hush")
    error = refused(with_tokens(server, tokens), server, known)
    assert str(error).endswith("rejects the configured credentials (401); correct them")
    assert "hush-hush" not in repr(known.of(f"registry.example:{server.port}"))


HUB = 'realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a:pull,push"'


@each(
    "headers, expected",
    {
        "none": ([], {}),
        "of other schemes": (["", "Negotiate", "=, ="], {}),
        "Docker Hub": (
            [f"Bearer {HUB}"],
            {
                "bearer": {
                    "realm": "https://auth.docker.io/token",
                    "service": "registry.docker.io",
                    "scope": "repository:a:pull,push",
                }
            },
        ),
        "two in one header": (
            ['Basic realm="a, b=c", Bearer realm="d" , Service=e'],
            {"basic": {"realm": "a, b=c"}, "bearer": {"realm": "d", "service": "e"}},
        ),
        "two headers": (["Basic a=b", "Bearer c=d"], {"basic": {"a": "b"}, "bearer": {"c": "d"}}),
        "escapes": ([r'bearer a="say \"hello\""'], {"bearer": {"a": 'say "hello'}}),
        "a list": (["Negotiate, Basic realm=x"], {"basic": {"realm": "x"}}),
        "too long": (["Bearer " + 'a="' * 10_000], {}),
    },
)
def test_challenges_are_read(headers, expected):
    assert parse_challenges(headers) == expected


@given(st.lists(st.text(alphabet=' ,="\\aBé\t', max_size=50).map("Bearer {}".format), max_size=3))
def test_any_headers_are_read(headers):
    parse_challenges(headers)
