# Two images from the locked requirements: `weboid` (proxy, worker, front, every command) and
# `replay` (pywb's classes live in an environment of their own). docs/cluster.md says how to run them.

FROM debian:bookworm-slim AS base
ENV LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 1000 weboid \
    && useradd --uid 1000 --gid 1000 --create-home weboid \
    && install -d -o weboid -g weboid /collection
WORKDIR /app

FROM base AS main-packages
COPY requirements/main.txt requirements/
RUN python3 -m venv /opt/weboid \
    && /opt/weboid/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements/main.txt
COPY . .
RUN /opt/weboid/bin/pip install --no-cache-dir --no-deps --no-build-isolation --editable .

FROM base AS replay-packages
COPY requirements/replay.txt requirements/
RUN python3 -m venv /opt/replay \
    && /opt/replay/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements/replay.txt

FROM base AS weboid
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        chromium fonts-dejavu-core fonts-freefont-ttf fonts-noto-cjk util-linux \
    && rm -rf /var/lib/apt/lists/* \
    # Its set-uid helper is for systems without user namespaces; here the sandbox uses those.
    && rm -f /usr/lib/chromium/chrome-sandbox
COPY --from=main-packages /opt/weboid /opt/weboid
COPY --from=main-packages /app /app
ENV PATH=/opt/weboid/bin:$PATH
USER weboid
VOLUME /collection
ENTRYPOINT ["weboid"]
CMD ["--help"]

FROM base AS replay
COPY --from=replay-packages /opt/replay /opt/replay
COPY core core
COPY playback playback
ENV PATH=/opt/replay/bin:$PATH
USER weboid
ENTRYPOINT ["python", "-m", "playback.replay"]
CMD ["--help"]
