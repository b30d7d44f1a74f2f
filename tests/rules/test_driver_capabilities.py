"""NVIDIA containers say which parts of the driver they need, and never lose what they or their images say."""

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.golden import each
from tests.rules.rule_case import RuleCase, RulePods, any_of
from tests.rules.samples import Cluster, advice, asked, container, is_left_alone, mutated, pod, settings_of
from webhook.model.image import ImageConfig, ImageInfo
from webhook.rules.driver_capabilities import RULE

NAME = "NVIDIA_DRIVER_CAPABILITIES"
OURS = [{"name": NAME, "value": "compute,utility"}]
IMAGE = "registry.example.com/train:1"
FROM_CONFIG = [{"configMapRef": {"name": "settings"}}]


def env_of(raw, values=None, facts=None):
    return mutated(RULE, raw, values, facts or Cluster())["spec"]["containers"][0].get("env")


def known(**env):
    """Facts that know the image of the samples, and these variables in it."""
    return Cluster(images={IMAGE: ImageInfo(ImageConfig("sha256:" + "0" * 64, env))})


@pytest.mark.parametrize("env", [{}, {"env": None}, {"env": []}], ids=["absent", "null", "empty"])
@pytest.mark.parametrize(
    "resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.10gb.shared"]
)
def test_a_container_that_asks_for_an_nvidia_gpu_gets_compute_and_utility(env, resource):
    assert env_of(pod(container(gpus=1, resource=resource, **env))) == OURS


def test_the_capabilities_are_a_setting_and_keep_their_order():
    capabilities = ["video", "compute", "utility", "graphics", "display", "ngx", "compat32"]
    (entry,) = env_of(pod(container(gpus=1)), {"capabilities": capabilities})
    assert entry == {"name": NAME, "value": "video,compute,utility,graphics,display,ngx,compat32"}
    assert env_of(pod(container(gpus=1)), {"capabilities": ["all"]}) == [{"name": NAME, "value": "all"}]


@each(
    "own",
    {
        "a value": {"value": "all"},
        "an empty value": {"value": ""},
        "no value": {},
        "null": {"value": None},
        "valueFrom": {"valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}},
    },
)
def test_what_the_container_sets_in_any_form_is_never_overridden(own):
    raw = pod(container(gpus=1, env=[{"name": NAME, **own}]))
    assert is_left_alone(RULE, raw)
    assert advice(RULE, raw) == []


@each(
    "raw",
    {
        "no GPU": pod(container()),
        "a request for none": pod(container(gpus=0)),
        "AMD": pod(container(gpus=1, resource="amd.com/gpu")),
        "Intel": pod(container(gpus=1, resource="gpu.intel.com/xe")),
        "a GPU passed through": pod(container(gpus=1, resource="nvidia.com/pgpu")),
        "one passed through beside another": pod(container("a", 1), container("b", 1, "nvidia.com/GA102GL_A10")),
        "an attribute of a GPU": pod(container(resources={"limits": {"nvidia.com/gpumem": 10}})),
        "an ephemeral container": pod(container(), ephemeralContainers=[container("debug", 1)]),
    },
)
def test_other_containers_are_left_alone(raw):
    assert asked(RULE, raw, {}) == ([], [])


def test_init_and_app_containers_with_gpus_get_it_and_the_others_beside_them_do_not():
    raw = pod(
        container("proxy"),
        container("amd", 1, "amd.com/gpu"),
        container("trainer", 1),
        initContainers=[container("check", 1), container("copy")],
        ephemeralContainers=[container("debug", 1)],
    )
    spec = mutated(RULE, raw)["spec"]
    names = ("initContainers", "containers", "ephemeralContainers")
    assert [c["name"] for name in names for c in spec[name] if c.get("env") == OURS] == ["check", "trainer"]


@pytest.mark.parametrize("value", ["compute,utility,graphics", "all", ""], ids=repr)
def test_what_the_image_is_known_to_say_stays(value):
    raw = pod(container(gpus=1, envFrom=FROM_CONFIG))
    assert asked(RULE, raw, {"capabilities": ["all"]}, known(**{NAME: value})) == ([], [])


@each(
    "facts",
    {
        "not looked up": Cluster(),
        "an image that says nothing": known(),
        "an image that says something else": known(CUDA_VERSION="12.4.1"),
        "not looked up yet": Cluster(images={IMAGE: ImageInfo(is_pending=True)}),
        "a look-up that failed": Cluster(images={IMAGE: ImageInfo(problem="404")}),
    },
)
def test_an_image_of_which_nothing_like_it_is_known_gets_it(facts):
    assert env_of(pod(container(gpus=1)), facts=facts) == OURS


def test_only_images_whose_containers_would_get_it_are_looked_up():
    looked_up = []

    class Asked(Cluster):
        def image(self, reference):
            looked_up.append(reference)
            return super().image(reference)

    raw = pod(
        {**container("a"), "image": "no-gpu"},
        {**container("b", 1, env=OURS), "image": "says-it-itself"},
        {**container("c", 1), "image": ""},
        {**container("d", 1), "image": "wanted"},
    )
    assert len(asked(RULE, raw, {}, Asked())[0]) == 2
    assert looked_up == ["wanted"]


def test_a_container_with_env_from_is_left_alone_with_a_word(says):
    raw = pod(container(gpus=1, envFrom=FROM_CONFIG))
    assert is_left_alone(RULE, raw)
    says(advice(RULE, raw))
    assert env_of(raw, {"alsoWithEnvFrom": True}) == OURS
    assert advice(RULE, raw, {"alsoWithEnvFrom": True}) == []


@pytest.mark.parametrize(("prefix", "is_ours"), [("DB_", True), ("NVIDIA_", False), ("", False), (None, False)])
def test_a_prefix_says_which_variables_may_come_from_elsewhere(prefix, is_ours):
    raw = pod(container(gpus=1, envFrom=[{**FROM_CONFIG[0], "prefix": prefix}]))
    assert is_left_alone(RULE, raw) is not is_ours
    assert bool(advice(RULE, raw)) is not is_ours


@each(
    "capabilities, place, fault",
    {
        "none": ([], ("capabilities",), "names no capability; write at least one, or disable the rule"),
        "no capability": (["compute", "cuda"], ("capabilities", 1), "Input should be 'compute', "),
        "one that starts nothing": (["compute", "none"], ("capabilities", 1), "Input should be 'comp"),
        "capitals": (["Compute"], ("capabilities", 0), "Input should be 'compute', "),
        "one twice": (["compute", "utility", "compute"], ("capabilities",), "compute stands in it twice; remove one"),
        "all and another": (
            ["all", "compute"],
            ("capabilities",),
            "all includes the others; write [all], or the others without it",
        ),
        "a text": ("compute,utility", ("capabilities",), "Input should be a valid array"),
    },
)
def test_a_value_with_which_the_toolkit_would_start_no_container_is_an_error(capabilities, place, fault):
    with pytest.raises(ValidationError) as caught:
        settings_of(RULE, {"capabilities": capabilities})
    (error,) = caught.value.errors()
    assert place == error["loc"]
    assert fault in error["msg"]


_CAPABILITIES = st.sampled_from(("compute", "utility", "video", "graphics"))

CASE = RuleCase(
    pods=RulePods,
    values=any_of(capabilities=st.lists(_CAPABILITIES, min_size=1, unique=True), alsoWithEnvFrom=st.booleans()),
    enforced={},
    injecting={},
    fuzzed={"capabilities": ["compute", "utility"], "alsoWithEnvFrom": False},
    completes_every_gpu_pod=True,
)
