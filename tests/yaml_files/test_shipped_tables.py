"""Tables that come with the package."""

from pathlib import Path

import pytest
import yaml

from webhook.yaml_files.shipped_tables import read_table


def test_a_table_is_read_as_maps_lists_and_scalars(tmp_path):
    """Versions are texts where they stand in quotes."""
    file = tmp_path / "rows.yaml"
    file.write_text('rows:\n- {cuda: "12.10", branch: 535}\n')
    assert read_table(file) == {"rows": [{"cuda": "12.10", "branch": 535}]}


def test_a_date_is_a_text_without_quotes_too(tmp_path):
    """As it is in files that people write."""
    file = tmp_path / "rows.yaml"
    file.write_text('- {date: 2026-11-24, other: "2026-11-24"}\n')
    assert read_table(file) == [{"date": "2026-11-24", "other": "2026-11-24"}]


def test_a_table_cannot_make_anything_but_values(tmp_path):
    """Tags that name Python objects are refused."""
    file = tmp_path / "rows.yaml"
    file.write_text("!!python/object/apply:os.getcwd []\n")
    with pytest.raises(yaml.YAMLError):
        read_table(file)


def test_a_table_that_is_missing_is_named(tmp_path):
    """An incomplete package does not start."""
    with pytest.raises(FileNotFoundError, match=r"gone\.yaml"):
        read_table(Path(tmp_path / "gone.yaml"))
