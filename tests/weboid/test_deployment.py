"""docker-compose.yml and Dockerfile say what the program does, and no more is open than must be."""

import json
import os
import re
import stat
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner

from core.clock import SystemClock
from core.config.settings import LinksSettings
from crawler.collection import open_collection
from crawler.profiles import load_profile
from render.browser_process import privilege_prefix
from weboid.cli.main import weboid
from weboid.cli.support.child_commands import ChildCommandOptions, watch_children

ROOT = Path(__file__).resolve().parents[2]
ALONE = ChildCommandOptions(Path("c"), "default")
OURS = (*("proxy", "worker", "replay", "front", "checker", "confirmer", "watcher", "scanner", "lists"), "qa")
# The parts of `weboid wiki watch` that are services of their own, and what each runs.
SERVED = {
    "archive": "worker",
    "check": "checker",
    "confirm": "confirmer",
    "serve": "front",
    "scan": "scanner",
    "lists": "lists",
}
NO_KEYS = {"/collection/ca", "/collection/logins"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """Parse docker-compose.yml."""
    document: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return document


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, Any]:
    """Return the services of docker-compose.yml."""
    section: dict[str, Any] = compose["services"]
    return section


def test_the_set_is_complete(services: dict[str, Any]) -> None:
    """One service for each part of the architecture."""
    assert set(services) == {"redis", "postgres", "clamd", *OURS}


def test_whatever_runs_on_one_machine_runs_here(services: dict[str, Any]) -> None:
    """Each part that watching a wiki starts is the watcher's, or a service of its own; not both."""
    command = services["watcher"]["command"]
    without = {each.partition("=")[2] for each in command if each.startswith("--without=")}
    shared = ChildCommandOptions(
        Path("c"), "default", frontier_url="redis://r", database_url="postgresql://p", without=frozenset(without)
    )
    links = LinksSettings(archives=("wayback",), mirror="failed")
    here = {part.name for part in watch_children(shared, links)}
    alone = {part.name for part in watch_children(replace(ALONE, serve=("127.0.0.1", 1)), links)}

    assert "--feed-only" not in command
    # Lists of bad addresses are files beside a collection's own index: docs/how-to/cluster.md.
    assert alone - {"lists"} <= here | SERVED.keys()
    assert not here & SERVED.keys()
    assert set(SERVED.values()) <= services.keys()


@pytest.mark.parametrize("name", [each for each in OURS if each != "replay"])
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

    targets = {services[name]["build"]["target"] for name in OURS}
    assert targets == {"weboid", "replay", "playback"} <= stages
    assert locks == ["requirements/s3.txt", "requirements/replay.txt"]
    assert len(installs) == 2
    assert all("--require-hashes" in each for each in installs)
    assert all((ROOT / each).exists() for each in copied(dockerfile))
    assert "--no-sandbox" not in dockerfile


def test_what_resolves_the_locks_is_locked_itself() -> None:
    """`make lock` runs a program of a known version and hash, like everything else."""
    script = (ROOT / "scripts" / "lock").read_text().replace("\\\n", " ")
    installs = re.findall(r"pip install.*", script)
    assert len(installs) == 1
    assert "--require-hashes" in installs[0]
    assert "-r requirements/lock.txt" in installs[0]
    assert re.search(r"^uv==[\d.]+ \\\n +--hash=", (ROOT / "requirements/lock.txt").read_text(), re.MULTILINE)


def test_the_image_for_one_machine_is_built_by_default() -> None:
    """The last stage: an ordinary user, the collection in the volume, `weboid` with any arguments."""
    stages = (ROOT / "Dockerfile").read_text().split("\nFROM ")
    assert stages[-1].startswith("playback AS single\n")
    assert "USER" not in stages[-1]  # that of the stage `weboid`
    assert "ENV WEBOID_COLLECTION=/collection\n" in stages[-1]
    assert 'ENTRYPOINT ["container-entry"]\n' in stages[-1]


