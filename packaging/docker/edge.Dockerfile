# A device, CPU, able to train. Build: docker build -f packaging/docker/edge.Dockerfile -t fedaigc-edge .
# First start: docker run -v edge:/var/lib/fedaigc fedaigc-edge join https://HOST:8443 --token TOKEN --pull
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY fedaigc fedaigc
COPY edge_client edge_client
COPY server server
COPY packaging/constraints.txt constraints.txt
RUN python -m venv /opt/fedaigc \
 && /opt/fedaigc/bin/pip install --no-cache-dir -c constraints.txt torch==2.13.0 \
 && /opt/fedaigc/bin/pip install --no-cache-dir -c constraints.txt '.[edge,train]'

FROM python:3.11-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/fedaigc --create-home fedaigc
COPY --from=build /opt/fedaigc /opt/fedaigc
ENV PATH=/opt/fedaigc/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    FEDAIGC_EDGE_DATA=/var/lib/fedaigc/edge \
    FEDAIGC_MODELS=/var/lib/fedaigc/models \
    FLWR_TELEMETRY_ENABLED=0 \
    ORT_DISABLE_TELEMETRY=1 \
    FLWR_DISABLE_UPDATE_CHECK=1
USER 10001
VOLUME /var/lib/fedaigc
# The API listens on the container's loopback only: share the network namespace of the application that uses it.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s CMD ["fedaigc-edge", "status"]
ENTRYPOINT ["fedaigc-edge"]
CMD ["run"]
