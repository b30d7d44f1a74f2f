"""Requirements are evaluated as libnvidia-container evaluates them."""

from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each
from tests.strategies import checked
from webhook.cuda.gate import Bounds, KnownSystem, outcomes
from webhook.model.versions import Version, parse_version

HOLDS, FAILS, OPEN = frozenset({True}), frozenset({False}), frozenset({True, False})


def seen(cuda="12.4", driver="550.54.15", arch="7.5", brand="tesla"):
    exact = [None if text is None else Bounds.of(parse_version(text)) for text in (cuda, driver, arch)]
    return KnownSystem(*exact, brand)


T4 = seen()


@each(
    "requirement, outcome",
    {
        "nothing": ("", HOLDS),
        "equal": ("cuda>=12.4", HOLDS),
        "newer": ("cuda>=12.5", FAILS),
        "a space behind": ("cuda>12.3 ", HOLDS),
        "strictly newer": ("cuda>12.4", FAILS),
        "at most": ("cuda<=12.4", HOLDS),
        "older": ("cuda<12.4", FAILS),
        "missing numbers are 0": ("cuda=12.4.0", HOLDS),
        "leading zeros": ("cuda=012.04", HOLDS),
        "unequal": ("cuda!=12.4", FAILS),
        "a lone exclamation mark is unequal": ("cuda!12.4", FAILS),
        "dots in excess": ("cuda=12..4.", HOLDS),
        "names in capitals": ("CUDA>=12.0", HOLDS),
        "brands in capitals": ("brand=TESLA", HOLDS),
        "another brand": ("brand!=tesla", FAILS),
        "the whole driver": ("driver!=550.54.14", HOLDS),
        "numbers, not texts": ("driver<536", FAILS),
        "more numbers": ("driver>=550.54.15.1", FAILS),
        "a comma is and": ("cuda>=12.0,arch>=8.0", FAILS),
        "a space is or": ("cuda>=12.0 arch>=8.0", HOLDS),
        "a space is or, the other way round": ("arch>=8.0 cuda>=12.0", HOLDS),
        "terms of several factors": ("arch>=8.0,cuda>=12.0 brand=tesla,driver>=550,driver<551", HOLDS),
        "two spaces": ("cuda>=99  cuda>=12.0", HOLDS),
        "commas in excess": (",cuda>=12.0,,brand=tesla,", HOLDS),
        "a lone comma ends it": ("cuda>=99 , cuda>=12.0", FAILS),
        "a lone comma before all": (", cuda>=99", HOLDS),
        "an unknown name fails the whole": ("foo=bar cuda>=11.0", FAILS),
        "an unknown name behind what holds is not read": ("cuda>=11.0 foo=bar", HOLDS),
        "an unknown name behind what does not is not read": ("cuda>=99,foo=bar cuda>=11.0", HOLDS),
        "an unknown name within a term": ("cuda>=11.0,foo=bar cuda>=11.0", FAILS),
        "no operator": ("cuda==12.4", FAILS),
        "an operator turned round": ("cuda=>12.4", FAILS),
        "neither operator nor value": ("cuda", FAILS),
        "no value": ("cuda>=", FAILS),
        "no name": (">=12.4", FAILS),
        "no version": ("cuda>=12.x", FAILS),
        "a version that begins with a dot": ("cuda>=.4", FAILS),
        "two operators": ("cuda>=12<13", FAILS),
        "a number beyond 64 bits": ("cuda!=99999999999999999999", FAILS),
        "brands have no order": ("brand>=tesla", FAILS),
        "a tab is no space": ("cuda>=12.0\tarch>=8.0", FAILS),
        "a false factor that can be spelled out": (f"brand={'x' * 119} cuda>=12.0", HOLDS),
        "a false factor that is too long": (f"brand={'x' * 120} cuda>=12.0", FAILS),
        "a true one may be of any length": (f"brand!={'x' * 300}", HOLDS),
    },
)
def test_a_requirement_holds_on_a_known_node_or_does_not(requirement, outcome):
    assert outcomes(requirement, T4) == outcome


@each(
    "requirement, node, outcome",
    {
        "the CUDA matters": ("cuda>=12.4", seen(cuda=None), OPEN),
        "the CUDA is not asked for": ("driver>=500 cuda>=12.4", seen(cuda=None), HOLDS),
        "either term is enough": ("cuda>=12.4 driver>=500", seen(cuda=None), HOLDS),
        "the other factor fails": ("cuda>=12.4,driver>=600", seen(cuda=None), FAILS),
        "what cannot be read may not be reached": ("cuda>=12.4 foo=bar", seen(cuda=None), OPEN),
        "fails whether it is reached or not": ("cuda>=12.4,foo=bar", seen(cuda=None), FAILS),
        "the brand matters": ("brand=tesla,driver>=500", seen(brand=None), OPEN),
        "brands have no order": ("brand<tesla", seen(brand=None), FAILS),
        "no version": ("arch>=x", seen(arch=None), FAILS),
        "a lone comma ends it": ("cuda>=12.4 , cuda>=1", seen(cuda=None), OPEN),
    },
)
def test_unknown_properties_leave_the_result_open_if_they_matter(requirement, node, outcome):
    assert outcomes(requirement, node) == outcome


@each(
    "operator, value, outcome",
    {
        "at least the branch": (">=", "535", HOLDS),
        "before the next branch": ("<", "536", HOLDS),
        "within the branch": (">=", "535.54", OPEN),
        "behind the first of the branch": (">", "535", OPEN),
        "behind the branch before": (">", "534.99", HOLDS),
        "the first of the branch": ("<=", "535", OPEN),
        "the next branch": ("<=", "536", HOLDS),
        "one of the branch": ("=", "535.54", OPEN),
        "one of another branch": ("=", "550.54", FAILS),
        "none of another branch": ("!=", "550.54", HOLDS),
        "before the branch": ("<", "535", FAILS),
        "at least the next branch": (">=", "550", FAILS),
    },
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
