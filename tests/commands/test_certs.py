"""`gpu-policy certs`: a CA and a serving certificate in a directory."""

from pathlib import Path

from tests.command_line import gpu_policy

ROOT = Path(__file__).parents[2]


def test_certs_makes_files_and_leaves_good_ones_alone(tmp_path: Path) -> None:
    assert gpu_policy("certs", tmp_path / "c", "--name", "localhost").exit_code == 0
    before = (tmp_path / "c" / "tls.crt").read_bytes()
    assert gpu_policy("certs", tmp_path / "c", "--name", "localhost").exit_code == 0
    assert (tmp_path / "c" / "tls.crt").read_bytes() == before


def test_certs_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a file")
    result = gpu_policy("certs", tmp_path / "c", "--name", "localhost")
    assert result.exit_code == 2
    assert result.stderr
