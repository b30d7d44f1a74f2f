# Two stages: the first builds a virtual environment, the second is what runs. It needs no shell, no root and no writable
# root file system. Nothing depends on the architecture: `docker buildx build --platform linux/amd64,linux/arm64 .`
#
# The base is named by a tag that gets security updates. Whoever publishes images pins what they have checked:
#   --build-arg PYTHON=python:3.11-slim-bookworm@sha256:...
# It is the Python for which requirements.lock was resolved. What of the Kubernetes client is never used is not compiled.
ARG PYTHON=python:3.11-slim-bookworm

FROM ${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ONLY_BINARY=:all: \
    PIP_REQUIRE_VIRTUALENV=1
WORKDIR /source
COPY requirements.lock requirements-build.lock ./
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes --requirement requirements-build.lock
RUN python -m venv --without-pip /opt/gpu-policy \
 && /opt/build/bin/pip --python /opt/gpu-policy/bin/python install --no-compile --require-hashes --requirement requirements.lock
COPY . ./
RUN /opt/build/bin/pip wheel --no-deps --no-index --no-build-isolation --wheel-dir /opt/built . \
 && /opt/build/bin/pip --python /opt/gpu-policy/bin/python install --no-compile --no-deps --no-index /opt/built/*.whl \
 && /opt/gpu-policy/bin/python -m compileall -q -f --invalidation-mode unchecked-hash \
    -x '/kubernetes/(aio|client/api|client/models)/' /opt/gpu-policy/lib

FROM ${PYTHON}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gpu-policy" \
      org.opencontainers.image.description="Kubernetes admission for GPU pods" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# MALLOC_*: two arenas, buffers from 256 KiB mapped by themselves, and 1 MiB unused at an arena's end at most. Without
# them a replica stays as large as it was at its peak.
ENV PATH=/opt/gpu-policy/bin:$PATH \
    MALLOC_ARENA_MAX=2 \
    MALLOC_MMAP_THRESHOLD_=262144 \
    MALLOC_TRIM_THRESHOLD_=1048576 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=build /opt/gpu-policy /opt/gpu-policy
USER 65532:65532
EXPOSE 8443
ENTRYPOINT ["gpu-policy"]
CMD ["serve"]
