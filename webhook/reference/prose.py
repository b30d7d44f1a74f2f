"""The words of docs/rules.md that no rule says."""

from webhook.policy.schema import API_VERSION, DEFAULT_FILE, QUOTAS_FILE, QUOTAS_KIND

HEAD = """# Rules

Each rule keeps one promise: it completes pods that lack something, or judges pods that break it, or both. Policy files
say which rules hold in which namespace, how firmly, and with which settings.
"""

HOW = f"""
## A policy file

A policy names rules and says how firmly each is kept:

```yaml
# yaml-language-server: $schema=../docs/policy-schema.json
apiVersion: {API_VERSION}
kind: GPUPolicy
metadata:
  name: team-vision              # the file's name without .yaml
spec:
  namespaces: [team-vision, "vision-*"]   # optional; without it, the namespace of the file's name
  rules:
    sharedMemory: {{mode: enforce, size: 16Gi}}
```

`spec.contact` says whom messages send people to, in place of "the platform team":

```yaml
spec:
  contact: "#gpu-help"
```

## Modes

Every rule has a `mode`, which means the same everywhere:

| Mode | A pod that lacks something | A pod that breaks the rule |
|---|---|---|
| `enforce` | is completed | is refused, with the reason and the remedy |
| `warn` | stays as it is; a warning says what would be added | is admitted; a warning says why it would be refused |
| `audit` | stays as it is; log, metric and audit annotation say what would be added | is admitted, and recorded alike |
| `disabled` | stays as it is | is admitted |

What [`visibleDevices`](#visibledevices) would add is recorded and no warning under `warn` too, because nobody has to do
anything about it.

## Which file applies

`{DEFAULT_FILE}` applies to every namespace. At most one other file applies on top of it: an exact name beats a longer
glob, a longer glob beats a shorter one. A glob knows `*` (any text) and `?` (one character), and its length is the
number of its characters, wildcards included. Two files that could claim one namespace at the same rank are an error.

The file of a namespace is merged over `{DEFAULT_FILE}`: maps key by key, lists and single values replaced. What it
leaves out, `mode` included, is inherited. Of settings that exclude each other, the one in the namespace's file replaces
the other one. A rule named in neither file is disabled.

Keys and types are checked strictly: an unknown key, a wrong type or an empty value is an error with file and line, and
the policies in use stay in use. YAML reads `off`, `no`, `on` and `yes` as booleans and `12.10` as the number 12.1:
modes are words, and versions stand in quotes.
"""

MOMENTARY = "whose injections follow from what is known at the moment: the lack of them is not held against a pod."
"""Why some rules that complete pods have no settings of it."""

EXAMPLES = """
## The examples

What stands below is what the engine answers when the manifest is applied, with no other rule enabled, in a cluster of
three nodes: `a100-0` has eight A100 of 80 GB and driver 580.95.05, `t4-0` one T4 and driver 535.183.01, both with the
taint `nvidia.com/gpu=present:NoSchedule`; `cpu-0` has no GPU. There are a RuntimeClass `nvidia` and a PriorityClass
`training`. kubectl prints each message on one line.
"""

ACCELERATORS = f"""
## Names of GPUs

What everybody knows counts as GPUs without a word: the resources of the device plugins of NVIDIA, AMD and Intel, and
the device classes of their DRA drivers, such as `deviceclass.resource.kubernetes.io/gpu.nvidia.com`. Names that only
the platform knows, such as those of vGPU plugins or the `extendedResourceName` of a DeviceClass, are declared in
`{DEFAULT_FILE}`, for all namespaces:

```yaml
spec:
  accelerators:
    extra:
      - {{name: "example.com/vgpu-*", vendor: nvidia, share: shared}}
      - {{name: gpu.example.com/a30, vendor: nvidia, dra: true}}
      - {{name: deviceclass.resource.kubernetes.io/nic.example.com, gpu: false}}
```

They are then GPUs for every rule, quota and report. Give the chart the same list as `accelerators.extra`, so that pods
which ask for them are sent, and restart the replicas, which read the names when they start: until then a change of them
is refused like any mistake in a policy, and the policies in use stay in use. `gpu-policy doctor` tells where policy and
registration differ.

A device class of which nobody has said whether it is GPUs is treated as resource claims are: see `claims` of
[`gpuQuota`](#gpuquota). A resource that opens all GPUs of a node counts as 1, unless `weights` says more.

"""

