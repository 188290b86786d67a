"""docker-compose.yml and Dockerfile say what the program does, and no more is open than must be."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner

from core.profile import parse_settings
from crawler.cli import weboid

ROOT = Path(__file__).resolve().parents[2]
OURS = ("proxy", "worker", "replay", "front", "checker", "confirmer", "watcher")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The file, parsed."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return found


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, Any]:
    """Its services."""
    found: dict[str, Any] = compose["services"]
    return found


def test_the_set_is_complete(services: dict[str, Any]) -> None:
    """One service for each part of the architecture."""
    assert set(services) == {"redis", "postgres", *OURS}


@pytest.mark.parametrize("name", ["proxy", "worker", "front", "checker", "confirmer", "watcher"])
def test_each_command_knows_its_options(services: dict[str, Any], name: str) -> None:
    """A flag that was renamed must not be found out by a container that does not start."""
    command = [re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", each) for each in services[name]["command"]]
    ran = CliRunner().invoke(weboid, [*command, "--help"])
    known = set(re.findall(r"--[a-z-]+", ran.output))

    assert ran.exit_code == 0, ran.output
    given = {each.partition("=")[0] for each in command if each.startswith("--")}
    assert given <= known


def test_replay_knows_its_options(services: dict[str, Any]) -> None:
    """It is started by its module, in its own environment."""
    source = (ROOT / "playback" / "replay" / "__main__.py").read_text()
    for each in services["replay"]["command"]:
        assert f'"{each.partition("=")[0]}"' in source


@pytest.mark.parametrize("name", ["proxy", "worker"])
def test_each_healthcheck_is_a_command(services: dict[str, Any], name: str) -> None:
    """`weboid alive` with the kind that the service is."""
    test = services[name]["healthcheck"]["test"]
    ran = CliRunner().invoke(weboid, [*test[2:], "--help"])

    assert test[:2] == ["CMD", "weboid"]
    assert test[-1] == name
    assert ran.exit_code == 0, ran.output


def test_each_image_is_built_from_a_stage_that_exists(services: dict[str, Any]) -> None:
    """Two targets, from the locked requirements with their hashes."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", dockerfile, flags=re.MULTILINE))
    locks = re.findall(r"^RUN from-lock \S+ (\S+)$", dockerfile, flags=re.MULTILINE)
    installs = re.findall(r"pip\" install.*", (ROOT / "deploy" / "from-lock").read_text())

    assert {services[name]["build"]["target"] for name in OURS} == {"weboid", "replay"} <= stages
    assert locks == ["requirements/main.txt", "requirements/replay.txt"]
    assert len(installs) == 2
    assert all("--require-hashes" in each for each in installs)
    assert all((ROOT / each).exists() for each in copied(dockerfile))
    assert "--no-sandbox" not in dockerfile


def copied(dockerfile: str) -> list[str]:
    """What the build takes from the project."""
    lines = re.findall(r"^COPY (?!--from)(.*) \S+$", dockerfile, flags=re.MULTILINE)
    return [each for line in lines for each in line.split()]


def test_only_the_readers_ports_are_published_and_only_to_this_machine(
    services: dict[str, Any],
) -> None:
    """Whoever wants more puts a web server before them."""
    published = {name: each["ports"] for name, each in services.items() if "ports" in each}

    assert set(published) == {"front", "replay"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)


def test_the_browsers_network_leads_to_proxies_and_stores_only(
    compose: dict[str, Any], services: dict[str, Any]
) -> None:
    """Workers have no way out, readers' services none to the web; only proxies, checkers and watchers have."""
    inside = {name for name, each in compose["networks"].items() if (each or {}).get("internal")}

    assert set(services["worker"]["networks"]) <= inside
    assert [name for name, each in services.items() if "web" in each["networks"]] == [
        "proxy",
        "checker",
        "watcher",
    ]
    assert set(services["redis"]["networks"]) == set(services["postgres"]["networks"]) == {"stores"}
    assert "volumes" not in services["worker"]


@pytest.mark.parametrize("name", OURS)
def test_our_containers_may_do_little(services: dict[str, Any], name: str) -> None:
    """Read-only, without capabilities, started again, watched; never privileged."""
    service = services[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not {"privileged", "cap_add", "network_mode", "pid"} & service.keys()
    assert service["restart"] == "unless-stopped"
    assert service["healthcheck"]["test"]
    assert "unconfined" not in str(service)


def test_the_images_run_as_an_ordinary_user() -> None:
    """In each final stage."""
    stages = (ROOT / "Dockerfile").read_text().split("\nFROM ")
    for name in ("weboid", "replay"):
        (stage,) = [each for each in stages if each.startswith(f"base AS {name}\n")]
        assert "\nUSER weboid\n" in stage


def test_readers_see_the_collection_and_cannot_change_it(services: dict[str, Any]) -> None:
    """Only proxies write."""
    mounts = {name: each.get("volumes", []) for name, each in services.items() if name in OURS}

    assert mounts == {
        "proxy": ["collection:/collection"],
        "worker": [],
        "replay": ["collection:/collection:ro"],
        "front": ["collection:/collection:ro"],
        "checker": [],
        "confirmer": ["collection:/collection:ro"],
        "watcher": [],
    }


def test_redis_keeps_what_it_acknowledged_and_forgets_nothing(services: dict[str, Any]) -> None:
    """The frontier lives there."""
    command = " ".join(services["redis"]["command"])

    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command


def test_everything_that_is_mounted_is_there_or_made(
    compose: dict[str, Any], tmp_path: Path
) -> None:
    """`deploy/make-secrets` makes every secret, once, and lets nobody else look."""
    (tmp_path / "make-secrets").write_bytes((ROOT / "deploy" / "make-secrets").read_bytes())
    command = ["/bin/sh", str(tmp_path / "make-secrets")]
    folder = tmp_path / "secrets"
    subprocess.run(command, check=True, capture_output=True)
    made = {path.name: path.read_text() for path in folder.iterdir()}
    subprocess.run(command, check=True, capture_output=True)
    again = {path.name: path.read_text() for path in folder.iterdir()}

    wanted = {each["file"].rpartition("/")[2] for each in compose["secrets"].values()}
    assert wanted <= made.keys()
    assert made == again
    assert len(made["cluster"]) == 64
    assert made["redis"] in made["frontier"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for each in compose["configs"].values():
        parse_settings((ROOT / each["file"]).read_text(), source=each["file"])


def test_no_secret_stands_in_the_file(services: dict[str, Any]) -> None:
    """Addresses with passwords are named by file, and each is given only to who needs it."""
    for name, service in services.items():
        for key, value in service.get("environment", {}).items():
            if key.startswith("WEBOID_") or "PASSWORD" in key:
                assert "/run/secrets/" in value, f"{name} {key}"
                path = value.removeprefix("@").rpartition("/")[2]
                assert path in service["secrets"]


@pytest.mark.browser
def test_the_sandbox_works_under_the_seccomp_profile() -> None:
    """The browser starts, sandbox and all, and shows a page; what no browser needs is denied."""
    script = Path(__file__).with_name("under_seccomp.py")
    profile = ROOT / "deploy" / "chromium-seccomp.json"
    done = subprocess.run(
        [sys.executable, str(script), str(profile)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"title": "here", "mounted": False}


def test_the_worker_runs_under_that_profile(services: dict[str, Any]) -> None:
    """By the path that the test above reads."""
    assert "seccomp=deploy/chromium-seccomp.json" in services["worker"]["security_opt"]
