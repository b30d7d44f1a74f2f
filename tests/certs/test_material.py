"""What has to become of the shared certificates: renewed in time, never swapped under anybody, mended when broken."""

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from certs.authority import SERVING_LIFETIME, issue, new_authority, signed, trusted_until
from certs.material import MOST_AUTHORITIES, SPREAD, Material, Plan, Situation, Terms, data_of, material_of, plan
from tests.golden import each

NOW = datetime(2030, 1, 1, tzinfo=UTC)
TERMS = Terms(names=("gpu-policy.gpu-policy.svc",))
DAY = timedelta(days=1)


def at(now: datetime, *, announced: bool = True, request: str = "") -> Situation:
    return Situation(now, announced, request)


def fresh(now: datetime = NOW) -> Material:
    return plan(Material(), TERMS, at(now, announced=False)).material


def is_trusted(made: Plan, now: datetime) -> bool:
    """Whether a client that trusts the bundle accepts what is presented."""
    assert made.material.serving is not None
    end = trusted_until(made.material.serving.certificate, made.material.bundle)
    return end is not None and end > now


def test_from_nothing_comes_an_authority_and_what_it_issued() -> None:
    made = plan(Material(), TERMS, at(NOW, announced=False))
    assert made.reasons == ("there was no usable authority", "there was no usable serving certificate")
    assert made.material.bundle == (made.material.authority.certificate,)
    assert is_trusted(made, NOW)


@pytest.mark.parametrize("announced", [True, False])
def test_what_is_in_order_stays_as_it_is(announced: bool) -> None:
    material = fresh()
    assert plan(material, TERMS, at(NOW + DAY, announced=announced)) == Plan(material, (), ends_request=False)


def test_a_secret_gives_back_what_was_put_into_it() -> None:
    material = fresh()
    assert material_of(data_of(material)) == material


def test_the_serving_certificate_is_renewed_well_before_its_end_by_the_same_authority() -> None:
    material = fresh()
    late = material.serving.certificate.not_valid_after_utc - TERMS.serving_renewal
    assert plan(material, TERMS, at(late - DAY)).reasons == ()
    made = plan(material, TERMS, at(late))
    assert made.reasons == ("the serving certificate ends 2031-01-01",)
    assert made.material.authority == material.authority
    assert made.material.serving.certificate.not_valid_after_utc - late == SERVING_LIFETIME


def test_a_new_authority_is_announced_before_it_issues_and_the_former_stays() -> None:
    material = fresh()
    late = material.authority.certificate.not_valid_after_utc - TERMS.authority_renewal
    renewed = replace(material, serving=issue(material.authority, TERMS.names, late))
    announced = plan(renewed, TERMS, at(late))
    assert announced.reasons == ("the authority ends 2039-12-30",)
    assert announced.material.serving == renewed.serving
    assert set(announced.material.bundle) == {material.authority.certificate, announced.material.authority.certificate}
    assert plan(announced.material, TERMS, at(late, announced=False)).reasons == ()
    switched = plan(announced.material, TERMS, at(late))
    assert switched.reasons == ("the new authority has been announced for long enough",)
    assert signed(switched.material.serving.certificate, announced.material.authority.certificate)
    assert switched.material.bundle == announced.material.bundle
    assert plan(switched.material, TERMS, at(late)).reasons == ()


def test_an_authority_leaves_the_bundle_when_it_has_ended() -> None:
    material = fresh()
    ended = new_authority(NOW - 100 * DAY, lifetime=50 * DAY)
    made = plan(replace(material, bundle=(*material.bundle, ended.certificate)), TERMS, at(NOW))
    assert made.reasons == ("the bundle did not hold exactly the authorities to trust",)
    assert made.material.bundle == material.bundle


def test_a_bundle_that_lost_the_authority_gets_it_back() -> None:
    material = fresh()
    other = new_authority(NOW).certificate
    made = plan(replace(material, bundle=(other,)), TERMS, at(NOW, announced=False))
    assert made.material.bundle == (material.authority.certificate, other)


@each(
    "made, reasons",
    {
        "the authority has ended, too": (
            NOW - 20 * 365 * DAY,
            ("the authority ended 2020-01-04", "the serving certificate ended 2011-01-06"),
        ),
        "it has ended": (NOW - 366 * DAY, ("the serving certificate ended 2029-12-31",)),
        "somebody's clock ran ahead": (
            NOW + 30 * DAY,
            ("the authority was not valid yet", "the serving certificate was not valid yet"),
        ),
    },
)
def test_a_serving_certificate_that_nobody_accepts_is_replaced_without_waiting(
    made: datetime, reasons: tuple[str, ...]
) -> None:
    planned = plan(fresh(made), TERMS, at(NOW, announced=False))
    assert planned.reasons == reasons
    assert is_trusted(planned, NOW)


