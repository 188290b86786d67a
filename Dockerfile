# Images from the locked requirements. For a cluster (docs/how-to/cluster.md): `weboid` (every command, and
# replay up to the level images), `playback` (weboid with pywb, for the level full) and `replay` (the replay
# server with pywb, without a browser). For one machine (docs/how-to/container.md): `single`, which is built
# when no target is named.

FROM python:3.11-slim-bookworm AS base
ENV LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
RUN groupadd --gid 1000 weboid \
    && useradd --uid 1000 --gid 1000 --create-home weboid \
    && install -d -o weboid -g weboid /logs /collection /collection/db /collection/db/lists \
        /collection/cache /collection/cache/quality \
    # Services that must not read these mount an empty folder over them.
    && install -d -m 700 -o weboid -g weboid /collection/ca /collection/logins
WORKDIR /app

# Wheels exist for x86-64; on other platforms a few libraries are compiled, in stages that are not part of the images.
FROM base AS builder
RUN apt-get update \
    && apt-get install --yes --no-install-recommends build-essential libffi-dev libssl-dev
COPY deploy/from-lock /usr/local/bin/

FROM builder AS main-packages
# The main packages and those of the extra s3.
COPY requirements/s3.txt requirements/
RUN from-lock /opt/weboid requirements/s3.txt
COPY . .
RUN /opt/weboid/bin/pip install --no-cache-dir --no-deps --no-build-isolation --editable . \
    && /opt/weboid/bin/python -m compileall -q .

FROM builder AS pywb-packages
COPY requirements/replay.txt requirements/
RUN from-lock /opt/replay requirements/replay.txt

FROM base AS weboid
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        chromium fontconfig fonts-dejavu-core fonts-noto-core fonts-noto-cjk fonts-noto-color-emoji \
        util-linux \
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

# For commands that show copies at the level full: `weboid serve --full`, `weboid qa --full`.
FROM weboid AS playback
COPY --from=pywb-packages /opt/replay /opt/replay
ENV WEBOID_REPLAY_PYTHON=/opt/replay/bin/python

FROM base AS replay
COPY --from=main-packages /opt/weboid /opt/weboid
COPY --from=main-packages /app /app
COPY --from=pywb-packages /opt/replay /opt/replay
ENV PATH=/opt/weboid/bin:$PATH WEBOID_REPLAY_PYTHON=/opt/replay/bin/python
USER weboid
ENTRYPOINT ["python", "-m", "playback.replay"]
CMD ["--help"]

FROM playback AS single
COPY deploy/single/container-entry /usr/local/bin/
ENV WEBOID_COLLECTION=/collection
EXPOSE 8080 8081
ENTRYPOINT ["container-entry"]
CMD ["--help"]
