"""What a command says of GPUs agrees with the GPUs that its container requests.

The rule reads the arguments of launchers and servers (torchrun, accelerate, deepspeed, vLLM, SGLang, Text Generation
Inference and others), and `CUDA_VISIBLE_DEVICES`. More GPUs than the container has are a violation where the program
itself needs them. Where a script decides what its processes do, there is a warning, and so there is for GPUs that are
certain to be left idle.

Only what is written out counts: flags among the words of the command, variables of `env` that Kubernetes puts in as
`$(NAME)`, and shell scripts without conditions, loops, here-documents and computed values. Of jobs that span nodes only
flags count that say what runs in each pod; a LeaderWorkerSet that is applied is also compared as a whole. Nothing is
said of parts of GPUs, and of containers that may see GPUs which they did not request.

`gpu-policy review -v`, `audit` and `why` also say of a model whose weights alone fit on no GPUs that the pod could get.
Its size and format are those in the name that its publisher gave it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from math import prod
from pathlib import Path
from typing import NamedTuple

from webhook.gpus.gpu_shares import GPU, share_of
from webhook.model.accelerators import DEVICE_CLASSES, Accelerator, Share, Vendor
from webhook.model.claims import TOO_LARGE, Devices, claims_of
from webhook.model.pod import Container, Pod
from webhook.model.programs import LONGEST_LITERAL, MANY, literal
from webhook.model.wording import counted
from webhook.model.workloads.controllers import is_completed_elsewhere, may_be_a_part
from webhook.rules.candidates import candidates
from webhook.rules.device_access import VARIABLE, is_device_file, requesting_devices, requests_devices
from webhook.rules.model_fit import unfit
from webhook.rules.rule import Advice, Example, Facts, Rule, Violation
from webhook.rules.rule_settings import TableSettings
from webhook.yaml_files.shipped_tables import read_rows, read_table

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_INDEXES = re.compile(r"[0-9]{1,3}(,[0-9]{1,3})*", re.ASCII)
_NUMBER = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)


@dataclass(frozen=True)
class Launcher:
    """A row of `data/launchers.yaml`, which says what its fields mean."""

    name: str
    runs: tuple[str, ...]
    sizes: list[list[str]]
    source: str
    images: tuple[re.Pattern[str], ...] = ()
    local: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    drops: str = ""
    last_if: tuple[re.Pattern[str], ...] = ()
    env: str = ""
    per_node: bool = False
    processes: bool = False
    is_certain: bool = False
    is_idle: bool = False
    fewest: int = 1
    open: Mapping[str, list[str]] = field(default_factory=dict)
    together: tuple[str, ...] = ()
    script: bool = False
    switches: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    model: list[list[str]] = field(default_factory=list)
    model_first: bool = False
    model_env: str = ""
    unlike: tuple[str, ...] = ()

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Every spelling of a flag -> the first spelling."""
        flags = (*self.sizes, self.local, self.nodes, (self.drops,), *((one,) for one in self.open))
        return {spelling: spellings[0] for spellings in flags for spelling in spellings if spelling.startswith("-")}


class Size(NamedTuple):
    """How many GPUs or processes arguments say that a container has; `said` is what says so, and `is_of_each` whether
    several pods have as many.
    """

    number: int
    said: Sequence[str]
    is_of_each: bool = False


class Started(NamedTuple):
    """A launcher that a command certainly starts.

    `model`: what it loads, and the quantization for it; empty where that is not certain. `is_alone`: nothing else uses
    the GPUs, and it sees them all.
    """

    row: Launcher
    size: Size | None
    model: tuple[str, str] | tuple[()]
    is_alone: bool