POOLS = """
## Node pools

A pool that scales from zero may have no node when a pod is created. `spec.nodePools` declares what its nodes will be
like, and rules that ask where a pod could land then count it in:

```yaml
spec:
  nodePools:
    - name: h100-spot
      labels: {cloud.google.com/gke-nodepool: h100-spot}
      taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
      driver: "550.54.15"
      product: NVIDIA-H100-80GB-HBM3
      gpus: 8
```

A pool is matched like a node: nodeSelector, required node affinity, taints and GPU resources must fit. It has the
labels that GPU Feature Discovery will publish of its driver and GPU; a pod that selects by something else, such as a
zone, fits only if `labels` say so. A pod that names its node, in `nodeName` or by its host name, fits no pool.

A namespace's list replaces that of `_default.yaml`; `[]` declares none. `gpu-policy policy show NAMESPACE` prints the
pools with all their labels.

"""

WORKLOADS = """
## Workloads

Deployments, Jobs, PyTorchJobs, RayClusters and other objects that make pods ([workloads.md](workloads.md) lists the
kinds) are judged when they are applied, by the pods that they would make. Nothing in them is ever changed: their pods
are completed when they are created. `spec.workloads` says what becomes of an object whose pods would be refused:

```yaml
spec:
  workloads: {mode: enforce}
```

"""

WORKLOADS_NOTES = """
Unset means `warn`. The value of a namespace's file replaces that of `_default.yaml`. In `enforce` an object is refused
for what would refuse its pods, and for what [`replicaSpread`](#replicaspread) in mode `enforce` finds: what rules in
mode `warn` or `audit` find stays a warning or a record, and quotas that all of its pods pass only together are a
warning too. On an update only what is new is told. The API server itself refuses GPUs in requests only in the templates
of its own kinds, in words of its own and also under `requestsOnly: repair`, which repairs pods only.
"""

MODELS = """
## GPU models

`byModel` of [`gpuQuota`](#gpuquota) takes the names below, and those that its `models` declare. One with others in
brackets stands for all of them.

{names}

A pod says its model by these node labels, in its nodeSelector or its required node affinity:

{labels}

Values of the last two are looked up among the machine types of AWS, Azure, Google Cloud, CoreWeave and Oracle Cloud, in
all others the name of the GPU is read in whatever spelling: `NVIDIA-A100-SXM4-80GB-MIG-1g.10gb`, `nvidia-a100-80gb`,
`A100_NVLINK_80GB`. A pod whose labels say nothing of a model may land on any.
"""

POTS = f"""
## Pots

What several namespaces may use together is a pot in `{QUOTAS_FILE}`:

```yaml
# yaml-language-server: $schema=../docs/quotas-schema.json
apiVersion: {API_VERSION}
kind: {QUOTAS_KIND}
metadata:
  name: _quotas
spec:
  pots:
    - name: research
      namespaces: [physics, "research-*"]
      gpus: 16
      byModel: {{H100: 4}}
```

A namespace may be in several pots. A pod needs room in each of them and in the quota of its own namespace, which is the
rule [`gpuQuota`](#gpuquota): there a file that claims several namespaces, and `{DEFAULT_FILE}`, give each of them a
quota of its own.

A pot limits at least one of `gpus`, `byModel` and `byResource`. What it leaves out of `claims`, `models`,
`onLedgerFailure`, `unspecifiedModel` and `weights` comes from `gpuQuota` of `{DEFAULT_FILE}`, maps key by key; limits
and mode never do.
`gpu-policy policy show NAMESPACE` names every quota that a namespace is under. A pot has the keys of
[`gpuQuota`](#gpuquota), and these:

"""
