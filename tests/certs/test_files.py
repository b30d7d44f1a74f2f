"""Certificate files are made once and renewed in time. An authority that people brought is never replaced."""

import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from certs.authority import CertificateError, KeyPair, belong_together, covers, new_authority
from certs.files import ensure_files
from tests.certificate_files import issued_by
from tests.golden import each

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NAMES = ["gpu-policy.gpu-policy.svc", "127.0.0.1"]
VALID = "everything is valid"
FILES = ["ca.crt", "ca.key", "tls.crt", "tls.key"]


def contents(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(directory.iterdir())}


def served(directory: Path) -> KeyPair:
    return KeyPair((directory / "tls.crt").read_bytes(), (directory / "tls.key").read_bytes())


def is_issued_here(directory: Path) -> bool:
    return issued_by(served(directory).certificate_pem, (directory / "ca.crt").read_bytes())


def changed(before: dict[str, bytes], directory: Path) -> list[str]:
    return [name for name, content in contents(directory).items() if before.get(name) != content]


def test_the_first_run_makes_four_files_that_fit_together(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "tls"
    reason = ensure_files(directory, NAMES, now=NOW)
    assert reason == "there was no usable authority; there was no usable serving certificate"
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()}
    assert modes == {"ca.crt": 0o644, "ca.key": 0o600, "tls.crt": 0o644, "tls.key": 0o600}
    assert belong_together(served(directory))
    assert is_issued_here(directory)
    assert covers(served(directory).certificate_pem, NAMES)


def test_a_second_run_touches_nothing(tmp_path: Path) -> None:
    ensure_files(tmp_path, NAMES, now=NOW)

    def written() -> dict[str, tuple[int, int, int]]:
        found = {file.name: file.stat() for file in tmp_path.iterdir()}
        return {name: (stat.st_ino, stat.st_mode, stat.st_mtime_ns) for name, stat in found.items()}

    before = written()
    assert ensure_files(tmp_path, NAMES[:1], now=NOW + timedelta(days=300)) == VALID
    assert written() == before


@each(
    "names, days, reason",
    {
        "a new name": ([*NAMES, "::1"], 0, "the serving certificate did not cover every name"),
        "about to end": (NAMES, 336, "the serving certificate ends 2031-01-01"),
    },
)
def test_a_serving_certificate_that_does_not_fit_is_replaced_under_the_same_authority(
    tmp_path: Path, names: list[str], days: int, reason: str
) -> None:
    write_authority(tmp_path, new_authority(NOW - timedelta(days=30)))
    ensure_files(tmp_path, NAMES, now=NOW)
    before = contents(tmp_path)
    assert ensure_files(tmp_path, names, now=NOW + timedelta(days=days)) == reason
    assert changed(before, tmp_path) == ["tls.crt", "tls.key"]
    assert ensure_files(tmp_path, names, now=NOW + timedelta(days=days)) == VALID


@pytest.mark.parametrize("damaged", ["tls.crt", "tls.key"])
@each("content", {"garbage": b"<<<<<<<", "missing": None})
def test_a_damaged_serving_pair_is_replaced(tmp_path: Path, damaged: str, content: bytes | None) -> None:
    ensure_files(tmp_path, NAMES, now=NOW)
    before = contents(tmp_path)
    (tmp_path / damaged).unlink()
    if content is not None:
        (tmp_path / damaged).write_bytes(content)
    assert damaged in ensure_files(tmp_path, NAMES, now=NOW)
    assert changed(before, tmp_path) == ["tls.crt", "tls.key"]
    assert belong_together(served(tmp_path))


def test_an_authority_about_to_end_is_replaced_together_with_what_it_issued(tmp_path: Path) -> None:
    ensure_files(tmp_path, NAMES, now=NOW)
    before = contents(tmp_path)
    reason = ensure_files(tmp_path, NAMES, now=NOW + timedelta(days=3640))
    assert reason.startswith("the authority ends 2039-12-30; ")
    assert reason.endswith("; every webhook configuration needs the new ca.crt as its caBundle")
    assert changed(before, tmp_path) == FILES
    assert is_issued_here(tmp_path)