def test_changed_names_make_a_new_serving_certificate_and_equal_names_do_not() -> None:
    assert plan(fresh(), TERMS, at(NOW)).reasons == ()
    other = plan(fresh(), Terms(names=("other.svc",)), at(NOW))
    assert other.reasons == ("the serving certificate did not cover every name",)


def test_a_serving_certificate_of_an_unknown_authority_is_replaced() -> None:
    stranger = new_authority(NOW)
    material = replace(fresh(), serving=issue(stranger, TERMS.names, NOW))
    made = plan(material, TERMS, at(NOW, announced=False))
    assert made.reasons == ("no authority in the bundle had signed the serving certificate",)


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "not yet announced"])
@pytest.mark.parametrize("request_", ["serving", "authority"])
def test_a_rotation_that_was_asked_for_waits_for_the_one_before(request_: str, announced: bool) -> None:
    made = plan(fresh(), TERMS, at(NOW, announced=announced, request=request_))
    expected = {"serving": "a new serving certificate was asked for", "authority": "a new authority was asked for"}
    assert made.reasons == ((expected[request_],) if announced else ())
    assert made.ends_request is announced
    assert is_trusted(made, NOW)


def test_former_authorities_retire_when_asked_and_only_when_every_replica_has_followed() -> None:
    announced = plan(fresh(), TERMS, at(NOW, request="authority")).material
    assert not plan(announced, TERMS, at(NOW, announced=False, request="retire")).ends_request
    switched = plan(announced, TERMS, at(NOW, request="retire"))
    assert (len(switched.material.bundle), switched.ends_request) == (2, False)
    early = plan(switched.material, TERMS, at(NOW + SPREAD - DAY / 86400, request="retire"))
    assert (early.reasons, early.ends_request) == ((), False)
    retired = plan(switched.material, TERMS, at(NOW + SPREAD, request="retire"))
    assert retired.reasons == ("former authorities are retired, as asked",)
    assert retired.material.bundle == (announced.authority.certificate,)
    assert retired.ends_request


def test_an_unknown_request_is_done() -> None:
    assert plan(fresh(), TERMS, at(NOW, request="everything")).ends_request


def test_a_bundle_never_grows_beyond_its_bound() -> None:
    material = fresh()
    for hour in range(3 * MOST_AUTHORITIES):
        now = NOW + timedelta(hours=hour)
        material = plan(plan(material, TERMS, at(now, request="authority")).material, TERMS, at(now)).material
        assert len(material.bundle) <= MOST_AUTHORITIES
    assert material.authority.certificate in material.bundle


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


OTHER = fresh()


@each(
    "changes, faults",
    {
        "half a pair": ({"ca.key": None}, ["there is no ca.key"]),
        "no base64": ({"ca.crt": "%%%"}, ["ca.crt or ca.key: not base64"]),
        "no PEM": ({"tls.crt": encoded(b"garbage")}, ["tls.crt or tls.key: not a PEM certificate"]),
        "other key": ({"tls.key": data_of(OTHER)["tls.key"]}, ["tls.key is not the key of tls.crt"]),
        "not an authority": (
            {"ca.crt": data_of(OTHER)["tls.crt"], "ca.key": data_of(OTHER)["tls.key"]},
            ["ca.crt is not the certificate of an authority"],
        ),
        "bundle": ({"ca-bundle.crt": encoded(b"x")}, ["ca-bundle.crt: not a PEM bundle of certificates"]),
        "empty": ({"ca-bundle.crt": encoded(b"")}, ["ca-bundle.crt: not a PEM bundle of certificates"]),
    },
)
def test_garbage_in_a_secret_is_named_and_the_rest_is_used(changes: dict[str, str | None], faults: list[str]) -> None:
    material = fresh()
    data = {name: text for name, text in {**data_of(material), **changes}.items() if text is not None}
    found = material_of(data)
    assert list(found.faults) == faults
    parts = [found.authority, found.serving, found.bundle or None]
    assert sum(part is None for part in parts) == 1
    made = plan(found, TERMS, at(NOW))
    assert is_trusted(made, NOW)


def test_what_serves_goes_on_serving_when_its_authority_is_lost() -> None:
    """The key of the authority was overwritten: a new one is announced first, as in any rotation."""
    material = fresh()
    made = plan(replace(material, authority=None), TERMS, at(NOW, announced=False))
    assert made.material.serving == material.serving
    assert material.authority.certificate in made.material.bundle
    assert is_trusted(made, NOW)
