"""Requirements are evaluated as libnvidia-container evaluates them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import checked
from webhook.cuda.gate import Bounds, KnownSystem, outcomes
from webhook.model.versions import Version, parse_version

HOLDS, FAILS, OPEN = frozenset({True}), frozenset({False}), frozenset({True, False})


def seen(cuda="12.4", driver="550.54.15", arch="7.5", brand="tesla"):
    exact = [None if text is None else Bounds.of(parse_version(text)) for text in (cuda, driver, arch)]
    return KnownSystem(*exact, brand)


T4 = seen()


@pytest.mark.parametrize(
    ("requirement", "outcome"),
    [
        pytest.param("", HOLDS, id="nothing"),
        pytest.param("cuda>=12.4", HOLDS, id="equal"),
        pytest.param("cuda>=12.5", FAILS, id="newer"),
        pytest.param("cuda>12.3 ", HOLDS, id="a space behind"),
        pytest.param("cuda>12.4", FAILS, id="strictly newer"),
        pytest.param("cuda<=12.4", HOLDS, id="at most"),
        pytest.param("cuda<12.4", FAILS, id="older"),
        pytest.param("cuda=12.4.0", HOLDS, id="missing numbers are 0"),
        pytest.param("cuda=012.04", HOLDS, id="leading zeros"),
        pytest.param("cuda!=12.4", FAILS, id="unequal"),
        pytest.param("cuda!12.4", FAILS, id="a lone exclamation mark is unequal"),
        pytest.param("cuda=12..4.", HOLDS, id="dots in excess"),
        pytest.param("CUDA>=12.0", HOLDS, id="names in capitals"),
        pytest.param("brand=TESLA", HOLDS, id="brands in capitals"),
        pytest.param("brand!=tesla", FAILS, id="another brand"),
        pytest.param("driver!=550.54.14", HOLDS, id="the whole driver"),
        pytest.param("driver<536", FAILS, id="numbers, not texts"),
        pytest.param("driver>=550.54.15.1", FAILS, id="more numbers"),
        pytest.param("cuda>=12.0,arch>=8.0", FAILS, id="a comma is and"),
        pytest.param("cuda>=12.0 arch>=8.0", HOLDS, id="a space is or"),
        pytest.param("arch>=8.0 cuda>=12.0", HOLDS, id="a space is or, the other way round"),
        pytest.param("arch>=8.0,cuda>=12.0 brand=tesla,driver>=550,driver<551", HOLDS, id="terms of several factors"),
        pytest.param("cuda>=99  cuda>=12.0", HOLDS, id="two spaces"),
        pytest.param(",cuda>=12.0,,brand=tesla,", HOLDS, id="commas in excess"),
        pytest.param("cuda>=99 , cuda>=12.0", FAILS, id="a lone comma ends it"),
        pytest.param(", cuda>=99", HOLDS, id="a lone comma before all"),
        pytest.param("foo=bar cuda>=11.0", FAILS, id="an unknown name fails the whole"),
        pytest.param("cuda>=11.0 foo=bar", HOLDS, id="an unknown name behind what holds is not read"),
        pytest.param("cuda>=99,foo=bar cuda>=11.0", HOLDS, id="an unknown name behind what does not is not read"),
        pytest.param("cuda>=11.0,foo=bar cuda>=11.0", FAILS, id="an unknown name within a term"),
        pytest.param("cuda==12.4", FAILS, id="no operator"),
        pytest.param("cuda=>12.4", FAILS, id="an operator turned round"),
        pytest.param("cuda", FAILS, id="neither operator nor value"),
        pytest.param("cuda>=", FAILS, id="no value"),
        pytest.param(">=12.4", FAILS, id="no name"),
        pytest.param("cuda>=12.x", FAILS, id="no version"),
        pytest.param("cuda>=.4", FAILS, id="a version that begins with a dot"),
        pytest.param("cuda>=12<13", FAILS, id="two operators"),
        pytest.param("cuda!=99999999999999999999", FAILS, id="a number beyond 64 bits"),
        pytest.param("brand>=tesla", FAILS, id="brands have no order"),
        pytest.param("cuda>=12.0\tarch>=8.0", FAILS, id="a tab is no space"),
        pytest.param(f"brand={'x' * 119} cuda>=12.0", HOLDS, id="a false factor that can be spelled out"),
        pytest.param(f"brand={'x' * 120} cuda>=12.0", FAILS, id="a false factor that is too long"),
        pytest.param(f"brand!={'x' * 300}", HOLDS, id="a true one may be of any length"),
    ],
)
def test_a_requirement_holds_on_a_known_node_or_does_not(requirement, outcome):
    assert outcomes(requirement, T4) == outcome


@pytest.mark.parametrize(
    ("requirement", "node", "outcome"),
    [
        pytest.param("cuda>=12.4", seen(cuda=None), OPEN, id="the CUDA matters"),
        pytest.param("driver>=500 cuda>=12.4", seen(cuda=None), HOLDS, id="the CUDA is not asked for"),
        pytest.param("cuda>=12.4 driver>=500", seen(cuda=None), HOLDS, id="either term is enough"),
        pytest.param("cuda>=12.4,driver>=600", seen(cuda=None), FAILS, id="the other factor fails"),
        pytest.param("cuda>=12.4 foo=bar", seen(cuda=None), OPEN, id="what cannot be read may not be reached"),
        pytest.param("cuda>=12.4,foo=bar", seen(cuda=None), FAILS, id="fails whether it is reached or not"),
        pytest.param("brand=tesla,driver>=500", seen(brand=None), OPEN, id="the brand matters"),
        pytest.param("brand<tesla", seen(brand=None), FAILS, id="brands have no order"),
        pytest.param("arch>=x", seen(arch=None), FAILS, id="no version"),
        pytest.param("cuda>=12.4 , cuda>=1", seen(cuda=None), OPEN, id="a lone comma ends it"),
    ],
)
def test_unknown_properties_leave_the_result_open_if_they_matter(requirement, node, outcome):
    assert outcomes(requirement, node) == outcome


@pytest.mark.parametrize(
    ("operator", "value", "outcome"),
    [
        pytest.param(">=", "535", HOLDS, id="at least the branch"),
        pytest.param("<", "536", HOLDS, id="before the next branch"),
        pytest.param(">=", "535.54", OPEN, id="within the branch"),
        pytest.param(">", "535", OPEN, id="behind the first of the branch"),
        pytest.param(">", "534.99", HOLDS, id="behind the branch before"),
        pytest.param("<=", "535", OPEN, id="the first of the branch"),
        pytest.param("<=", "536", HOLDS, id="the next branch"),
        pytest.param("=", "535.54", OPEN, id="one of the branch"),
        pytest.param("=", "550.54", FAILS, id="one of another branch"),
        pytest.param("!=", "550.54", HOLDS, id="none of another branch"),
        pytest.param("<", "535", FAILS, id="before the branch"),
        pytest.param(">=", "550", FAILS, id="at least the next branch"),
    ],
)
def test_a_partial_version_answers_for_all_versions_that_begin_with_it(operator, value, outcome):
    node = KnownSystem(driver=Bounds.of(parse_version("535"), is_exact=False))
    assert outcomes(f"driver{operator}{value}", node) == outcome


VERSIONS = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple)
FACTORS = st.one_of(
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["cuda", "driver", "arch"]),
        st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
        VERSIONS.map(lambda numbers: ".".join(map(str, numbers))),
    ),
    st.builds("brand{}{}".format, st.sampled_from(["=", "!="]), st.sampled_from(["a", "b"])),
    st.sampled_from(["foo=1", "cuda", "brand>a", ""]),
)
REQUIREMENTS = st.lists(st.lists(FACTORS, max_size=3).map(",".join), max_size=4).map(" ".join)


@checked
@given(REQUIREMENTS, st.tuples(VERSIONS, VERSIONS, VERSIONS, st.sampled_from("ab")), st.tuples(*[st.booleans()] * 4))
def test_results_for_a_partly_known_node_hold_once_all_is_known(requirement, facts, known):
    whole = [Bounds.of(Version(numbers)) for numbers in facts[:3]] + [facts[3]]
    part = [fact if is_known else None for fact, is_known in zip(whole, known, strict=True)]
    found = outcomes(requirement, KnownSystem(*whole))
    assert len(found) == 1
    assert found <= outcomes(requirement, KnownSystem(*part))


@checked
@given(REQUIREMENTS, VERSIONS, st.lists(st.integers(0, 3), max_size=2).map(tuple))
def test_results_for_a_partial_driver_version_hold_for_every_driver(requirement, beginning, more):
    part = KnownSystem(driver=Bounds.of(Version(beginning), is_exact=False))
    assert outcomes(requirement, KnownSystem(driver=Bounds.of(Version(beginning + more)))) <= outcomes(
        requirement, part
    )


@checked
@given(st.text(alphabet="cudabrn=!<>.,0129 \n\té", max_size=60))
def test_any_text_has_a_result(requirement):
    assert outcomes(requirement, T4) in (HOLDS, FAILS)
    assert outcomes(requirement, KnownSystem())