def test_an_authority_brought_along_is_used_as_it_is(tmp_path: Path) -> None:
    own = new_authority(NOW, timedelta(days=90))
    write_authority(tmp_path, own)
    ensure_files(tmp_path, NAMES, now=NOW)
    assert (tmp_path / "ca.crt").read_bytes() == own.certificate_pem
    assert served(tmp_path).certificate.not_valid_after_utc == own.certificate.not_valid_after_utc


@each(
    "damaged, content, message",
    {
        "certificate": ("ca.crt", b"garbage", "not a PEM certificate; put the right file back"),
        "key": ("ca.key", b"garbage", "ca.key: not an unencrypted PEM private key; put the"),
        "no key": ("ca.key", None, "there is no ca.key; put the right file back"),
        "no certificate": ("ca.crt", None, "there is no ca.crt; put"),
        "another key": ("ca.key", new_authority(NOW).key_pem, "ca.key is not the key of ca.crt; put"),
    },
)
def test_an_authority_that_cannot_be_used_is_named_and_left_as_it_is(
    tmp_path: Path, damaged: str, content: bytes | None, message: str
) -> None:
    ensure_files(tmp_path, NAMES, now=NOW)
    (tmp_path / damaged).unlink()
    if content is not None:
        (tmp_path / damaged).write_bytes(content)
    before = contents(tmp_path)
    with pytest.raises(CertificateError, match=message):
        ensure_files(tmp_path, NAMES, now=NOW + timedelta(days=5000))
    assert contents(tmp_path) == before


def test_a_clock_before_the_authority_is_reported_instead_of_replacing_it(tmp_path: Path) -> None:
    ensure_files(tmp_path, NAMES, now=NOW)
    with pytest.raises(CertificateError, match="is valid from 2029-12-31 22:00 UTC on; set the clock"):
        ensure_files(tmp_path, NAMES, now=NOW - timedelta(days=1))


def test_a_directory_or_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    ensure_files(tmp_path, NAMES, now=NOW)
    (tmp_path / "tls.key").unlink()
    (tmp_path / "tls.key").mkdir()
    with pytest.raises(CertificateError, match=r"tls\.key cannot be read: Is a directory"):
        ensure_files(tmp_path, NAMES, now=NOW)
    with pytest.raises(CertificateError, match=r"ca\.crt/tls cannot be written: Not a directory"):
        ensure_files(tmp_path / "ca.crt" / "tls", NAMES, now=NOW)


@each("names", {"none": [], "nonsense": ["not a name"]})
def test_bad_names_leave_no_files_behind(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(CertificateError):
        ensure_files(tmp_path, names, now=NOW)
    assert contents(tmp_path) == {}


def test_an_rsa_authority_can_issue_too(tmp_path: Path) -> None:
    """People bring authorities made by other tools."""
    write_authority(tmp_path, rsa_authority())
    assert ensure_files(tmp_path, NAMES, now=NOW) == "there was no usable serving certificate"
    assert is_issued_here(tmp_path)


def test_runs_at_the_same_time_agree_on_one_set_of_files(tmp_path: Path) -> None:
    threads = [threading.Thread(target=ensure_files, args=(tmp_path, NAMES), kwargs={"now": NOW}) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(contents(tmp_path)) == FILES
    assert ensure_files(tmp_path, NAMES, now=NOW) == VALID


def test_a_reader_never_sees_a_half_written_file(tmp_path: Path) -> None:
    """A watcher that takes key and certificate whenever they match never stays with a broken pair."""
    ensure_files(tmp_path, NAMES, now=NOW)
    stop = threading.Event()
    broken: list[bytes] = []

    def watch() -> None:
        while not stop.is_set():
            for file in (tmp_path / "tls.crt", tmp_path / "tls.key"):
                content = file.read_bytes()
                if not content.endswith(b"-----\n"):
                    broken.append(content)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for number in range(20):
        ensure_files(tmp_path, [f"name-{number}.example"], now=NOW)
    stop.set()
    watcher.join()
    assert broken == []


def write_authority(directory: Path, pair: KeyPair) -> None:
    (directory / "ca.crt").write_bytes(pair.certificate_pem)
    (directory / "ca.key").write_bytes(pair.key_pem)


def rsa_authority() -> KeyPair:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Example CA")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=1000))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPair(certificate.public_bytes(Encoding.PEM), private)
