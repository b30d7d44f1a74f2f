"""Quantities are read as the API server reads them. The tables were checked against kubectl and a 1.36 API server."""

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import checked, json_values
from webhook.model.quantity import format_bytes, parse_quantity
from webhook.model.shape import FormatError

LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        pytest.param(None, 0, id="null is none"),
        pytest.param(0, 0, id="a number zero"),
        pytest.param(1, 1, id="a number"),
        pytest.param(1.0, 1, id="a number with a fraction of zero"),
        pytest.param(0.5, Fraction(1, 2), id="a number with a fraction"),
        pytest.param(1e22, LARGEST, id="a float with exponent"),
        pytest.param(1e-7, Fraction(1, 10**7), id="a small float"),
        pytest.param("0", 0, id="zero"),
        pytest.param("-0", 0, id="minus zero"),
        pytest.param("00012", 12, id="leading zeros"),
        pytest.param("0" * 200 + "1", 1, id="many leading zeros"),
        pytest.param("+1", 1, id="plus"),
        pytest.param("-1", -1, id="minus"),
        pytest.param("1.", 1, id="a point at the end"),
        pytest.param(".5", Fraction(1, 2), id="a point at the start"),
        pytest.param(" 1 ", 1, id="blanks around"),
        pytest.param("1n", Fraction(1, 10**9), id="nano"),
        pytest.param("1u", Fraction(1, 10**6), id="micro"),
        pytest.param("500m", Fraction(1, 2), id="milli"),
        pytest.param("1000m", 1, id="a thousand milli is one"),
        pytest.param("0.5m", Fraction(1, 2000), id="half a milli"),
        pytest.param("1k", 1000, id="kilo"),
        pytest.param("1M", 10**6, id="mega"),
        pytest.param("1G", 10**9, id="giga"),
        pytest.param("1T", 10**12, id="tera"),
        pytest.param("1P", 10**15, id="peta"),
        pytest.param("1E", 10**18, id="exa, not an exponent"),
        pytest.param("1Ki", 2**10, id="kibi"),
        pytest.param("1Mi", 2**20, id="mebi"),
        pytest.param("1.5Gi", 3 * 2**29, id="gibi"),
        pytest.param("1Ti", 2**40, id="tebi"),
        pytest.param("1Pi", 2**50, id="pebi"),
        pytest.param("1Ei", 2**60, id="exbi"),
        pytest.param("0.1Gi", Fraction(2**30, 10), id="a fraction of a binary unit"),
        pytest.param("1e0", 1, id="exponent zero"),
        pytest.param("1e3", 1000, id="small e"),
        pytest.param("1E3", 1000, id="capital e"),
        pytest.param("1e+3", 1000, id="exponent with plus"),
        pytest.param("1E-3", Fraction(1, 1000), id="exponent with minus"),
        pytest.param("1e00000003", 1000, id="exponent with zeros"),
        pytest.param("0e99999", 0, id="nothing times a lot"),
        pytest.param("0.0000000001", Fraction(1, 10**9), id="less than a nano is rounded up to it"),
        pytest.param("1.0000000001", 1 + Fraction(1, 10**9), id="rounded up to the next nano"),
        pytest.param("-0.0000000001", Fraction(-1, 10**9), id="negative is rounded away from zero"),
        pytest.param("1e-400", Fraction(1, 10**9), id="far below a nano"),
        pytest.param("9223372036854775807", LARGEST, id="the largest"),
        pytest.param("8Ei", LARGEST, id="capped"),
        pytest.param("16Ei", LARGEST, id="capped again"),
        pytest.param("1e400", LARGEST, id="capped exponent"),
        pytest.param("-1e400", -LARGEST, id="capped below zero"),
        pytest.param("9" * 200 + "e-190", 9999999999 + Fraction(10**9 - 1, 10**9) + Fraction(1, 10**9), id="digits"),
    ],
)
def test_A32_every_spelling_that_the_api_server_accepts_is_read_exactly(written, amount):
    assert parse_quantity(written) == amount


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        pytest.param("", '""', id="empty"),
        pytest.param(" ", '" "', id="blank"),
        pytest.param("$GPU_PER_NODE", '"$GPU_PER_NODE"', id="a placeholder"),
        pytest.param("{{workflow.parameters.n}}", '"{{workflow.parameters.n}}"', id="a template"),
        pytest.param("1e", '"1e"', id="an exponent without digits"),
        pytest.param("1e1.5", '"1e1.5"', id="a broken exponent"),
        pytest.param("1K", '"1K"', id="capital kilo"),
        pytest.param("1ki", '"1ki"', id="small kibi"),
        pytest.param("1mi", '"1mi"', id="milli-i"),
        pytest.param("1GB", '"1GB"', id="bytes"),
        pytest.param("1Gi1", '"1Gi1"', id="something after the suffix"),
        pytest.param("1E2Ki", '"1E2Ki"', id="exponent and suffix"),
        pytest.param("1.2.3", '"1.2.3"', id="two points"),
        pytest.param("1 Gi", '"1 Gi"', id="a blank inside"),
        pytest.param("1\n", '"1\n"', id="a line break, which JSON escapes"),
        pytest.param("--1", '"--1"', id="two signs"),
        pytest.param("0x10", '"0x10"', id="hexadecimal"),
        pytest.param("1_000", '"1_000"', id="grouped digits"),
        pytest.param("1,5", '"1,5"', id="a comma"),
        pytest.param("\uff11", '"\uff11"', id="full-width digits"),
        pytest.param("\u0663", '"\u0663"', id="arabic digits"),
        pytest.param("\u00bd", '"\u00bd"', id="a fraction sign"),
        pytest.param("NaN", '"NaN"', id="not a number"),
        pytest.param("m", '"m"', id="a suffix alone"),
        pytest.param(".", '"."', id="a point alone"),
        pytest.param("+", '"+"', id="a sign alone"),
        pytest.param(True, "true", id="a boolean"),
        pytest.param(float("nan"), '"nan"', id="a float that is no number"),
        pytest.param(float("inf"), '"inf"', id="an infinite float"),
        pytest.param([], "a list", id="a list"),
        pytest.param({"a": 1}, "a map", id="a map"),
    ],
)
def test_nonsense_is_refused_in_words(written, shown):
    with pytest.raises(FormatError) as refused:
        parse_quantity(written)
    assert str(refused.value) == f"{shown} is not a quantity"


