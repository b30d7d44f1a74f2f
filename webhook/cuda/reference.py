"""Writes docs/cuda.md from the tables, so that the document cannot say anything else."""

from collections.abc import Iterable, Iterator, Sequence

from webhook.cuda.drivers import BRANCHES, Branch
from webhook.cuda.forward_compat import LISTINGS, Listing
from webhook.cuda.gpus import GENERATIONS, first_cuda, generation_of
from webhook.cuda.need import Compat, Kind, Need
from webhook.cuda.ngc import RELEASES
from webhook.cuda.offer import Offer
from webhook.cuda.toolkits import MINORS, TOOLKITS, native_driver
from webhook.cuda.verdict import Verdict, judge
from webhook.model.versions import Version, parse_version

_FIRST_SHOWN = parse_version("10.0")
_LAST_OF_BRANCH = 999
"""Stands for the newest driver of a branch."""

_HEAD = """\
# CUDA against driver

Before a GPU pod is created, the rule `cudaDriver` compares what its images need with what the nodes offer that it could
land on. Its settings are in [rules.md](rules.md#cudadriver), its decisions in
[decision 13](decisions/0013-cuda-against-driver.md). This page is generated from the tables that it decides with:
`gpu-policy cuda docs`.

## How the verdict is reached

**1. What the image needs**, by the strongest evidence there is. Every answer names its source.

1. `images:` in the policy: a glob of the image, and a CUDA version or `none`. The platform's word.
2. The container's `env`: `CUDA_VERSION`, else the lower bound in `NVIDIA_REQUIRE_CUDA`. The pod's word.
3. The annotation `cuda.gpupolicy.dev/<container>`: a CUDA version or `none`. The pod's word.
4. The image's configuration in its registry, where look-ups are on: `CUDA_VERSION`, the month of an NGC release, else
   `NVIDIA_REQUIRE_CUDA`. The image's word.
5. Its name and tag: nvidia/cuda and mirrors of it, NGC months, pytorch, tensorflow, vllm, sglang, ray, rapids, images
   of the clouds, `-cu124-` and the like. Convention.
6. Nothing: unknown.

NGC images carry `NVIDIA_REQUIRE_CUDA=cuda>=9.0` and the label `com.nvidia.cuda.version=9.0` whatever they need; both
are passed over. Images for the CPU need nothing; images for ROCm, XPU, Neuron or Gaudi run on no NVIDIA GPU.

**2. Where the pod could land**: every node that its nodeSelector, required node affinity, tolerations, RuntimeClass and
GPU resources allow once it is completed, and the `nodePools` of the policy, which may scale from zero. Cordons,
`node.kubernetes.io/*` taints and free capacity do not count: they pass. Nodes that offer the same are looked at once.

**3. What becomes of it there**, for each kind of node; the first that applies:

1. The image does not exist for the node's processor: incompatible.
2. The GPU is older than everything this CUDA has code for, or than the framework supports: incompatible.
3. The GPU is newer than everything this CUDA has code for: incompatible.
4. The driver does not drive this GPU (too old for it, or after NVIDIA dropped it): incompatible.
5. The driver is the one that came with this CUDA, or a newer one: compatible.
6. The driver is older, of the same major version of CUDA (11 and up): compatible by minor-version compatibility.
7. The image brings `cuda-compat`, the GPU is a data-centre GPU, and the driver's branch is one that the package is made
   for: forward-compat-only.
8. Otherwise: incompatible.

What is not known, not verified or contradictory where it would decide gives `unknown`.

**4. The decision.** All candidates fit: nothing happens. Some do not: the pod gets a required node affinity that
excludes them by the coarsest label that no other candidate shares, and is told where none does. None fits: it is
refused, with the nearest remedies. Nothing is known: as `unknown:` says.

The container toolkit's own check of `NVIDIA_REQUIRE_*` is told apart (`legacyGate`): only the legacy hook makes it, and
since toolkit 1.18 it is no longer the default.

## What it cannot know

- CUDA that is installed by `pip` or `conda` into an image without `CUDA_VERSION`: a plain `python:3.12` with PyTorch
  wheels looks like an image for the CPU. Say what it needs under `images:` in the policy, or in the annotation.
- Which code is in a binary. An image whose CUDA knows the GPU may still have been built without code for it; one whose
  CUDA is older may bring PTX, which the driver compiles. It is taken to bring none.
- PTX and the newest functions under minor-version compatibility: an older driver of the same major version does not
  compile the PTX of a newer toolkit.
- Whether somebody removed `cuda-compat` from an image, or which mode a node's container toolkit is in.
- Several kinds of GPU in one node: GPU Feature Discovery labels one of them.
- What labels do not say: they lag a driver upgrade by up to a minute, and a node without them is unknown, never unfit.

## Asking it yourself

```console
$ gpu-policy cuda check nvidia/cuda:13.0.0-base-ubuntu24.04 --driver 535.183.01 --product Tesla-T4
$ gpu-policy cuda check registry.example.com/team/app:7 --driver 535.183.01 --resolve --registries registries.yaml
$ gpu-policy cuda nodes --kubeconfig ~/.kube/config
```
"""