def test_the_entry_of_the_image_serves_on_all_addresses(tmp_path: Path) -> None:
    """`serve` gets options that it knows, before those that are given; nothing else is changed."""
    (tmp_path / "weboid").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "weboid").chmod(0o755)
    entry = ROOT / "deploy" / "single" / "container-entry"
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "WEBOID_ORIGIN": "https://a.example"}

    def entered(*arguments: str) -> list[str]:
        done = subprocess.run([entry, *arguments], capture_output=True, text=True, check=True, env=environ)
        return done.stdout.splitlines()

    served = entered("serve", "--port", "9000")
    assert served[0] == "serve"
    assert served[-2:] == ["--port", "9000"]
    assert "--origin=https://a.example" in served
    known = CliRunner().invoke(weboid, ["serve", "--help"]).output
    assert {each.partition("=")[0] for each in served[1:-2]} <= set(re.findall(r"--[a-z-]+", known))
    assert entered("archive", "https://a.example/x y") == ["archive", "https://a.example/x y"]


def test_the_build_is_given_every_package() -> None:
    """.dockerignore shuts out everything that it does not name, so a new package must be named."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    include = project["tool"]["setuptools"]["packages"]["find"]["include"]
    named = set((ROOT / ".dockerignore").read_text().splitlines())
    packages = {each.rstrip("*") for each in include} - {"requirements"}

    assert {f"!{each}" for each in packages} <= named
    copied_files = [each for each in copied((ROOT / "Dockerfile").read_text()) if each != "."]
    for each in copied_files:
        assert {f"!{each}", f"!{Path(each).parent}/*.txt"} & named, each


def copied(dockerfile: str) -> list[str]:
    """Return the paths that the build copies from the project."""
    lines = re.findall(r"^COPY (?!--from)(.*) \S+$", dockerfile, flags=re.MULTILINE)
    return [each for line in lines for each in line.split()]


def test_few_ports_are_published_and_only_to_this_machine(services: dict[str, Any]) -> None:
    """Whoever wants more puts a web server before them."""
    published = {name: each["ports"] for name, each in services.items() if "ports" in each}

    assert set(published) == {"front", "replay", "watcher"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)


def test_the_browsers_network_leads_to_proxies_and_stores_only(
    compose: dict[str, Any], services: dict[str, Any]
) -> None:
    """Workers have no way out, readers' services none to the web; only proxies, checkers and watchers have."""
    inside = {name for name, each in compose["networks"].items() if (each or {}).get("internal")}

    assert set(services["worker"]["networks"]) <= inside
    assert [name for name, each in services.items() if "web" in each["networks"]] == ["proxy", "checker", "watcher"]
    assert set(services["redis"]["networks"]) == set(services["postgres"]["networks"]) == {"stores"}
    assert services["worker"]["volumes"] == ["logs:/logs"]
    # What reads archived files, and what looks at them for it, meet nobody else.
    assert services["scanner"]["networks"] == ["stores", "scanning"]
    assert services["clamd"]["networks"] == ["scanning", "signatures"]
    assert set(services["qa"]["networks"]) <= inside