LAUNCHERS = read_rows(Launcher, read_table(Path(__file__).with_name("data") / "launchers.yaml"), "launchers.yaml")
_BY_WORDS = {tuple(words.split()): one for one in LAUNCHERS for words in one.runs}
_IMAGE = "<image>"
"""Stands for the program that an image runs. Whatever it is, what its `--tensor-parallel-size` means is known."""
_PROGRAMS = re.compile("|".join({"tensor.parallel.size", *(re.escape(max(words, key=len)) for words in _BY_WORDS)}))
_SERVED = re.compile("|".join(name.pattern for one in LAUNCHERS for name in one.images))
_EXACT = frozenset({"--ep", "--tp", "--dp", "--pp", "--cp"})
"""Flags that are no short forms of longer ones."""
_TAKES_VALUE = re.compile(
    r"--([a-z-]*-)?(model|name|path|rank|port|host|addr|address|ip|id|url|key|dir|file|len|seed|dtype|token|tokenizer|init)$"
)
"""A flag that is followed by its value."""
_ON_CPU = re.compile(r"\b(gloo|cpu)\b")
"""Words of scripts whose processes need no GPU each."""
_SAYS_SHARES = frozenset({"nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "amd.com/gpu.product-name"})
"""Labels of nodes that have others for shared GPUs beside them."""
_READ = {_VISIBLE, *(one.env for one in LAUNCHERS), *(name for one in LAUNCHERS for name in one.open)}
_LOADING = {
    one.name: replace(
        one,
        sizes=one.model,
        open={**one.open, **{name: [] for name in one.unlike}, **{name: ["1"] for name in one.nodes}},
    )
    for one in LAUNCHERS
    if one.model
}
_TOGETHER = {
    one.name: replace(
        one,
        per_node=True,
        open={name: values for name, values in one.open.items() if name not in one.together}
        | {flags[0]: [] for flags in (one.local, one.nodes) if flags},
    )
    for one in LAUNCHERS
    if one.is_certain
}
"""Launchers whose sizes are those of all pods of a group."""
_OPENS_RAY = re.compile(r"((^|.*[/ ])(multi-node-serving|ray_init)\.sh leader\b|ray start .*--head\b)(?!.*num[-_]gpus)")
"""What makes the leader of a group the head of a Ray cluster of its own, by vLLM's scripts or Ray itself."""


class Settings(TableSettings):
    """Settings of `processes`."""


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation | Advice]:
    """Compare what commands and `CUDA_VISIBLE_DEVICES` say with the GPUs of each container."""
    of_ray: Callable[[], Set[str]] | None = None
    for container in pod.lasting_containers():
        if not (container.gpu_count or container.has_claims):
            continue
        started: list[Started] = []
        if words := _read(container):
            reads_all, count = facts.is_thorough or container.has_claims, container.gpu_count
            found = _started(words, container.env, container.env_from, may_be_a_part(pod))
            started = [one for one in found if reads_all or (one.size is not None and one.size.number != count)]
        if (started or container.sets_env(_VISIBLE)) and not is_completed_elsewhere(pod):
            gpus, of_ray = _own_gpus(container, pod, facts), of_ray or cache(lambda: _of_ray(pod))
            yield from _of_devices(container, gpus) if gpus else ()
            for one in started if gpus and not _joins_ray(started, container, of_ray) else ():
                says_shares = all(not _SAYS_SHARES.isdisjoint(node.labels) for node in candidates(pod, facts))
                yield from _compared(one, gpus, container, says_shares=says_shares)
                if facts.is_thorough and one.model:
                    yield from unfit(one.model, pod, container, gpus, facts, settings.catalogue)


def validate_in_group(
    pod: Pod, group: Sequence[tuple[Pod, int]], settings: Settings, facts: Facts
) -> Iterator[Violation]:
    """Compare what a server needs in all pods together with the GPUs of its group."""
    of_ray, of_group = cache(lambda: _of_ray(pod)), cache(lambda: _gpus_of_group(group, facts))
    for container in pod.lasting_containers() if sum(count for _, count in group) > 1 else ():
        words = _read(container) if container.gpu_count or container.has_claims else ()
        started = _started(words, container.env, container.env_from, spans=True, together=True) if words else ()
        for one in started if not _joins_ray(started, container, of_ray) else ():
            gpus, size = of_group(), one.size
            if size is not None and size.number > gpus > 0:
                s, it = ("", "them") if len(size.said) > 1 else ("s", "it")
                needs = f"{' and '.join(size.said)} need{s} {counted(size.number, 'GPU')}"
                found = f"{needs}, and the {sum(count for _, count in group)} pods of a group have {gpus} together"
                remedy = f"Set {it} for {gpus}, or give the group more GPUs"
                yield Violation(_place(one.row, size, container), found, "", remedy)


def _gpus_of_group(group: Sequence[tuple[Pod, int]], facts: Facts) -> int:
    """The most GPUs that these pods see together; 0 where that is not certain."""
    total = 0
    for pod, count in group:
        for one in pod.lasting_containers():
            own = _own_gpus(one, pod, facts)
            others = any("/" in name or "$" in name for name in {**one.limits, **one.requests})
            if not own and (others or one.has_claims or _may_see_more(one, pod) or pod.fractions or pod.runtime_class):
                return 0
            total += own * count
    return total


def _read(container: Container) -> tuple[str, ...]:
    """What a container runs, if it may start a launcher and is short enough to be read and remembered; else nothing.

    Arguments without a command are those of the program that the image runs.
    """
    words = container.words
    if not container.command:
        runs = _IMAGE if container.args and container.args[0].startswith("-") else ""
        if _SERVED.search(container.image):
            runs = next(one.runs[0] for one in LAUNCHERS for name in one.images if name.search(container.image))
        words = (*runs.split(), *container.args)
    if sum(map(len, words)) > LONGEST_LITERAL or not any(map(_PROGRAMS.search, words)):
        return ()
    variables = (*container.env_from, *(value or "" for _, value in container.env))
    return words if sum(map(len, variables)) <= LONGEST_LITERAL else ()


def _own_gpus(container: Container, pod: Pod, facts: Facts) -> int:
    """The most GPUs that the container sees; 0 if they may be parts of GPUs, or others than it requests."""
    if _may_see_more(container, pod) or container.unknown_classes or container.asks_gpu_attributes or pod.fractions:
        return 0
    shares = [share_of(one.labels) for one in candidates(pod, facts)] if facts.divides_gpus() else []
    are_parts = any(share.fault or share.part(GPU) != 1 for share in shares)
    if are_parts or not all(_is_whole(one.accelerator) for one in container.gpu_requests if one.count):
        return 0
    claims = {one.name: one for one in claims_of(pod.resource_claims)} if container.claims else {}
    numbers = [0]
    for name in {used.name for used in container.claims}:
        requests = facts.claim(claims[name], pod.namespace) if name in claims else None
        found = [[_number_of(one, pod, facts) for one in request] or [None] for request in requests or ((),)]
        if requests == TOO_LARGE or any(None in request for request in found):
            return 0
        numbers += [max(filter(None, request), default=0) for request in found]
    return container.gpu_count + sum(numbers)


def _may_see_more(container: Container, pod: Pod) -> bool:
    return (
        container.is_privileged
        or container.sets_env(VARIABLE)
        or container.may_take_env(VARIABLE)
        or any(map(requests_devices, container.mounts))
        or any(is_device_file(one.host_path) or one.host_path.rstrip("/") == "/dev" for one in pod.volumes)
        or any(requesting_devices(pod.annotations))
    )


def _of_ray(pod: Pod) -> Set[str]:
    """The containers whose words name Ray."""
    return {one.path for one in pod.lasting_containers() if re.search(r"\bray\b", " ".join(one.words))}


def _joins_ray(started: Sequence[Started], container: Container, of_ray: Callable[[], Set[str]]) -> bool:
    """Whether a server may use a cluster that another container of the pod has started."""
    is_open = any("RAY_ADDRESS" in one.row.open for one in started)
    return is_open and len(of_ray()) > (container.path in of_ray())


def _is_whole(gpu: Accelerator | None) -> bool:
    return gpu is not None and gpu.share is Share.WHOLE and gpu.vendor in (Vendor.NVIDIA, Vendor.AMD)


def _number_of(devices: Devices, pod: Pod, facts: Facts) -> int | None:
    """How many whole GPUs these devices of a claim are; None if nobody knows."""
    name = DEVICE_CLASSES + devices.device_class
    gpu = pod.known.of(name) or pod.known.of(facts.extended_resource(devices.device_class))
    if gpu is None:
        return None if pod.known.may_be_gpus(name) else 0
    is_part = devices.is_administrative or devices.by_mps or devices.memory
    return devices.number or None if _is_whole(gpu) and not is_part else None


def _of_devices(container: Container, gpus: int) -> Iterator[Advice]:
    """Advice about a list of GPUs for CUDA with one that the container does not have."""
    value = (dict(container.env).get(_VISIBLE) or "").replace(" ", "")
    is_set_again = any(_VISIBLE in word for word in container.words)
    is_read = _INDEXES.fullmatch(value) and not (is_set_again or container.requests_gpus_of(Vendor.AMD))
    if is_read and max(map(int, value.split(","))) >= gpus:
        numbers = "only GPU 0" if gpus == 1 else f"GPUs 0 to {gpus - 1}"
        found = f"is {value}, and the container has {numbers}; CUDA shows no GPU from the wrong number on"
        yield Advice(f"{container.path}.env[{_VISIBLE}]", found, "Remove the variable: the container sees its own GPUs")


@lru_cache(maxsize=128)
def _started(
    words: tuple[str, ...],
    variables: tuple[tuple[str, str | None], ...],
    prefixes: tuple[str, ...],
    spans: bool,
    together: bool = False,
) -> Sequence[Started]:
    """What a command certainly starts; `prefixes` are those of its envFrom, and `spans`: its job may span nodes.

    `together`: servers alone, with the size of all pods of a group.

    Kept, because the pods of a workload are alike, and reading takes as long as a tenth of all other rules.
    """
    env = dict(variables)
    found = literal(words, env)
    may_be_set = {*found.sets} | {name for name in _READ if name not in env and name.startswith(prefixes)}
    active = [one for one in found.active if not (together and _OPENS_RAY.match(" ".join(one)))]
    sees_all = len(active) == 1 and _VISIBLE not in {*env, *may_be_set}
    started = []
    for row, arguments in [one for program in found.programs for one in _launchers(program, together=together)]:
        is_open = "RAY_ADDRESS" in row.open and len(active) != 1  # what runs before may start Ray
        is_open |= any(
            name in may_be_set or (name in env and env[name] not in allowed) for name, allowed in row.open.items()
        )
        if not is_open and _VISIBLE not in found.sets and row.env not in may_be_set:
            size = _size(row, arguments, env, spans=spans)
            started.append(Started(row, size, () if spans else _model(row, arguments, env), sees_all))
    return [one for one in started if one.size or one.model]


def _model(row: Launcher, arguments: Sequence[str], env: Mapping[str, str | None]) -> tuple[str, str] | tuple[()]:
    """The model that a server loads, and the quantization for it; empty where that is not certain."""
    loading = _LOADING.get(row.name)
    flags = None if loading is None else _flags(loading, arguments)
    if loading is None or flags is None or not env.keys().isdisjoint(row.unlike):
        return ()
    first = arguments[0] if row.model_first and arguments and not arguments[0].startswith("-") else ""
    named, quantization = (flags.get(spellings[0], ("", ""))[1] for spellings in row.model)
    return (model, quantization) if (model := named or first or env.get(row.model_env)) else ()


def _launchers(words: Sequence[str], *, together: bool) -> Iterator[tuple[Launcher, Sequence[str]]]:
    for length in range(1, min(len(words), 4) + 1):
        row = _BY_WORDS.get(tuple(words[:length]))
        if row is not None and (not together or row.name in _TOGETHER):
            yield (_TOGETHER[row.name] if together else row), words[length:]


def _size(row: Launcher, arguments: Sequence[str], env: Mapping[str, str | None], *, spans: bool) -> Size | None:
    """What arguments say; None if they say nothing certain."""
    flags = _flags(row, arguments)
    if flags is None:
        return None
    sizes = [one[0] for one in row.sizes][: -1 if row.drops in flags else None]
    local, by_nodes = (next((one for one in some[:1] if one in flags), "") for some in (row.local, row.nodes))
    if local:
        sizes[-1] = local
    said = [flags[name] for name in sizes if name in flags]
    if not said and row.env:
        said = [(row.env, env.get(row.env) or "")]
    if not said or (local and by_nodes) or (spans and not (row.per_node or local or by_nodes)):
        return None
    words = " ".join(arguments)
    if (row.processes and _ON_CPU.search(words)) or (
        row.last_if and sizes[-1] in flags and row.drops not in flags and not row.last_if[0].search(words)
    ):
        return None
    number, nodes = prod(_number(value) for _, value in said), _number(flags[by_nodes][1]) if by_nodes else 1
    if not number or not nodes or number % nodes:
        return None
    texts = [f"{name} {value}" for name, value in (*said, *([flags[by_nodes]] if nodes > 1 else []))]
    return Size(number // nodes, texts, is_of_each=nodes > 1)


def _number(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


def _flags(row: Launcher, arguments: Sequence[str]) -> dict[str, tuple[str, str]] | None:
    """The first spelling of each flag of the row -> how it is spelled, and its value; None where a word is not certain,
    a flag stands there twice, or is one with which the row says nothing.
    """
    found: dict[str, tuple[str, str]] = {}
    word, rest = "--model", list(reversed(arguments))
    while rest:
        before, word = word, rest.pop()
        spelling, has_value, value = word.partition("=")
        flag = re.sub("(?<!^)_", "-", spelling).partition(".")[0]
        name = row.names.get(flag)
        if not word.startswith("-"):
            if MANY in word or (word.startswith("$") and not _TAKES_VALUE.match(before)):
                return None
            if row.script:
                return found
            continue
        is_exact = name is not None or flag in _EXACT or (row.script and flag.startswith("--"))
        is_short = not is_exact and (flag[:2] in row.names or any(one.startswith(flag) for one in row.names))
        if word == "--" or MANY in spelling or name in found or is_short:
            return None
        if name is not None:
            if not has_value and name != row.drops and rest and not rest[-1].startswith("-"):
                word = value = rest.pop()
            if name in row.open and value not in row.open[name]:
                return None
            found[name] = (spelling, value)
        elif row.script and not has_value and flag not in row.switches:
            if flag not in row.values or not rest:
                return None
            rest.pop()
    return found


def _place(row: Launcher, size: Size, container: Container) -> str:
    """Where the size is said."""
    flag = size.said[0].partition(" ")[0]
    part = "args" if any(flag in word for word in container.args) else "command"
    return f"{container.path}.env[{flag}]" if flag == row.env else f"{container.path}.{part}"


def _compared(started: Started, gpus: int, container: Container, *, says_shares: bool) -> Iterator[Violation | Advice]:
    """What is wrong with a number of GPUs or processes in a container with these GPUs."""
    row, size = started.row, started.size
    is_more = size is not None and size.number > gpus >= row.fewest
    is_less = (
        row.is_idle and started.is_alone and says_shares and size is not None and row.processes < size.number < gpus
    )
    if size is None or not (is_more or (is_less and not container.claims)):
        return
    where = _place(row, size, container)
    wanted, s = counted(size.number, "GPU"), "" if len(size.said) > 1 else "s"
    does = f"need{s} {wanted}" if row.is_certain else f"{'is' if s else 'are'} for {wanted}"
    does = f"start{s} {size.number} processes" if row.processes else does if is_more else f"use{s} {wanted}"
    found = f"{' and '.join(size.said)} of {row.name} {does}{' in each pod' if size.is_of_each else ''}"
    found += f", and the container has {counted(gpus, 'GPU') if row.processes else gpus}"
    remedy = f"{f'Set it to {gpus}' if s else 'Change them'}, or request {wanted}"
    if is_less:
        why = "with a GPU for each process, " if row.processes else ""
        left = f"{why}{gpus - size.number} {'is' if gpus - size.number == 1 else 'are'} left idle"
        yield Advice(where, f"{found}; {left}", remedy if row.processes else f"Request {wanted}")
    elif row.is_certain:
        yield Violation(where, found, "", remedy)
    else:
        yield Advice(where, f"{found}; on GPUs each process needs its own" if row.processes else found, remedy)


_SERVER = """\
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.11.0
      args: [--model, meta-llama/Llama-3.3-70B-Instruct, --tensor-parallel-size, "8"]
      resources: {limits: {nvidia.com/gpu: 4, memory: 64Gi}}
"""

RULE = Rule(
    key="processes",
    promise="What a command says of GPUs agrees with the GPUs that its container requests.",
    problem="A server that needs 8 GPUs ends in a container with 4, after its node has pulled 20 GB; one that uses 4 "
    "of 8 leaves the others idle.",
    example=Example(_SERVER),
    settings=Settings,
    validate=validate,
    validate_in_group=validate_in_group,
)
