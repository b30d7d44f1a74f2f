"""Public registries, and the hosts that each of them sends its clients to for tokens and blobs.

From what the registries publish for firewalls; where they publish nothing, from what they were seen to redirect to. A
host that is missing makes look-ups fail with its name in the text, and can be listed under spec.registries.
"""

from collections.abc import Mapping
from types import MappingProxyType

from webhook.images.hosts import HostPattern
from webhook.images.registries import Registry

_AWS_REGIONS = (
    *("af-south-1", "ap-east-1", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1", "ap-south-2"),
    *("ap-southeast-1", "ap-southeast-2", "ap-southeast-3", "ap-southeast-4", "ap-southeast-5", "ap-southeast-6"),
    *("ap-southeast-7", "ca-central-1", "ca-west-1", "eu-central-1", "eu-central-2", "eu-north-1", "eu-south-1"),
    *("eu-south-2", "eu-west-1", "eu-west-3", "il-central-1", "me-central-1", "mx-central-1", "sa-east-1"),
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2"),
)


def _patterns(*names: str) -> tuple[HostPattern, ...]:
    return tuple(map(HostPattern, names))


def _registry(
    host: str, *, endpoint: str = "", token_hosts: tuple[str, ...] = (), blob_hosts: tuple[str, ...] = ()
) -> Registry:
    return Registry(HostPattern(host), endpoint, _patterns(*token_hosts), _patterns(*blob_hosts))


PRESETS: Mapping[str, tuple[Registry, ...]] = MappingProxyType(
    {
        # docs.docker.com/desktop/setup/allow-list; S3 answers clients inside of AWS (docker/hub-feedback issue 1318)
        "docker.io": (
            _registry(
                "docker.io",
                endpoint="registry-1.docker.io",
                token_hosts=("auth.docker.io",),
                blob_hosts=(
                    "production.cloudflare.docker.com",
                    "production.cloudfront.docker.com",
                    "docker-images-prod.6aa30f8b08e16409b46e0173d6de2f56.r2.cloudflarestorage.com",
                    "docker-images-prod.s3.amazonaws.com",
                    "docker-images-prod.s3.dualstack.us-east-1.amazonaws.com",
                ),
            ),
        ),
        # Tokens: nvcr.io/proxy_auth, formerly authn.nvidia.com/token. Blobs: 307 to layers.nvcr.io, as seen in 2026.
        "nvcr.io": (_registry("nvcr.io", token_hosts=("authn.nvidia.com",), blob_hosts=("layers.nvcr.io",)),),
        # docs.github.com, "Working with the Container registry"; aquasecurity/trivy docs, references/troubleshooting
        "ghcr.io": (_registry("ghcr.io", blob_hosts=("pkg-containers.githubusercontent.com",)),),
        # OpenShift, "Configuring your firewall": cdn.quay.io, cdn01 to cdn06, and the bucket
        "quay.io": (
            _registry(
                "quay.io",
                blob_hosts=(
                    "*.quay.io",
                    "quayio-production-s3.s3.amazonaws.com",
                    "quayio-production-s3.s3.us-east-1.amazonaws.com",
                ),
            ),
        ),
        # kubernetes/registry.k8s.io, cmd/archeio: manifests from Artifact Registry, blobs also from AWS
        "registry.k8s.io": (
            _registry(
                "registry.k8s.io",
                blob_hosts=(
                    "*.pkg.dev",
                    "storage.googleapis.com",
                    "d1be1w964nk82h.cloudfront.net",
                    "767373bbdcb8270361b96548387bf2a9ad0d48758c35-eu-west-2.s3.dualstack.eu-west-2.amazonaws.com",
                    *(f"prod-registry-k8s-io-{name}.s3.dualstack.{name}.amazonaws.com" for name in _AWS_REGIONS),
                ),
            ),
        ),
        # cloud.google.com/artifact-registry/docs: blobs from the host itself, formerly from Cloud Storage
        "gcr.io": (
            _registry("gcr.io", blob_hosts=("storage.googleapis.com",)),
            _registry("*.gcr.io", blob_hosts=("storage.googleapis.com",)),
        ),
        "pkg.dev": (_registry("*.pkg.dev", blob_hosts=("storage.googleapis.com",)),),
        # microsoft/containerregistry, docs/client-firewall-rules.md
        "mcr.microsoft.com": (_registry("mcr.microsoft.com", blob_hosts=("*.data.mcr.microsoft.com",)),),
        # anywhere.eks.amazonaws.com/docs/getting-started, the domains to allow
        "public.ecr.aws": (
            _registry("public.ecr.aws", blob_hosts=("d2glxqk2uabbnd.cloudfront.net", "d5l0dvt14r5h8.cloudfront.net")),
        ),
        # docs.gitlab.com/user/gitlab_com, "Container registry"
        "registry.gitlab.com": (
            _registry(
                "registry.gitlab.com",
                token_hosts=("gitlab.com",),
                blob_hosts=("cdn.registry.gitlab-static.net", "storage.googleapis.com"),
            ),
        ),
    }
)
"""By the name under spec.presets."""