def cuda_reference() -> str:
    """The text of docs/cuda.md."""
    return "\n".join((_HEAD, *_matrix(), *_drivers(), *_gpus(), *_compat(), *_releases())) + "\n"


def _matrix() -> Iterator[str]:
    """CUDA against driver branch, as the verdict itself sees it."""
    branches = [branch for branch in BRANCHES if branch.cuda.at_least(_FIRST_SHOWN)]
    yield (
        "## CUDA and driver branches\n\n"
        "For the newest driver of each branch and a data-centre GPU that CUDA and driver know. **N** native, **M** by\n"
        "minor-version compatibility, **F** by forward compatibility only (the image brings `cuda-compat`), **?** not\n"
        "known, empty: does not run.\n"
    )
    yield from _table(
        ["CUDA", *(str(branch.number) for branch in branches)],
        ([str(cuda), *(_cell(cuda, branch) for branch in branches)] for cuda in MINORS if cuda.at_least(_FIRST_SHOWN)),
    )


def _cell(cuda: Version, branch: Branch) -> str:
    driver = Version((branch.number, _LAST_OF_BRANCH))
    offer = Offer(driver=driver, compute=_compute(cuda, branch), arch="amd64", is_data_center=True)
    verdict = judge(Need(Kind.CUDA, cuda, "table", compat=Compat.YES), offer).verdict
    if verdict is Verdict.COMPATIBLE:
        native = native_driver(cuda)
        return "N" if native is not None and driver.at_least(native) else "M"
    return {Verdict.FORWARD_COMPAT_ONLY: "F", Verdict.UNKNOWN: "?"}.get(verdict, "")


def _compute(cuda: Version, branch: Branch) -> Version | None:
    """A compute capability that both know, so that only the driver decides."""
    for generation in GENERATIONS:
        known = first_cuda(generation.compute)
        least = generation.first_branch or 0
        most = generation.last_branch or branch.number
        need = Need(Kind.CUDA, cuda, "table")
        if known is None or not cuda.at_least(known.possible) or not least <= branch.number <= most:
            continue
        if judge(need, Offer(compute=generation.compute, is_data_center=True)).verdict is Verdict.UNKNOWN:
            return generation.compute
    return None


def _drivers() -> Iterator[str]:
    yield "\n## Drivers by toolkit\n\nThe driver each CUDA came with on Linux. What is marked is unverified.\n"
    yield from _table(
        ["CUDA", "Driver", "Source"],
        (
            [str(row.cuda), str(row.driver or f"branch {row.branch}"), row.source if row.is_verified else "unverified"]
            for row in TOOLKITS
        ),
    )
    yield "\n## Driver branches\n\nThe newest CUDA that each reports.\n"
    yield from _table(
        ["Branch", "CUDA", "Support", "Ends", "Source"],
        ([str(row.number), str(row.cuda), row.support, row.end, row.source or "unverified"] for row in BRANCHES),
    )


def _gpus() -> Iterator[str]:
    yield (
        "\n## GPUs\n\nCode for X.Y runs on X.Z where Z is not less, so the first CUDA of the major version counts.\n"
    )
    yield from _table(
        ["Compute capability", "Family", "First CUDA", "Driver branches"],
        ([str(row.compute), row.family, _first(row.compute), _range(row.compute)] for row in GENERATIONS),
    )


def _first(compute: Version) -> str:
    found = first_cuda(compute)
    if found is None:
        return ""
    return (
        str(found.possible) if found.sure == found.possible else f"{found.possible} (sure: {found.sure or 'unknown'})"
    )


def _range(compute: Version) -> str:
    row = generation_of(compute)
    if row is None:
        return ""
    first = f"from {row.first_branch}" if row.first_branch else ""
    last = f"to {row.last_branch}" if row.last_branch else ""
    return " ".join(filter(None, (first, last, "" if row.is_first_verified else "(unverified)")))


def _compat() -> Iterator[str]:
    yield (
        "\n## Forward compatibility\n\n"
        "The branches that `cuda-compat` of each CUDA is made for, by any build of nvidia/cuda that was seen.\n"
    )
    yield from _table(["CUDA", "Branches", "Note"], ([str(row.cuda), *_listed(row)] for row in LISTINGS))


def _listed(row: Listing) -> tuple[str, str]:
    branches = sorted({branch for build in row.builds for branch in build.branches})
    notes = ["sources disagree"] * (not row.is_verified) + ["not on arm64"] * (not row.is_on_arm)
    return ", ".join(map(str, branches)), ", ".join(notes)


def _releases() -> Iterator[str]:
    yield "\n## NGC releases\n\nThe CUDA of pytorch, tensorflow, tritonserver, jax and mxnet of a month.\n"
    yield from _table(
        ["Month", "CUDA", "Least compute capability", "Source"],
        ([row.month, str(row.cuda), _floor(row.floor_text, row.floor_source), row.source] for row in RELEASES),
    )


def _floor(text: str, source: str) -> str:
    return f"{text} ({source})" if source == "unverified" else text


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
