"""The words of docs/rules.md that no rule says."""

from webhook.policy.schema import API_VERSION, DEFAULT_FILE, QUOTAS_FILE, QUOTAS_KIND

HEAD = """# Rules

Each rule keeps one promise: it mutates pods that lack something, validates pods, or does both. A rule that only gives
advice warns, and never refuses a pod. Policy files say which rules apply to a namespace, in which mode and with which
settings.

A *GPU pod* is a pod with a container that requests at least one GPU, as an extended resource in `resources`. Slices of
a GPU (MIG) and shares of one count as well. A *workload* is an object that makes pods, such as a Deployment or a
PyTorchJob.
"""

HOW = f"""
## A policy file

A policy names rules, and gives each of them a mode and settings:

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

`spec.contact` says whom users should ask. Messages then name it instead of "the platform team":

```yaml
spec:
  contact: "#gpu-help"
```

## Modes

Every rule has a `mode`. The modes mean the same for every rule:

| Mode | A pod that lacks something | A pod that breaks the rule |
|---|---|---|
| `enforce` | is completed | is refused, with the reason and the remedy |
| `warn` | stays as it is; a warning says what would be added | is admitted; a warning says why it would be refused |
| `audit` | stays as it is; what would be added is recorded | is admitted; why it would be refused is recorded |
| `disabled` | stays as it is | is admitted |

What is recorded stands in the log, in a metric and in the audit annotation of the request. There is one exception:
under `warn`, what [`visibleDevices`](#visibledevices) would add is only recorded, without a warning, because the author
of the pod need not do anything about it.

## Which file applies

`{DEFAULT_FILE}` applies to every namespace. At most one other file applies on top of it: the one that names the
namespace, or else the one with the longest glob that matches it. In a glob, `*` stands for any text and `?` for one
character; its length is the number of its characters, wildcards included. It is an error if two files name the same
namespace, or have globs of the same length that could match the same namespace.

The file of a namespace is merged over `{DEFAULT_FILE}`: maps are merged key by key, lists and single values are
replaced, and keys that the file leaves out, `mode` included, are inherited. Where two settings exclude each other, the
one in the namespace's file replaces the other one in `{DEFAULT_FILE}`. A rule that neither file names is disabled.

Keys and types are checked strictly: an unknown key, a wrong type or an empty value is an error that names file and
line, and the server keeps using the last valid policies. YAML reads `off`, `no`, `on` and `yes` as booleans and `12.10`
as the number 12.1. This is why no mode has such a name, and why versions have to be written in quotes.
"""

MOMENTARY = (
    "do not have this setting: what they inject depends on what is known of nodes and images at that moment, so a pod "
    "without it is not a violation."
)
"""Why some rules that mutate pods have no settings of it."""

EXAMPLES = """
## The examples

Each example shows what happens when the manifest is applied and no other rule is enabled. The answers are those of the
engine itself. The cluster has three nodes: `a100-0` with eight A100 of 80 GB and driver 580.95.05, `t4-0` with one T4
and driver 535.183.01, and `cpu-0` without a GPU. The two GPU nodes have the taint `nvidia.com/gpu=present:NoSchedule`.
There are a RuntimeClass `nvidia` and a PriorityClass `training`. kubectl prints each message on one line.
"""

