# Two stages: the first builds a virtual environment, the second is what runs. Needs no writable root file system.
FROM python:3.11-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PYTHONDONTWRITEBYTECODE=1
RUN python -m venv /opt/gpu-policy
WORKDIR /source
COPY requirements.lock ./
RUN /opt/gpu-policy/bin/pip install --requirement requirements.lock
COPY . ./
RUN /opt/gpu-policy/bin/pip install --no-deps . \
 && /opt/gpu-policy/bin/python -m compileall -q /opt/gpu-policy/lib

FROM python:3.11-slim
ENV PATH=/opt/gpu-policy/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=build /opt/gpu-policy /opt/gpu-policy
USER 65532:65532
EXPOSE 8443
ENTRYPOINT ["gpu-policy"]
CMD ["serve"]
