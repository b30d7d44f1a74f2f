"""Quantities are read as the API server reads them. The tables were checked against kubectl and a 1.36 API server."""

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each
from tests.strategies import checked, json_values
from webhook.model.quantity import format_bytes, parse_quantity
from webhook.model.shape import FormatError

LARGEST = 2**63 - 1

AMOUNTS: dict[object, list[object]] = {
    0: [None, 0, "0", "-0", "0e99999"],
    1: [1, 1.0, "+1", "1.", " 1 ", "0" * 200 + "1", "1000m", "1e0"],
    -1: ["-1"],
    12: ["00012"],
    Fraction(1, 2): [0.5, ".5", "500m"],
    Fraction(1, 2000): ["0.5m"],
    Fraction(1, 1000): ["1E-3"],
    Fraction(1, 10**6): ["1u"],
    Fraction(1, 10**7): [1e-7],
    Fraction(1, 10**9): ["1n", "0.0000000001", "1e-400"],
    Fraction(-1, 10**9): ["-0.0000000001"],
    1 + Fraction(1, 10**9): ["1.0000000001"],
    1000: ["1k", "1e3", "1E3", "1e+3", "1e00000003"],
    **{10 ** (3 * power): [f"1{suffix}"] for power, suffix in enumerate("MGTPE", start=2)},  # 1E is no exponent
    **{1024**power: [f"1{suffix}i"] for power, suffix in enumerate("KMGTPE", start=1)},
    3 * 2**29: ["1.5Gi"],
    Fraction(2**30, 10): ["0.1Gi"],
    9999999999 + Fraction(10**9 - 1, 10**9) + Fraction(1, 10**9): ["9" * 200 + "e-190"],
    LARGEST: [1e22, "9223372036854775807", "8Ei", "16Ei", "1e400"],
    -LARGEST: ["-1e400"],
}


@pytest.mark.parametrize(
    ("amount", "written"), [(one, text) for one, texts in AMOUNTS.items() for text in texts], ids=repr
)
def test_every_spelling_that_the_api_server_accepts_is_read_exactly(amount, written):
    assert parse_quantity(written) == amount


NO_QUANTITIES = [
    *["", " ", "$GPU_PER_NODE", "{{workflow.parameters.n}}", "1e", "1e1.5", "1K", "1ki", "1mi", "1GB", "1Gi1", "1E2Ki"],
    *["1.2.3", "1 Gi", "1\n", "--1", "0x10", "1_000", "1,5", "\uff11", "\u0663", "\u00bd", "NaN", "m", ".", "+"],
]
OF_OTHER_TYPES = [(True, "true"), (float("nan"), '"nan"'), (float("inf"), '"inf"'), ([], "a list"), ({"a": 1}, "a map")]


@pytest.mark.parametrize(
    ("written", "shown"), [*((one, f'"{one}"') for one in NO_QUANTITIES), *OF_OTHER_TYPES], ids=repr
)
def test_nonsense_is_refused_in_words(written, shown):
    with pytest.raises(FormatError) as refused:
        parse_quantity(written)
    assert str(refused.value) == f"{shown} is not a quantity"


@each(
    "written",
    {
        "three million digits and a letter": "1" * 3_000_000 + "x",
        "three million digits": "1" * 3_000_000,
        "three million letters": "x" * 3_000_000,
        "three million digits of exponent": "1e" + "9" * 3_000_000,
        "an integer of 30,000 bits": 1 << 30_000,
    },
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
    [(0, "0"), (1, "1"), (1000, "1000"), (1024, "1Ki"), (3 * 2**29, "1536Mi"), (64 * 2**30, "64Gi"), (2**60, "1Ei")],
)
def test_bytes_are_written_with_the_largest_unit_that_divides_them(size, written):
    assert format_bytes(size) == written


@checked
@given(st.integers(0, LARGEST))
def test_what_is_written_reads_the_same(size):
    assert parse_quantity(format_bytes(size)) == size
