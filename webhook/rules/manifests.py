"""The pod that most rules show in their examples."""

_TRAIN = """\
apiVersion: v1
kind: Pod
metadata: {{name: train}}
spec:
{spec}  containers:
    - name: trainer
      image: {image}
      resources: {resources}
"""


def train(
    *spec: str, image: str = "registry.example.com/train:1", resources: str = "{limits: {nvidia.com/gpu: 1}}"
) -> str:
    """The manifest of a pod `train` of one container, which asks for one GPU. `spec` are more lines of its spec."""
    return _TRAIN.format(spec="".join(f"  {line}\n" for line in spec), image=image, resources=resources)
