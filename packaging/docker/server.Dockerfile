# The datacenter server. Build: docker build -f packaging/docker/server.Dockerfile -t fedaigc-server .
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY fedaigc fedaigc
COPY edge_client edge_client
COPY server server
COPY packaging/constraints.txt constraints.txt
RUN python -m venv /opt/fedaigc \
 && /opt/fedaigc/bin/pip install --no-cache-dir -c constraints.txt '.[server]'

FROM python:3.11-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/fedaigc --create-home fedaigc
COPY --from=build /opt/fedaigc /opt/fedaigc
ENV PATH=/opt/fedaigc/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    FLWR_TELEMETRY_ENABLED=0 \
    FLWR_DISABLE_UPDATE_CHECK=1
USER 10001
VOLUME /var/lib/fedaigc
EXPOSE 8443
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
  CMD ["fedaigc-server", "status", "--data", "/var/lib/fedaigc/server"]
ENTRYPOINT ["fedaigc-server"]
CMD ["start", "--data", "/var/lib/fedaigc/server", "--officer", "/var/lib/fedaigc/officer", "--host", "0.0.0.0"]
