"""`worker` and `--workers` as a user has them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from tests.commands import run_here
from tests.runtime.fleet import PORT, Host, hosts
from tests.runtime.test_context import ends
from tff_esn.cli.main import app
from tff_esn.cli.worker import fleet_of
from tff_esn.datasets.synthetic.wesad import write_wesad
from tff_esn.errors import ConfigError

DEPLOY = Path(__file__).parents[2] / "deploy"
ROUNDS = ("--clients-per-round", 3, "--rounds", 3, "--seeds", 1)
FEDERATE = ("--preset", "corrected", "--columns", "tEDA", "--split", "leave-out-S6", *ROUNDS)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def study(work: Path) -> Path:
    write_wesad(work / "five", subjects=5, minutes=5.0)
    return work / "five"


@pytest.fixture(scope="module")
def two(work: Path) -> Iterator[list[Host]]:
    (work / "data").mkdir()
    with hosts(work / "certificates", 2, ["--data", str(work / "data")]) as running:
        yield running


def tff_esn(work: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return run_here(*arguments, TFF_ESN_CACHE=str(work / "cache"), TFF_ESN_RUNS=str(work / "runs"))


@pytest.fixture(scope="module")
def local(study: Path, work: Path) -> str:
    """What a run on this host alone prints."""
    result = tff_esn(work, "federate", "fedavg", study, *FEDERATE)
    assert result.returncode == 0, result.stderr
    return result.stdout


def fleet(work: Path, two: list[Host]) -> tuple[object, ...]:
    """The options that name the hosts."""
    workers = ",".join(f"{host.address}:{PORT}" for host in two)
    return ("--workers", workers, "--certificates", work / "certificates" / "coordinator")


def test_rounds_on_workers(study: Path, work: Path, two: list[Host], local: str) -> None:
    shared = tff_esn(work, "federate", "fedavg", study, *FEDERATE, *fleet(work, two))
    assert shared.stdout == local, shared.stderr


@pytest.mark.slow
def test_files_on_the_workers_own_disks(study: Path, work: Path, two: list[Host], local: str) -> None:
    missing = tff_esn(work, "federate", "fedavg", study, *FEDERATE, *fleet(work, two), "--worker-data", "states")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert ".f32: not on" in missing.stderr and "Traceback" not in missing.stderr
    written = tff_esn(work, "federate", "fedavg", study, *FEDERATE, "--clients-only", work / "data" / "states")
    assert written.returncode == 0, written.stderr
    own = tff_esn(work, "federate", "fedavg", study, *FEDERATE, *fleet(work, two), "--worker-data", "states")
    assert own.stdout == local, own.stderr


def test_the_door_must_be_chosen(study: Path, work: Path) -> None:
    for command in (("worker", "--port", PORT), ("federate", "fedavg", "-q", study, "--workers", "alpha:1")):
        refused = tff_esn(work, *command)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
        assert "certificates" in refused.stderr
    gone = tff_esn(work, "worker", "--port", PORT, "--certificates", work / "nowhere")
    assert "ca.pem: no such file" in gone.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_worker_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    with hosts(tmp_path, 1) as (host,):
        worker = host.worker()
        assert host.process is not None
        os.kill(host.process.pid, number)
        assert ends(worker.pid)
        host.process.communicate(timeout=10)


def test_in_the_clear_only_when_asked_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    options = ["--host", "127.0.0.1", "--port", str(port), "--insecure-anyone-may-run-code"]
    process = subprocess.Popen([sys.executable, "-m", "tff_esn", "worker", *options], stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        assert b"without TLS: anyone who can connect can run code" in process.stderr.readline()
    finally:
        process.kill()
        process.communicate()


def test_init_adds_and_never_replaces(tmp_path: Path, work: Path) -> None:
    first = tff_esn(work, "worker", "init", tmp_path, "--name", "alpha")
    assert [Path(line).name for line in first.stdout.splitlines()] == ["coordinator", "alpha"]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.pem")}
    second = tff_esn(work, "worker", "init", tmp_path, "--name", "alpha", "--name", "beta,10.0.0.7")
    assert [Path(line).name for line in second.stdout.splitlines()] == ["beta"]
    assert {path: path.read_bytes() for path in before} == before


def test_deployments_start_workers_that_exist() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    commands = [service["command"] for service in compose["services"].values() if "command" in service]
    manifests = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    assert [one["kind"] for one in manifests] == ["Service", "NetworkPolicy", "StatefulSet"]
    (container,) = manifests[2]["spec"]["template"]["spec"]["containers"]
    worker = get_command(app).commands["worker"]  # type: ignore[attr-defined]
    for name, *options in [*commands, container["args"]]:
        assert name == "worker"
        assert worker.make_context(name, list(options), resilient_parsing=False).params["port"] == PORT
    labels = manifests[2]["spec"]["template"]["metadata"]["labels"]
    assert manifests[0]["spec"]["selector"] == labels
    assert manifests[1]["spec"]["podSelector"]["matchLabels"] == labels
    assert {port["port"] for port in manifests[1]["spec"]["ingress"][0]["ports"]} == {PORT}
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    volumes = manifests[2]["spec"]["template"]["spec"]["volumes"] + [
        claim["metadata"] for claim in manifests[2]["spec"]["volumeClaimTemplates"]
    ]
    assert mounted == {volume["name"] for volume in volumes}


def test_workers_come_from_options_or_from_the_file_of_settings() -> None:
    options = {
        "workers": None,
        "config": Path("mine.toml"),
        "fleet": {"workers": ["a:1"], "insecure": True, "slots": 3},
    }
    found = fleet_of(options)
    assert found is not None and (found.workers, found.slots) == (("a:1",), 3)
    assert fleet_of({"workers": None, "config": None, "fleet": None}) is None
    with pytest.raises(ConfigError, match=r"workers are set by --workers and by mine.toml; expected one of them"):
        fleet_of({**options, "workers": "b:2"})
    with pytest.raises(ConfigError, match=r"mine.toml: no setting 'slot'; did you mean 'slots'"):
        fleet_of({**options, "fleet": {"workers": ["a:1"], "insecure": True, "slot": 3}})
