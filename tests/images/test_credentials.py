"""Credentials are read in the format of docker, by host, and again when the file changes."""

import base64
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from tests.golden import each, golden
from webhook.images.credentials import Credentials, Login
from webhook.yaml_files.file_errors import FileErrors


def write(directory: Path, content: Any) -> Path:
    file = directory / "config.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def known(directory: Path, **auths: Any) -> Credentials:
    return Credentials(write(directory, {"auths": auths}))


def auth(text: str) -> dict[str, str]:
    return {"auth": base64.b64encode(text.encode()).decode()}


@golden
def test_a_login_is_found_under_the_names_that_docker_knows(tmp_path, key, registry):
    credentials = known(tmp_path, **{key: auth("$oauthtoken:a:b")})
    assert Login("$oauthtoken", "a:b") == credentials.of(registry)
    assert credentials.warnings == ()


@pytest.mark.parametrize("registry", ["other.corp", "registry.corp:5001", "sub.registry.corp", "127.1", ""])
def test_a_login_is_for_its_host_alone(tmp_path, registry):
    assert known(tmp_path, **{"registry.corp": auth("a:b")}).of(registry) is None


@each(
    "entry, expected",
    {
        "user and password": ({"username": "a", "password": "b"}, Login("a", "b")),
        "an identity token": ({**auth("c:d"), "identitytoken": "t"}, Login(identity_token="t")),
        "an address that nobody needs": ({**auth("c:d"), "email": "x@y.example"}, Login("c", "d")),
        "an empty entry": ({}, None),
        "an empty auth": ({"auth": ""}, None),
    },
)
def test_an_entry_is_read(tmp_path, entry, expected):
    credentials = known(tmp_path, **{"registry.corp": entry})
    assert credentials.of("registry.corp") == expected
    assert credentials.warnings == ()


@golden
def test_an_unusable_entry_is_reported_and_the_others_are_used(tmp_path, key, entry, said):
    credentials = known(tmp_path, **{key: entry, "good.corp": auth("a:b")})
    (warning,) = credentials.warnings
    assert f"config.json: auths[{key}] is ignored: " in warning
    assert said in warning
    assert credentials.of("good.corp") == Login("a", "b")


def test_credential_helpers_are_not_run_and_that_is_logged_once(tmp_path, caplog):
    credentials = Credentials(write(tmp_path, {"auths": {}, "credsStore": "a", "credHelpers": {"gcr.io": "gcloud"}}))
    with caplog.at_level(logging.WARNING):
        assert [credentials.of("gcr.io") for _ in range(2)] == [None, None]
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "credsStore is ignored, because credential helpers are not run; write the credentials themselves under auths",
        "credHelpers is ignored, because credential helpers are not run; write the credentials themselves under auths",
    ]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"auths": []}', "user:hush"])
def test_a_file_that_holds_no_credentials_is_refused_without_showing_it(tmp_path, content):
    with pytest.raises(FileErrors, match=r"config\.json: not a docker configuration; expected the JSON") as caught:
        Credentials(write(tmp_path, content))
    assert "hush" not in str(caught.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(FileErrors, match="cannot be read"):
        Credentials(tmp_path / "none.json")


def test_a_changed_file_is_read_again_and_a_broken_one_changes_nothing(tmp_path):
    credentials = known(tmp_path, **{"registry.corp": auth("a:1")})
    newer = tmp_path / "newer"
    newer.write_text(json.dumps({"auths": {"registry.corp": auth("a:2")}}))
    os.replace(newer, tmp_path / "config.json")
    assert credentials.of("registry.corp") == Login("a", "2")
    newer.write_text("{ broken")
    os.replace(newer, tmp_path / "config.json")
    assert credentials.of("registry.corp") == Login("a", "2")
    assert "not a docker configuration" in credentials.warnings[-1]
    newer.write_text(json.dumps({"auths": {"registry.corp": auth("a:3")}}))
    os.replace(newer, tmp_path / "config.json")
    assert credentials.of("registry.corp") == Login("a", "3")
    assert credentials.warnings == ()


def test_without_a_file_there_are_no_logins():
    assert Credentials().of("docker.io") is None


def test_secrets_stay_out_of_what_is_printed():
    assert repr(Login("a", "hush", "hush")) == "Login(user='a')"
