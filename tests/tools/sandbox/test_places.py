"""What commands do not see, wherever it lies, and what becomes of further folders that go away."""

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.tools.sandbox import mount_paths
from ebbtide.tools.sandbox.boundary import PathAccess
from ebbtide.tools.sandbox.mount_paths import compute_path_access
from ebbtide.tools.sandbox.system import NoSandbox, detect_sandbox
from tests.kit.files import write_files
from tests.tools.sandbox.test_sandbox import place

__all__ = ["place"]


@pytest.fixture
def base(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a home that has nothing in it, and one to work in."""
    for name in ("home", "work"):
        (place / name).mkdir()
    monkeypatch.setattr(mount_paths, "_user_database_home", lambda: place / "home")
    return place


def seen(base: Path, *more: Path) -> dict[str, PathAccess]:
    """What is said of places below the folder."""
    found = compute_path_access(base / "work", more, base / "home", (), ())
    return {path.removeprefix(f"{base}/"): access for path, access in found.items() if path.startswith(f"{base}/")}


def made(base: Path, *names: str) -> None:
    write_files(base, names, "kept\n")


def test_keys_are_hidden_where_variables_say_that_they_are(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(base, "settings/gh/hosts.yml", "keys/kube/config", "keys/two", "rust/credentials.toml", "work/in", "home/.x")
    for name, value in {
        "XDG_CONFIG_HOME": base / "settings",
        "KUBECONFIG": f"{base}/keys/kube/config:{base}/keys/two:{base}/work/in:relative:{base}/absent",
        "CARGO_HOME": base / "rust",
        "CODEX_HOME": base / "home",
        "HISTFILE": os.devnull,
        "NETRC": base / "home" / ".x",
    }.items():
        monkeypatch.setenv(name, str(value))
    hidden: dict[str, PathAccess] = {
        "settings/gh": "hidden folder",
        "keys/kube/config": "hidden file",
        "keys/two": "hidden file",
        "rust/credentials.toml": "hidden file",
    }
    assert seen(base) == {"work": "write", "home/.x": "hidden file", **hidden}
    monkeypatch.setenv("EBB_PASS_ENV", "NETRC CARGO_*")
    assert seen(base) == {"work": "write", **hidden}


def test_keys_are_hidden_below_the_home_that_the_system_knows_too(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(base, "real/.ssh/id", "home/.netrc")
    monkeypatch.setattr(mount_paths, "_user_database_home", lambda: base / "real")
    assert seen(base) == {"work": "write", "real/.ssh": "hidden folder", "home/.netrc": "hidden file"}


def test_further_folders_that_are_gone_or_links_by_now_are_none(base: Path) -> None:
    for name in ("one", "elsewhere"):
        (base / name).mkdir()
    (base / "link").symlink_to("elsewhere")
    assert seen(base, base / "one", base / "gone", base / "link") == {"work": "write", "one": "write"}


@pytest.fixture
def serving_elsewhere(base: Path) -> Iterator[Path]:
    """The socket of a program with a network of its own, such as one in a container."""
    serves = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('s'); s.listen(); print(flush=True); s.accept()"
    around = ("unshare", "--user", "--map-root-user", "--net", sys.executable, "-c", serves)
    with subprocess.Popen(around, cwd=base / "home", stdout=subprocess.PIPE, stdin=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        yield base / "home" / "s"
        server.kill()


@pytest.mark.skipif(isinstance(detect_sandbox(), NoSandbox), reason="programs get no network of their own here")
def test_sockets_of_programs_with_another_network_are_hidden(base: Path, serving_elsewhere: Path) -> None:
    assert seen(base) == {"work": "write", "home/s": "hidden file"}


def test_a_socket_that_appears_between_two_commands_is_hidden_from_the_second(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(base, "home/.agent/kept")
    assert seen(base) == {"work": "write"}
    monkeypatch.chdir(base)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind("home/.agent/s")
        assert seen(base) == {"work": "write", "home/.agent/s": "hidden file"}


def test_keys_that_appear_between_two_commands_are_hidden_from_the_second(base: Path) -> None:
    assert seen(base) == {"work": "write"}
    made(base, "home/.ssh/id", "home/.config/gh/hosts.yml")
    assert seen(base) == {"work": "write", "home/.ssh": "hidden folder", "home/.config/gh": "hidden folder"}


@pytest.mark.skipif(isinstance(detect_sandbox(), NoSandbox), reason="programs get no network of their own here")
def test_sockets_of_a_program_that_moves_to_another_network_after_a_command_are_hidden(base: Path) -> None:
    serves = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('s'); s.listen(); print(flush=True); s.accept()"
    moves = f"read _; exec unshare --user --map-root-user --net {shlex.join((sys.executable, '-c', serves))}"
    with subprocess.Popen(
        ("/bin/sh", "-c", moves), cwd=base / "home", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert seen(base) == {"work": "write"}
        server.stdin.write(b"\n")
        server.stdin.flush()
        server.stdout.readline()
        assert seen(base) == {"work": "write", "home/s": "hidden file"}
        server.kill()
