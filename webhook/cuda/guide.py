"""What docs/cuda.md says before its tables: how a verdict is reached, what to do with it, what it cannot know."""

GUIDE = """\
# CUDA against driver

Before a GPU pod is created, the rule `cudaDriver` compares the CUDA that its images need with the driver and GPU of
every node on which it could run. [rules.md](rules.md#cudadriver) has the rule's settings, [decision
13](decisions/0013-cuda-against-driver.md) the reasons for its design. This page is generated from the tables that the
rule uses: `gpu-policy cuda docs`.

## How the verdict is reached

**1. What the image needs.** The first of these sources that says something decides. Every answer names its source.

1. `images:` in the policy: a glob that matches the image, with a CUDA version or `none`. Said by the platform.
2. The container's `env`: `CUDA_VERSION`, else the lower bound in `NVIDIA_REQUIRE_CUDA`. Said by the pod.
3. The annotation `cuda.gpupolicy.dev/<container>`: a CUDA version or `none`. Said by the pod.
4. The image's configuration in its registry, if look-ups are enabled: `CUDA_VERSION`, the month of an NGC release, else
   `NVIDIA_REQUIRE_CUDA`. Said by the image.
5. The image's name and tag: nvidia/cuda and its mirrors, NGC months, the releases of
   [products](#products-with-versions-of-their-own) of NVIDIA, Kubeflow and Ray and of model servers, pytorch,
   tensorflow, rapids, images of the clouds, and parts of a tag such as `-cu124-`. A convention.
6. None of them: what the image needs is unknown.

NGC images carry `NVIDIA_REQUIRE_CUDA=cuda>=9.0` and the label `com.nvidia.cuda.version=9.0` whatever they need, so both
are ignored. Images for the CPU need no CUDA; images for ROCm, XPU, Neuron or Gaudi run on no NVIDIA GPU. Device
plugins, exporters and similar agents use the driver of the node and need no CUDA either, even if their base image names
one.

**2. Where the pod could run.** The candidates are the nodes that the pod's nodeSelector, required node affinity,
tolerations, RuntimeClass and GPU resources allow after the webhook has mutated it, and the `nodePools` of the policy,
which may scale from zero. Cordons, `node.kubernetes.io/*` taints and free capacity are ignored, because they change
with time. Nodes that offer the same form one kind of node, which is evaluated once.

**3. Whether the image runs there.** For each kind of node the first of these rules that applies gives the verdict:

1. The image does not exist for the node's processor: incompatible.
2. The GPU is older than everything this CUDA has code for, or than the framework supports: incompatible.
3. The GPU is newer than everything this CUDA has code for: incompatible.
4. The driver does not drive this GPU (too old for it, or after NVIDIA dropped it): incompatible.
5. The driver is the one that was released with this CUDA, or a newer one: compatible.
6. The driver is older, but belongs to the same major version of CUDA (11 and newer): compatible by minor-version
   compatibility.
7. The image contains the `cuda-compat` package, the GPU is a data-centre GPU, and the package supports the driver's
   branch: forward-compat-only.
8. Otherwise: incompatible.

The verdict is `unknown` if a fact that would decide is missing or not verified, or if two sources contradict each
other. If the labels of a node contradict each other about the driver, its full version counts; `gpu-policy cuda nodes`
names such labels.

**4. The decision.** If the image runs on all candidates, nothing happens. If it does not run on some of them, the
webhook adds a required node affinity to the pod: it excludes these nodes by the coarsest label that no other candidate
shares. If there is no such label, the pod's author gets a warning. If the image runs on no candidate, the pod is
refused, and the message names the nearest remedies. If no candidate is known, or for none it is known that the image
runs there, the setting `unknown` decides.

The container toolkit itself checks `NVIDIA_REQUIRE_*` when a container starts. The result of that check is reported
apart from the verdict, as `legacyGate`, because only the toolkit's legacy hook makes it, which is not the default since
toolkit 1.18. For pods with more than four GPU containers it is not reported.

## What to do

**A pod is refused.** The message says what the image needs and from which source that is known, on which nodes the pod
could run, what is wrong with each kind of node, and what would help: an image of the same family, a driver, another
GPU. `gpu-policy cuda check IMAGE --kubeconfig FILE` shows all kinds of nodes of the cluster, including nodes that the
pod's nodeSelector, affinity or tolerations do not allow. If the image needs something else than the message says,
correct it with a stronger source (1 is the strongest). With `cudaDriver: {mode: warn}` in a namespace's file its pods
are admitted with a warning.

**It is not known what an image needs.** The name of a team's own image mostly says nothing about CUDA. Pods with such
images are admitted unless the setting `unknown` says otherwise. There are three ways to make it known:

- With `registries.enabled=true` in the chart the replicas look images up in the background.
  [operations.md](operations.md#images-and-their-registries) says in which registries, and with which credentials.
- `images:` in a policy, for images that you know yourself. A glob is compared with the image as it is written, and with
  its name with and without registry and tag. If several globs match, the longest counts:

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

While the registry of an image has not answered yet, no pod is refused because of that image; when the second pod comes,
the answer is mostly there. `gpu-policy cuda check IMAGE --resolve` waits for the answer. With `--registries`,
`--kubeconfig` and `--image-results gpu-policy/gpu-policy-images` the command also shares it with the replicas.

**It is not known what nodes offer.** Driver and GPU of a node are known from the labels of GPU Feature Discovery, which
the GPU operator runs; `gpu-policy cuda nodes` shows `-` where a label is missing. A pool that is scaled to zero has no
nodes with labels: declare it under [`nodePools`](rules.md#node-pools).

## What it cannot know

- CUDA that is installed by `pip` or `conda` into an image without `CUDA_VERSION`: a plain `python:3.12` with PyTorch
  wheels looks like an image for the CPU. Say which CUDA the image needs under `images:` in the policy, or in the
  annotation.
- For which GPUs a binary has code. An image whose CUDA supports the GPU may still have been built without code for it.
  An image whose CUDA is older than the GPU may contain PTX, which the driver compiles for the GPU. It is `incompatible`
  only if it is known to contain no PTX, as PyTorch's own builds for CUDA 12 up to 12.6 (also in vLLM, SGLang and
  others). It is `unknown` if it contains PTX (NVIDIA's samples), has no kernels of its own (`nvidia/cuda`, to which you
  add yours), or if its content is not known. [What each family contains](#code-for-newer-gpus) is at the end of this
  page.
- The newest GPU that an image supports. Images of Text Embeddings Inference are compiled for one compute capability,
  and exit when they start on a GPU of another generation; only GPUs that are too old for them are found here.
- PTX and the newest functions under minor-version compatibility: an older driver of the same major version does not
  compile the PTX of a newer toolkit.
- Whether somebody removed `cuda-compat` from an image, or which mode a node's container toolkit is in.
- Several kinds of GPU in one node: GPU Feature Discovery labels one of them.
- What labels do not say: after a driver upgrade they are wrong for up to a minute. A node without these labels gives
  the verdict `unknown`, never `incompatible`.
- What an autoscaler will do. It compares a pod with the node template of a pool. The labels of driver and GPU are
  missing in the template unless somebody put them there, and a `NotIn` expression matches if the label is missing. So
  the autoscaler may add nodes to a pool on which the pod cannot run: the pod then stays Pending, or is scheduled to a
  new node before the node has its labels. Put the labels into the template: `gpu-policy policy show NAMESPACE` prints
  them for each declared pool.

## Asking it yourself

```console
$ gpu-policy cuda check nvidia/cuda:13.0.0-base-ubuntu24.04 --driver 535.183.01 --product Tesla-T4
$ gpu-policy cuda check registry.example.com/team/app:7 --driver 535.183.01 --resolve --registries registries.yaml
$ gpu-policy cuda check nvcr.io/nvidia/pytorch:25.09-py3 --kubeconfig ~/.kube/config --policies policies/
$ gpu-policy cuda check --batch images.jsonl
$ gpu-policy cuda nodes --kubeconfig ~/.kube/config
```

Instead of a cluster, `--inventory FILE` names a file with the output of `kubectl get nodes -o yaml`. Without a node, a
cluster or an inventory the answer says only what the image needs. A line of a batch is an object with `image` and, if
they are known, `env`, `driver`, `product`, `compute-capability`, `arch` and `cuda-compat`:

```json
{"image": "nvidia/cuda:12.4.1-base-ubuntu22.04", "driver": "550.54.15", "product": "Tesla-T4"}
```

The answer is one line at the same position of the output; here it is broken into several lines:

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
| `compatible` | the image runs on the node |
| `forward-compat-only` | the image runs only because of its `cuda-compat` package; `forwardCompat: deny` rejects that |
| `incompatible` | the image does not run, and `reason` says why |
| `unknown` | the image may run or not; `reason` says what is not known |

`legacyGate` is `pass`, `fail`, `unknown`, or `n/a` for images without CUDA. The exit status is 0 if nothing is
incompatible, 1 if something is, and 2 if the input cannot be used. """
