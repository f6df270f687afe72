# ies-gpu with CUDA. Build from the top of the repository:
#
#   docker build -t ies-gpu .
#   docker build -t ies-gpu:cuda13 --build-arg EXTRAS=cuda13,plot,cloud .
#
# The CUDA libraries come as Python wheels, so a slim Python base is enough: the host brings the driver and
# nvidia-container-toolkit, nothing else. docker/README.md has the sizes and what was checked.

# Whoever builds releases pins this by digest: PYTHON_IMAGE=python:3.13-slim-trixie@sha256:...
ARG PYTHON_IMAGE=python:3.13-slim-trixie

# Dependencies alone, in a layer of their own: a change of the code does not move gigabytes again.
FROM ${PYTHON_IMAGE} AS dependencies
ARG EXTRAS=cuda12,plot,cloud
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY ies_gpu/__init__.py ies_gpu/
# The bounds stand in pyproject.toml. The package is not complete yet, so it leaves again; so do the tests of the
# others, a tenth of the CPU image.
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m venv /opt/ies-gpu \
    && /opt/ies-gpu/bin/pip install ".[${EXTRAS}]" \
    && /opt/ies-gpu/bin/pip uninstall --yes ies-gpu \
    && find /opt/ies-gpu -type d -name tests -prune -exec rm -r {} +

FROM dependencies AS package
COPY ies_gpu ies_gpu
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/ies-gpu/bin/pip wheel --no-deps --wheel-dir /dist .

# What is in the image, as CycloneDX; the tool stays behind.
FROM package AS materials
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m venv /opt/bom \
    && /opt/bom/bin/pip install "cyclonedx-bom>=7,<8" \
    && /opt/bom/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
        --output-file /bom.cdx.json /opt/ies-gpu/bin/python

# CuPy's kernels for some GPUs. NVRTC compiles without one: CuPy runs on the CPU here, as in the tests.
FROM package AS kernels
ARG GPUS="75 80 86 89 90"
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY tests tests
COPY docker/compile_kernels.py docker/
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/ies-gpu/bin/pip install "pytest>=8,<10" \
    && /opt/ies-gpu/bin/python docker/compile_kernels.py /cupy ${GPUS}

FROM ${PYTHON_IMAGE}
COPY --from=dependencies /opt/ies-gpu /opt/ies-gpu
COPY --from=materials /bom.cdx.json /usr/share/doc/ies-gpu/bom.cdx.json
COPY --from=kernels /cupy /cache/cupy
# The root may be read-only: /cache is the one place that must be writable. Any user may write to these three, so that
# --user works, and new volumes take over their mode.
RUN --mount=type=bind,from=package,source=/dist,target=/dist \
    /opt/ies-gpu/bin/pip install --no-cache-dir --no-index --no-deps /dist/ies_gpu-*.whl \
    && install -d -m 1777 /cache /checkpoint /data

ENV PATH=/opt/ies-gpu/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/cache \
    TMPDIR=/cache \
    XDG_CACHE_HOME=/cache \
    CUPY_CACHE_DIR=/cache/cupy \
    NUMBA_CACHE_DIR=/cache/numba \
    MPLCONFIGDIR=/cache/matplotlib \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility

ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="ies-gpu" \
      org.opencontainers.image.description="Independent eigencoordinate selection for diffusion maps, on CPU and CUDA" \
      org.opencontainers.image.licenses="BSD-3-Clause" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# The kernels for the CPU that builds; a new volume takes them over. Another kind of CPU compiles its own, in ten seconds.
RUN python -c "from ies_gpu import datasets, select_coordinates as select; \
select(datasets.load('D1', n_samples=20000).X, intrinsic_dim=2, subset_size=2, bandwidth=0.2, device='cpu')" \
    && chmod -R a+rwX /cache

VOLUME ["/cache"]
WORKDIR /data
USER 10001:10001
ENTRYPOINT ["ies-gpu"]
CMD ["--help"]
