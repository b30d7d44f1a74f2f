"""What docs/cuda.md says before its tables: how a verdict is reached, what to do with it, what it cannot know."""

GUIDE = """\
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
5. Its name and tag: nvidia/cuda and mirrors of it, NGC months, the releases of
   [products](#products-with-versions-of-their-own) of NVIDIA, Kubeflow and Ray and of servers of models, pytorch,
   tensorflow, rapids, images of the clouds, `-cu124-` and the like. Convention.
6. Nothing: unknown.

NGC images carry `NVIDIA_REQUIRE_CUDA=cuda>=9.0` and the label `com.nvidia.cuda.version=9.0` whatever they need; both
are passed over. Images for the CPU need nothing; images for ROCm, XPU, Neuron or Gaudi run on no NVIDIA GPU. Device
plugins, exporters and the like use the driver of the node, whatever CUDA their base speaks of, and need nothing either.

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

What is not known or not verified where it would decide gives `unknown`, and so do sources that contradict each other.
Of labels of one node that do, the full version of the driver counts; `gpu-policy cuda nodes` names them.

**4. The decision.** All candidates fit: nothing happens. Some do not: the pod gets a required node affinity that
excludes them by the coarsest label that no other candidate shares, and is told where none does. None fits: it is
refused, with the nearest remedies. No candidate is known, or none is known to fit: as `unknown:` says.

The container toolkit's own check of `NVIDIA_REQUIRE_*` is told apart (`legacyGate`): only the legacy hook makes it, and
since toolkit 1.18 it is no longer the default. Pods with more than four GPU containers are not told of it.

## What to do

**A pod is refused.** The message says what the image needs and how that is known, which nodes the pod could land on,
what is wrong with each kind of them, and what would help: an image of the same family, a driver, another GPU.
`gpu-policy cuda check IMAGE --kubeconfig FILE` shows all kinds of nodes of the cluster, also those that a nodeSelector,
an affinity or a taint keeps the pod away from. Where the need is wrong, correct it by stronger evidence. With
`cudaDriver: {mode: warn}` in a namespace's file its pods pass, with a warning.

**It is not known what an image needs.** Such pods pass unless `unknown:` says otherwise: most images of a team's own
say nothing in their name. Any of these tells:

- `registries.enabled=true` in the chart has images looked up in the background. Which registries, and with which
  logins, is in [operations.md](operations.md#images-and-their-registries).
- `images:` in a policy, for what you know yourself. A glob is compared with the image as it is written, and with its
  name with and without registry and tag; the longest that matches counts:

  ```yaml
  spec:
    rules:
      cudaDriver:
        mode: enforce
        images:
          "registry.example.com/vision/*": "12.4" # a version, in quotes
          "registry.example.com/tools/*": none    # no CUDA in it
  ```

- The annotation `cuda.gpupolicy.dev/<container>: "12.4"`, or the variable `CUDA_VERSION`, in the pod.

The first pod of an image whose registry is still being asked is never refused for that; the answer is mostly there for
the second. `gpu-policy cuda check IMAGE --resolve` waits for it. With `--registries`, `--kubeconfig` and
`--image-results gpu-policy/gpu-policy-images` the replicas get to know it as well.

**It is not known what nodes offer.** Nodes tell by the labels of GPU Feature Discovery, which the GPU operator runs;
`gpu-policy cuda nodes` shows `-` where they are missing. Pools that scale from zero have no nodes that could tell:
declare them under [`nodePools`](rules.md#node-pools).

## What it cannot know

- CUDA that is installed by `pip` or `conda` into an image without `CUDA_VERSION`: a plain `python:3.12` with PyTorch
  wheels looks like an image for the CPU. Say what it needs under `images:` in the policy, or in the annotation.
- Which code is in a binary. An image whose CUDA knows the GPU may still have been built without code for it. One whose
  CUDA is older than the GPU may bring PTX, which the driver compiles: it is `incompatible` only where it is known to
  bring none, as PyTorch's own builds for CUDA 12 up to 12.6 (also in vLLM, SGLang and others). Where it brings PTX
  (NVIDIA's samples), no kernels at all (`nvidia/cuda`, to which you add your own), or where nobody knows, the answer is
  `unknown`. [What each family brings](#code-for-newer-gpus) is at the end of this page.
- The newest GPU that an image takes. Images of Text Embeddings Inference are compiled for one compute capability, and
  end on GPUs of another generation when they start; only GPUs that are too old are found here.
- PTX and the newest functions under minor-version compatibility: an older driver of the same major version does not
  compile the PTX of a newer toolkit.
- Whether somebody removed `cuda-compat` from an image, or which mode a node's container toolkit is in.
- Several kinds of GPU in one node: GPU Feature Discovery labels one of them.
- What labels do not say: they lag a driver upgrade by up to a minute, and a node without them is unknown, never unfit.
- What an autoscaler will do. It matches a pod with the template of a pool, in which the labels of driver and GPU are
  missing unless somebody put them there, and `NotIn` is true of a label that is not there. So a pod that is kept off
  unfit nodes may still make an unfit pool grow, and then wait beside its new nodes, or land there before they are
  labelled. Give the template the labels: `gpu-policy policy show NAMESPACE` prints those of each declared pool.

## Asking it yourself

```console
$ gpu-policy cuda check nvidia/cuda:13.0.0-base-ubuntu24.04 --driver 535.183.01 --product Tesla-T4
$ gpu-policy cuda check registry.example.com/team/app:7 --driver 535.183.01 --resolve --registries registries.yaml
$ gpu-policy cuda check nvcr.io/nvidia/pytorch:25.09-py3 --kubeconfig ~/.kube/config --policies policies/
$ gpu-policy cuda check --batch images.jsonl
$ gpu-policy cuda nodes --kubeconfig ~/.kube/config
```

`--inventory FILE` takes what `kubectl get nodes -o yaml` prints in place of a cluster. Without a node or a cluster the
answer says only what the image needs. A line of a batch is an object with `image` and, as far as they are known, `env`,
`driver`, `product`, `compute-capability`, `arch` and `cuda-compat`:

```json
{"image": "nvidia/cuda:12.4.1-base-ubuntu22.04", "driver": "550.54.15", "product": "Tesla-T4"}
```

Its answer is one line in the same place:

```json
{
  "image": "nvidia/cuda:12.4.1-base-ubuntu22.04",
  "cuda": "12.4.1",
  "evidence": "tag 12.4.1-base-ubuntu22.04 of nvidia/cuda",
  "verdict": "compatible",
  "legacyGate": "pass",
  "reason": "needs driver 550.54.15 or newer (CUDA 12.4.1, native); the node has 550.54.15"
}
```

| Verdict | Meaning |
|---|---|
| `compatible` | it runs |
| `forward-compat-only` | it runs by the `cuda-compat` package in it, which `forwardCompat: deny` does not count |
| `incompatible` | it does not run, and `reason` says why |
| `unknown` | it may run or not; `reason` says what is not known |

`legacyGate` is `pass`, `fail`, `unknown`, or `n/a` for images without CUDA. The exit status is 0 where nothing is
incompatible, 1 where something is, and 2 for input that cannot be used.
"""
