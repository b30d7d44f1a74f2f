"""docs/cuda.md says what the tables say."""

from pathlib import Path

from webhook.cuda.reference import cuda_reference

PAGE = Path(__file__).parents[2] / "docs" / "cuda.md"


def test_the_page_is_generated_from_the_tables():
    """`make docs` writes it."""
    assert PAGE.read_text() == cuda_reference()


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_matrix_shows_what_the_sources_say():
    lines = cuda_reference().splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("| CUDA | 410"))
    head = cells_of(lines[first])
    rows = [dict(zip(head, cells_of(line), strict=True)) for line in lines[first + 2 : lines.index("", first)]]
    cells = {row["CUDA"]: row for row in rows if row}
    assert cells["12.4"]["550"] == "N"
    assert cells["12.4"]["535"] == "M"
    assert cells["12.4"]["470"] == "F"
    assert cells["13.0"]["560"] == ""
    assert cells["13.4"]["535"] == "?"
