"""Names and paths by which a pod asks for a GPU, or reaches for one without asking, and such as reach for nothing.

A new way to a GPU is one line here: the generator writes it into pods, and what the engine then says of them has to be
heard, so that the conditions must send them. Nothing is lost by a line that neither of the two knows.
"""

RESOURCES = (
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/mig-1g.10gb",
    "nvidia.com/mig-1c.3g.20gb.me",
    "nvidia.com/mig-1g.10gb.shared",
    "nvidia.com/pgpu",
    "nvidia.com/GRID_T4-16Q",
    "nvidia.com/GA102GL_A10",
    "amd.com/gpu",
    "amd.com/cpx_nps4",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "gpu.intel.com/i915_monitoring",
    "gpu.intel.com/xe_monitoring",
    "gpu.intel.com/monitoring",
    "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
    "deviceclass.resource.kubernetes.io/mig.nvidia.com",
    "deviceclass.resource.kubernetes.io/anything",
    "deviceclass.resource.kubernetes.io/vfio.gpu.nvidia.com",
    "deviceclass.resource.kubernetes.io/gpu.amd.com",
    "intel.com/gpu",
    "nvidia.com/X",
)
"""Of containers, in limits or requests."""

PATHS = (
    "/dev/nvidia7",
    "/dev/nvidiactl",
    "//dev//nvidia-uvm",
    "/proc/1/root/dev/nvidia0",
    "/dev/dri",
    "/dev/./dri/card0",
    "/dev/kfd",
    "/dev/char/195:0",
    "/dev/char/195:255",
    "/dev/char",
    "/dev/char/226:128",
    "/dev/nvidia-caps/nvidia-cap1",
    "/proc/driver/nvidia/capabilities/mig/config",
    "/run/nvidia/driver",
    "/run/nvidia",
    "/var/run/nvidia/driver/dev/nvidia0",
    "/home/kubernetes/bin/nvidia",
)
"""On the node, of hostPath volumes."""

MOUNT_PATHS = (
    "/var/run/nvidia-container-devices/all",
    "/var/run/nvidia-container-devices",
    "/var/run/nvidia-container-devices/0",
    "//var/run//nvidia-container-devices/GPU-1",
    "/run/nvidia-container-devices/all",
    "/var/run/cdi/nvidia.com/gpu/all",
)
"""In containers, of mounts of any volume: the device list of NVIDIA's hardened set-up."""

VARIABLES = (
    "NVIDIA_VISIBLE_DEVICES",
    "CUDA_VERSION",
    "NVIDIA_REQUIRE_CUDA",
    "NVIDIA_MIG_CONFIG_DEVICES",
    "NVIDIA_MIG_MONITOR_DEVICES",
    "NVIDIA_IMEX_CHANNELS",
    "NVIDIA_DRIVER_CAPABILITIES",
)

ANNOTATIONS = (
    "cdi.k8s.io/gpu",
    "cdi.k8s.io/vendor_any",
    "cdi.k8s.io",
    "devices.noderesource.dev/container.c0",
    "nvidia.cdi.k8s.io/container.c0",
    "mounts.nri.io/container.c0",
    "mounts.noderesource.dev/container.c0",
    "devices.crio.io",
    "devices.gke.io/container.c0",
    "io.kubernetes.cri-o.Devices",
    "io.kubernetes.cri-o.Devices/c0",
    "devices.nri.io/pod",
    "devices.nri.io/container.c0",
    "cdi-devices.nri.io/container.c0",
    "cdi-devices.noderesource.dev/container.c0",
    "gpu-fraction",
    "gpu-memory",
)
"""Keys by which container runtimes, their plugins and schedulers are asked for devices."""

RUNTIME_CLASSES = ("nvidia", "nvidia-cdi", "nvidia-legacy", "kata")

HARMLESS_RESOURCES = (
    "cpu",
    "memory",
    "ephemeral-storage",
    "hugepages-2Mi",
    "example.com/fpga",
    "nvidia.com/rdma-vf",
    "xnvidia.com/gpu",
    "example.com/amd.com-gpu",
    "gpu.example.com/i915",
)
HARMLESS_PATHS = ("/data", "/var/log", "/dev/shm", "/sys/fs/cgroup", "/etc/localtime")
HARMLESS_VARIABLES = ("HOME", "PATH", "LD_LIBRARY_PATH", "NCCL_DEBUG")
HARMLESS_ANNOTATIONS = ("example.com/note", "prometheus.io/scrape", "cluster-autoscaler.kubernetes.io/safe-to-evict")
