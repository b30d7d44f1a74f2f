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
    first = next(at for at, line in enumerate(lines) if line.startswith("| CUDA | Native"))
    rows = {cells_of(line)[0]: cells_of(line)[1:] for line in lines[first + 2 : lines.index("", first)]}
    assert rows["12.4"] == ["from 550", "525-545", "470", ""]
    assert rows["13.0"] == ["from 580", "", "535, 550, 565-575", ""]
    assert rows["13.4"] == ["from 615", "580-610", "", "535, 550, 560-575"]
