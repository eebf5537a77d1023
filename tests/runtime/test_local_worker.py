"""Who can reach the worker of a local run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.runtime.test_context import compute
from tff_esn.runtime import worker_supervisor
from tff_esn.runtime.context import load_tff

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
#: Connects to each address given, and says who answers.
KNOCK = f"""
import socket, sys
for address in sys.argv[1:]:
    local = address[0] == "@"
    place = chr(0) + address[1:] if local else (address, {worker_supervisor.PORT})
    with socket.socket(socket.AF_UNIX if local else socket.AF_INET) as knocking:
        knocking.settimeout(5)
        try:
            knocking.connect(place)
            knocking.sendall({GREETING!r})
            print("answer" if knocking.recv(1) else "refused")
        except OSError as error:
            print("refused")
"""

#: Namespaces need a kernel that lets us make them.
hidden = pytest.mark.skipif(
    subprocess.run(
        [sys.executable, "-c", "import sys; from tff_esn.runtime.worker_supervisor import hide; sys.exit(not hide())"]
    ).returncode
    != 0,
    reason="this user may make no network namespace",
)


def worker() -> psutil.Process:
    """The worker of this process."""
    (pid,) = compute(2)
    return psutil.Process(pid)


def door() -> str:
    """The name of the socket behind which it is."""
    parent = worker().parent()
    assert parent is not None
    inodes = {os.readlink(link) for link in Path(f"/proc/{parent.pid}/fd").iterdir()}
    for line in Path("/proc/net/unix").read_text().splitlines():
        fields = line.split()
        if f"socket:[{fields[6]}]" in inodes and fields[-1].startswith("@tff-esn-"):
            return fields[-1]
    raise AssertionError("no such socket")


def knock(*addresses: str, before: tuple[str, ...] = ()) -> list[str]:
    command = [*before, sys.executable if not before else "/usr/bin/python3", "-c", KNOCK, *addresses]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def own_addresses() -> list[str]:
    return [one.address for own in psutil.net_if_addrs().values() for one in own if one.family == socket.AF_INET]


@hidden
def test_no_address_of_this_host_leads_to_the_worker() -> None:
    pid = worker().pid
    assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
    addresses = own_addresses()
    assert "127.0.0.1" in addresses
    assert knock(*addresses) == ["refused"] * len(addresses)
    sockets = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    listening = [
        line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()
    ]
    assert not [line for line in listening if f"socket:[{line[9]}]" in sockets]
    # The worker's own network has nothing but a loopback device.
    devices = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in devices] == ["lo"]


@hidden
def test_the_door_is_open_for_this_user_alone() -> None:
    address = door()
    assert knock(address) == ["answer"]
    setpriv = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    if os.getuid() != 0 or subprocess.run([*setpriv, "/usr/bin/python3", "-c", ""]).returncode != 0:
        pytest.skip("needs root, who can be somebody else")
    assert knock(address, before=setpriv) == ["refused"]


@hidden
def test_another_network_namespace_has_no_such_door() -> None:
    unshare = ("unshare", "--net") if os.getuid() == 0 else ("unshare", "--net", "--user")
    if subprocess.run([*unshare, "/usr/bin/python3", "-c", ""]).returncode != 0:
        pytest.skip("needs unshare")
    assert knock(door(), before=unshare) == ["refused"]


def test_an_ordinary_user_can_hide_too(tmp_path: Path) -> None:
    if os.getuid() != 0 or not Path("/usr/bin/python3").exists():
        pytest.skip("needs root, who can become an ordinary user")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "import worker_supervisor as own; print(own.hide(), own._listens(1))"
    )
    copy = tmp_path / "worker_supervisor.py"
    copy.write_text(Path(worker_supervisor.__file__).read_text())
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == tmp_path.owner() and folder != Path(folder.anchor) and "pytest" in folder.as_posix():
            folder.chmod(0o755)
    command = [
        "setpriv",
        "--reuid=1234",
        "--regid=1234",
        "--clear-groups",
        "/usr/bin/python3",
        "-Bc",
        program,
        tmp_path,
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.stdout.startswith("False"):
        pytest.skip("ordinary users may make no network namespace here")
    assert result.stdout == "True False\n", result.stderr


def test_where_it_cannot_hide_a_run_says_so(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    from tff_esn.runtime.local_worker import HiddenWorker

    open_worker = tmp_path / "worker"
    # A keeper's worker that listens, and a keeper that finds no namespace: it asks for one in its own program.
    open_worker.write_text(
        f"#!{sys.executable}\nimport socket, sys, time\n"
        "listening = socket.create_server(('', int(sys.argv[1].partition('=')[2])))\ntime.sleep(60)\n"
    )
    open_worker.chmod(0o755)
    program = tmp_path / "worker_supervisor.py"
    program.write_text(Path(worker_supervisor.__file__).read_text().replace('if sys.platform != "linux":', "if True:"))
    caplog.clear()
    before, worker_supervisor.__file__ = worker_supervisor.__file__, str(program)
    one = HiddenWorker(open_worker)
    try:
        one.address()
    finally:
        worker_supervisor.__file__ = before
        one.end()
    assert "listens on all interfaces" in caplog.text


def test_a_computation_that_ends_its_worker_is_given_up() -> None:
    tff = load_tff()
    import tensorflow as tf

    @tff.tensorflow.computation
    def fatal() -> tf.Tensor:
        with tf.control_dependencies([tf.raw_ops.Abort(error_msg="on purpose")]):
            return tf.constant(0)

    with pytest.raises(RuntimeError, match="ended 3 times"):
        fatal()
