"""Redirects lead to listed hosts only, over TLS, and only the registry gets the header Authorization."""

from collections.abc import Iterator

import pytest

from tests.golden import golden
from tests.images import images, private_authority
from tests.images.scripted import (
    REPOSITORY,
    Heard,
    ScriptedServer,
    client,
    guarded,
    listed,
    redirect,
    reference,
    scripted,
    serving,
    token,
)
from webhook.images.allowlist import Registry
from webhook.images.hosts import HostPattern
from webhook.images.http_request import ImageLookupError

CONFIG = images.config({"CUDA_VERSION": "12.4.1"})
MANIFEST = images.manifest(CONFIG)
BLOB = f"/v2/{REPOSITORY}/blobs/{CONFIG.digest}"
TAG = f"/v2/{REPOSITORY}/manifests/1"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted() as server:
        server.holds("1", MANIFEST, CONFIG)
        yield server


@pytest.fixture
def blobs() -> Iterator[ScriptedServer]:
    with scripted(private_authority.server_context("blobs.example", "tokens.example", "registry.example")) as blobs:
        blobs.scripts["/blob"] = serving(CONFIG)
        yield blobs


def allowing(server: ScriptedServer, blobs: ScriptedServer) -> Registry:
    """The registry with blobs and tokens elsewhere, under certificates of an authority of its own."""
    return listed(
        server.port,
        token_hosts=(HostPattern("tokens.example", blobs.port),),
        blob_hosts=(HostPattern("*.example", blobs.port),),
        authorities=private_authority.PEM,
    )


def refused(registry: Registry, port: int) -> ImageLookupError:
    with pytest.raises(ImageLookupError) as caught:
        client(registry).look_up(reference(port))
    return caught.value


def test_a_blob_is_fetched_from_a_listed_host(server, blobs):
    server.scripts[BLOB] = redirect(f"https://blobs.example:{blobs.port}/blob?signature=secret")
    found = client(allowing(server, blobs)).look_up(reference(server.port))
    assert found.env == {"CUDA_VERSION": "12.4.1"}
    assert blobs.paths() == ["/blob?signature=secret"]
    assert blobs.heard[0].headers["host"] == f"blobs.example:{blobs.port}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_every_kind_of_redirect_within_the_registry_is_followed(server, status):
    server.scripts["/elsewhere"] = serving(CONFIG)
    server.scripts[BLOB] = redirect("/elsewhere", status)
    assert client(listed(server.port)).look_up(reference(server.port)).env == {"CUDA_VERSION": "12.4.1"}


@golden
def test_a_redirect_to_a_host_that_is_not_listed_is_not_followed(server, blobs, location, said):
    ports = {"port": server.port, "blobs": blobs.port}
    server.scripts[BLOB] = redirect(location.format(**ports))
    error = refused(allowing(server, blobs), server.port)
    if said:
        host = said.format(**ports)
        expected = (
            f"the registry redirects to {host}, and its blobHosts do not list {host}; list the host there if it "
            "belongs to the registry"
        )
        assert f"registry.example:{server.port}: {expected}" == str(error)
    assert error.is_lasting
    assert (len(server.heard), blobs.connections) == (2, 0)


def test_no_redirect_leads_away_from_tls(server, blobs):
    server.scripts[BLOB] = redirect(f"http://blobs.example:{blobs.port}/blob")
    error = refused(allowing(server, blobs), server.port)
    assert str(error).endswith(
        f"the registry redirects to blobs.example:{blobs.port}, without TLS; that host must be used over https"
    )
    assert blobs.connections == 0


def test_a_registry_with_tls_does_not_lead_to_itself_without(blobs):
    blobs.holds("1", MANIFEST)
    blobs.scripts[BLOB] = redirect(f"http://registry.example:{blobs.port}/blob")
    error = refused(listed(blobs.port, plain_http=False, authorities=private_authority.PEM), blobs.port)
    assert f"the registry redirects to registry.example:{blobs.port}, and its blobHosts do not list" in str(error)


@pytest.mark.parametrize("location", [BLOB, "/there"])
def test_redirects_in_a_circle_end(server, location):
    server.scripts[BLOB] = redirect(location)
    server.scripts["/there"] = redirect(BLOB)
    error = refused(listed(server.port), server.port)
    assert str(error) == f"registry.example:{server.port}: the registry redirects more than 3 times"
    assert len(server.heard) == 1 + 4


def test_a_token_is_not_sent_to_the_target_of_a_redirect(server, blobs):
    realm = f"https://tokens.example:{blobs.port}/token"
    challenge = f'Bearer realm="{realm}",service="here"'
    blobs.scripts["/token"] = token("secret-token")
    server.scripts[TAG] = guarded(serving(MANIFEST), "Bearer secret-token", challenge)
    server.scripts[BLOB] = guarded(redirect("/moved"), "Bearer secret-token", challenge)
    server.scripts["/moved"] = redirect(f"https://blobs.example:{blobs.port}/blob")
    found = client(allowing(server, blobs)).look_up(reference(server.port))
    assert found.env == {"CUDA_VERSION": "12.4.1"}
    assert shown(server.heard, "/moved") == ["Bearer secret-token"]
    assert shown(blobs.heard, "/blob") == [None]


def test_a_redirected_request_that_demands_a_login_gets_none(server, blobs):
    blobs.scripts["/blob"] = guarded(serving(CONFIG), "Bearer x", 'Basic realm="give me your password"')
    server.scripts[BLOB] = redirect(f"https://blobs.example:{blobs.port}/blob")
    error = refused(allowing(server, blobs), server.port)
    assert f"blobs.example:{blobs.port} denies access to" in str(error)
    assert shown(blobs.heard, "/blob") == [None]


def shown(heard: list[Heard], path: str) -> list[str | None]:
    """The headers Authorization of the requests for a path."""
    return [each.authorization for each in heard if each.path == path]


def test_an_error_shows_no_path_and_no_query_of_a_redirect(server, blobs):
    server.scripts[BLOB] = redirect("https://evil.test/path?signature=secret")
    assert "secret" not in str(refused(allowing(server, blobs), server.port))
    server.scripts[BLOB] = redirect(f"https://blobs.example:{blobs.port}/gone?signature=secret")
    assert "secret" not in str(refused(allowing(server, blobs), server.port))