ACCELERATORS = f"""
## Names of GPUs

The resources of the device plugins of NVIDIA, AMD and Intel are known to be GPUs, and so are the device classes of
their DRA drivers, such as `deviceclass.resource.kubernetes.io/gpu.nvidia.com`. Other resource names have to be
declared, such as those of vGPU plugins or the `extendedResourceName` of a DeviceClass. They are declared in
`{DEFAULT_FILE}`, for all namespaces:

```yaml
spec:
  accelerators:
    extra:
      - {{name: "example.com/vgpu-*", vendor: nvidia, share: shared}}
      - {{name: gpu.example.com/a30, vendor: nvidia, dra: true}}
      - {{name: deviceclass.resource.kubernetes.io/nic.example.com, gpu: false}}
```

Declared names are GPUs for every rule, quota and report. Give the chart the same list as `accelerators.extra`, so that
the API server sends pods which request them, and then restart the replicas, which read the names only when they start.
Until the restart, a change of the names counts as a mistake in the policies, and the server keeps using the last valid
ones. `gpu-policy doctor` says where the policies and the webhook configuration differ.

A device class that is neither known nor declared may be GPUs or not. It is treated like a resource claim: see `claims`
of [`gpuQuota`](#gpuquota). A resource that gives access to all GPUs of a node, such as `gpu.intel.com/i915_monitoring`,
counts as 1, unless `weights` gives it more.

"""

POOLS = """
## Node pools

A pool that scales from zero may have no node when a pod is created. `spec.nodePools` declares what its nodes will be
like. Rules that ask on which nodes a pod could run then include the pool:

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
labels that GPU Feature Discovery will publish for its driver and GPU. A pod that selects another label, such as a zone,
fits only if `labels` has it. A pod that names its node, in `nodeName` or by its host name, fits no pool.

A namespace's list replaces that of `_default.yaml`; `[]` declares none. `gpu-policy policy show NAMESPACE` prints the
pools with all their labels.

"""

WORKLOADS = """
## Workloads

Deployments, Jobs, PyTorchJobs, RayClusters and other workloads ([workloads.md](workloads.md) lists the kinds) are
validated when they are applied, by the pods that they would make. Workloads are never modified: their pods are mutated
when they are created. `spec.workloads` says what happens to a workload whose pods would be refused:

```yaml
spec:
  workloads: {mode: enforce}
```

"""

WORKLOADS_NOTES = """
Without `spec.workloads` the mode is `warn`. The value of a namespace's file replaces that of `_default.yaml`. In mode
`enforce` a workload is refused for every violation that would refuse one of its pods, and for what
[`replicaSpread`](#replicaspread) in mode `enforce` finds. What rules in mode `warn` or `audit` find stays a warning or
a record. A quota with room for each of the pods, but not for all of them, brings a warning, too. On an update only new
violations are reported.

GPUs that stand in requests but not in limits are special: in the templates of its own kinds, such as Deployments and
Jobs, the API server itself refuses them, with a message of its own. `requestsOnly: repair` does not help there, because
it repairs pods only.
"""

MODELS = """
## GPU models

`byModel` of [`gpuQuota`](#gpuquota) takes the names below and the names that its `models` declares. A name that is
followed by others in brackets stands for all of these.

{names}

A pod says which model it wants by selecting one of these node labels, in its nodeSelector or its required node
affinity:

{labels}

Values of the last two labels are looked up among the machine types of AWS, Azure, Google Cloud, CoreWeave and Oracle
Cloud. In the values of all other labels the name of the GPU is recognised in any usual spelling:
`NVIDIA-A100-SXM4-80GB-MIG-1g.10gb`, `nvidia-a100-80gb`, `A100_NVLINK_80GB`. A pod that selects no model may run on any.
"""

POTS = f"""
## Pots

A pot is a quota that several namespaces share. Pots are declared in `{QUOTAS_FILE}`:

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

A namespace may be in several pots. A pod needs room in each of them, and in the quota of its own namespace, which the
rule [`gpuQuota`](#gpuquota) sets. The limits of that rule are never shared: a file for several namespaces gives each of
them a quota of its own, and so does `{DEFAULT_FILE}`.

A pot limits at least one of `gpus`, `byModel` and `byResource`. It inherits `claims`, `models`, `onLedgerFailure`,
`unspecifiedModel` and `weights` from `gpuQuota` of `{DEFAULT_FILE}` where it leaves them out; maps are merged key by
key. It never inherits limits and mode. `gpu-policy policy show NAMESPACE` names every quota that applies to a
namespace. A pot has the keys of [`gpuQuota`](#gpuquota), and these:

"""