@pytest.mark.parametrize(
    "written",
    [
        pytest.param("1" * 3_000_000 + "x", id="three million digits and a letter"),
        pytest.param("1" * 3_000_000, id="three million digits"),
        pytest.param("x" * 3_000_000, id="three million letters"),
        pytest.param("1e" + "9" * 3_000_000, id="three million digits of exponent"),
        pytest.param(1 << 30_000, id="an integer of 30,000 bits"),
    ],
)
def test_a_huge_text_is_refused_at_once_and_shown_in_short(written):
    with pytest.raises(FormatError) as refused:
        parse_quantity(written)
    assert len(str(refused.value)) < 100


@checked
@given(
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 10**30),
    st.text("0123456789", max_size=20),
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
)
def test_the_grammar_agrees_with_decimal_arithmetic(sign, whole, decimals, suffix):
    scale = Fraction(
        {"": 1, "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "k": 1000}.get(suffix)
        or (1024 if suffix.endswith("i") else 1000) ** (" KMGTPE".index(suffix[0]))
    )
    exact = Fraction(f"{whole}.{decimals or 0}") * scale
    nanos = min(-(-exact * 10**9 // 1), LARGEST * 10**9)
    expected = Fraction(int(nanos), 10**9) * (-1 if sign == "-" else 1)
    read = parse_quantity(f"{sign}{whole}.{decimals}{suffix}")
    assert read == expected
    assert isinstance(read, int) == (expected.denominator == 1)


@checked
@given(json_values())
def test_any_json_is_a_quantity_or_a_quantity_error(value):
    try:
        amount = parse_quantity(value)
    except FormatError:
        return
    assert parse_quantity(json.loads(json.dumps(value))) == amount


@pytest.mark.parametrize(
    ("size", "written"),
    [
        pytest.param(0, "0", id="nothing"),
        pytest.param(1, "1", id="a byte"),
        pytest.param(1000, "1000", id="no multiple of 1024"),
        pytest.param(1024, "1Ki", id="a kibibyte"),
        pytest.param(3 * 2**29, "1536Mi", id="the largest unit that divides it"),
        pytest.param(64 * 2**30, "64Gi", id="gibibytes"),
        pytest.param(2**60, "1Ei", id="an exbibyte"),
        pytest.param(LARGEST, str(LARGEST), id="the largest"),
    ],
)
def test_bytes_are_written_with_the_largest_unit_that_divides_them(size, written):
    assert format_bytes(size) == written


@checked
@given(st.integers(0, LARGEST))
def test_what_is_written_reads_the_same(size):
    assert parse_quantity(format_bytes(size)) == size