@pytest.mark.parametrize("name", OURS)
def test_our_containers_may_do_little(services: dict[str, Any], name: str) -> None:
    """Read-only, without capabilities, started again, watched; never privileged."""
    service = services[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not {"privileged", "network_mode", "pid"} & service.keys()
    assert name == "worker" or not {"cap_add", "user"} & service.keys()
    if name != "qa":  # it is run when it is called
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
    """Only proxies write; others have small volumes of their own for what they keep."""
    mounts = {name: each.get("volumes", []) for name, each in services.items() if name in OURS}

    assert mounts == {
        "proxy": ["collection:/collection"],
        "worker": ["logs:/logs"],
        "replay": ["collection:/collection:ro", "lists:/collection/db/lists:ro"],
        "front": [
            "collection:/collection:ro",
            "keys:/collection/db",
            "lists:/collection/db/lists:ro",
            "quality:/collection/cache/quality:ro",
        ],
        "checker": [],
        "confirmer": ["collection:/collection:ro"],
        "watcher": [
            "collection:/collection:ro",
            "keys:/collection/db",
            "lists:/collection/db/lists:ro",
            "./deploy/wikis:/wikis:ro",
        ],
        "scanner": ["collection:/collection:ro"],
        "lists": ["collection:/collection:ro", "lists:/collection/db/lists", "./deploy/lists:/lists:ro"],
        "qa": ["collection:/collection:ro", "lists:/collection/db/lists:ro", "quality:/collection/cache/quality"],
    }


@pytest.mark.parametrize("name", OURS)
def test_only_proxies_see_the_authority_and_the_logins(services: dict[str, Any], name: str) -> None:
    """Whoever else mounts the collection has an empty folder over each of them."""
    mounts = [each.partition(":")[2] for each in services[name].get("volumes", [])]
    if name == "proxy" or not any(each.startswith("/collection") for each in mounts):
        return
    covered = {each.partition(":")[0] for each in services[name]["tmpfs"]}
    assert covered == {"/tmp", *NO_KEYS}


async def test_a_new_volume_has_a_place_for_every_mount(services: dict[str, Any], tmp_path: Path) -> None:
    """A read-only collection gets no folder later, so a new one has them, and so has the image."""
    targets = {each.split(":")[1] for name in OURS for each in services[name].get("volumes", [])}
    targets = {each for each in targets | NO_KEYS if each.startswith("/collection/")}
    made = re.findall(r"/collection/[a-z/]+", (ROOT / "Dockerfile").read_text())
    assert targets <= set(made)

    root = tmp_path / "collection"
    for each in made:  # Docker fills a new volume with what the image has there
        (tmp_path / each[1:]).mkdir(parents=True, exist_ok=True)
    async with open_collection(root, clock=SystemClock(), shared=True) as collection:
        assert collection.layout.marker.exists()
    async with open_collection(tmp_path / "older", clock=SystemClock()):
        assert all((tmp_path / "older" / each.removeprefix("/collection/")).is_dir() for each in made)
    for name in ("ca", "logins"):
        assert stat.S_IMODE((tmp_path / "older" / name).stat().st_mode) == 0o700


def secrets_of(service: dict[str, Any]) -> set[str]:
    """Return the names of the secrets that the service is given."""
    given = service.get("secrets", [])
    return {each if isinstance(each, str) else each["source"] for each in given}


def test_a_browser_cannot_enter_the_folder_of_the_workers_secrets(services: dict[str, Any], tmp_path: Path) -> None:
    """It runs as "nobody"; the folder is root's, as Compose mounts it over what the image has."""
    worker = services["worker"]
    targets = {Path(each["target"]).parent for each in worker["secrets"]}
    assert worker["user"] == "0:0"
    assert targets == {Path("/run/weboid")}
    assert "/run/weboid:size=64k,mode=0700" in worker["tmpfs"]

    if os.geteuid() != 0:
        pytest.skip("only root becomes somebody else")
    for folder in (*list(tmp_path.parents)[:2], tmp_path):
        folder.chmod(0o711)
    inside = tmp_path / "weboid"
    inside.mkdir(mode=0o700)
    secret = inside / "cluster"
    secret.write_text("secret")
    secret.chmod(0o444)  # as make-secrets leaves it
    prefix = privilege_prefix(root=True, executable=Path("/nowhere/chromium"))
    command = [*with_capabilities(worker), *prefix, "cat", str(secret)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    capabilities = subprocess.run(
        [*with_capabilities(worker), *prefix, "grep", "CapEff", "/proc/self/status"],
        capture_output=True,
        text=True,
        check=True,
    )
    own = subprocess.run([*with_capabilities(worker), "cat", str(secret)], check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert "Permission denied" in done.stderr
    assert int(capabilities.stdout.split()[1], 16) == 0
    assert own.returncode == 0


def with_capabilities(service: dict[str, Any]) -> list[str]:
    """Return the command that limits a root process to the capabilities of the service."""
    given = ",".join(["-all", *(f"+{each.lower()}" for each in service["cap_add"])])
    return ["setpriv", f"--bounding-set={given}", "--no-new-privs"]


@pytest.mark.browser
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives up capabilities")
def test_a_browser_starts_and_ends_with_the_workers_capabilities(services: dict[str, Any]) -> None:
    """As somebody else, whose folders are made and removed."""
    code = "import asyncio; from tests.weboid.under_seccomp import title_seen;print(asyncio.run(title_seen()))"
    done = subprocess.run(
        [*with_capabilities(services["worker"]), sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "here\n"


def test_the_scanners_container_keeps_what_its_start_script_needs(services: dict[str, Any]) -> None:
    """It gives its folder to the user as whom the scanner runs, and becomes that user."""
    clamd = services["clamd"]
    assert clamd["cap_drop"] == ["ALL"]
    assert set(clamd["cap_add"]) == {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}
    assert clamd["security_opt"] == ["no-new-privileges:true"]


def test_each_service_has_the_secrets_of_its_work(services: dict[str, Any]) -> None:
    """A superuser's password is nobody's; who only reads cannot write (docs/how-to/cluster.md)."""
    assert {name: secrets_of(each) for name, each in services.items()} == {
        "redis": {"redis.conf"},
        "postgres": {"postgres", "postgres-write", "postgres-read"},
        "clamd": set(),
        "proxy": {"cluster", "frontier", "dedup", "database-write"},
        "worker": {"cluster", "frontier", "database-read"},
        "replay": {"database-read"},
        "front": {"frontier-read", "database-write"},
        "checker": {"database-write"},
        "confirmer": {"frontier", "database-write"},
        "watcher": {"frontier", "database-write", "notify"},
        "scanner": {"database-write"},
        "lists": {"database-write"},
        "qa": {"cluster", "frontier", "database-write"},
    }


def test_the_front_knows_what_waits_and_workers_keep_logs(services: dict[str, Any]) -> None:
    """Queued, waiting and given up are told from the frontier; logs outlive their container."""
    assert services["front"]["environment"]["WEBOID_FRONTIER"] == "@/run/secrets/frontier-read"
    assert not [each for each in services["front"]["command"] if each.startswith("--links-reports")]
    assert "--reports=/logs" in services["worker"]["command"]


def test_the_database_makes_its_roles_when_it_is_new(services: dict[str, Any]) -> None:
    """By the script that other tests run against a real server."""
    mounts = services["postgres"]["volumes"]
    assert "./deploy/postgres-roles:/docker-entrypoint-initdb.d/10-weboid-roles.sh:ro" in mounts
    assert os.access(ROOT / "deploy" / "postgres-roles", os.X_OK)  # else the image would source it


def test_redis_keeps_what_it_acknowledged_and_forgets_nothing(services: dict[str, Any]) -> None:
    """The frontier lives there."""
    command = " ".join(services["redis"]["command"])

    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command


def test_everything_that_is_mounted_is_there_or_made(compose: dict[str, Any], tmp_path: Path) -> None:
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
    assert made["redis-frontier"] in made["frontier"]
    addresses = [made[name] for name in ("frontier", "frontier-read", "dedup")]
    assert not [each for each in addresses if made["redis"] in each]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for each in compose["configs"].values():
        load_profile(str(ROOT / each["file"]))


def test_no_secret_stands_in_the_file(services: dict[str, Any]) -> None:
    """Addresses with passwords are named by file, and each is given only to who needs it."""
    for name, service in services.items():
        for key, value in service.get("environment", {}).items():
            if key == "WEBOID_CONTACT":  # for everybody to read
                continue
            if key == "WEBOID_DEDUP" and "@" not in value:
                continue  # an address without a password
            if key.startswith("WEBOID_") or "PASSWORD" in key:
                folder, _, secret = value.removeprefix("@").rpartition("/")
                assert folder == ("/run/weboid" if name == "worker" else "/run/secrets"), key
                assert secret in secrets_of(service)


def test_whoever_asks_sites_is_told_the_contact(services: dict[str, Any]) -> None:
    """From the environment of `docker compose`: their containers have no collection to read it from."""
    for name in ("worker", "checker", "confirmer", "watcher", "front"):
        assert services[name]["environment"]["WEBOID_CONTACT"] == "${WEBOID_CONTACT:-}", name


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
