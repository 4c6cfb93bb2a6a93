"""What a command that may only look cannot do in a real sandbox. It needs bubblewrap and leave to use it."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from ebbtide.tools.process.shell import Launch
from ebbtide.tools.sandbox.boundary import Boundary
from ebbtide.tools.sandbox.look_only import FolderListing, TooManySecretFilesError, find_secret_files
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.sandbox.system import sandbox_kind
from tests.kit.commands import ROOT
from tests.tools.sandbox import probes

pytestmark = pytest.mark.skipif(sandbox_kind() != "bubblewrap", reason="bubblewrap does not work here")
PYTHON, PREFIX = os.path.realpath(sys.executable), os.path.realpath(sys.base_prefix)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that is not in /tmp, which is another one in a sandbox."""
    cache = ROOT / ".pytest_cache"
    cache.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=Path.home() if cache.is_relative_to("/tmp") else cache) as place:
        yield Path(place).resolve()


@pytest.fixture
def boxed(place: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """A working folder beside the home folder of somebody with keys."""
    home = place / "home"
    for name in (".ssh/id_ed25519", ".aws/credentials", ".git-credentials", ".netrc", ".bashrc", "notes.txt"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("kept\n")
    monkeypatch.setenv("HOME", str(home))
    root = place / "project"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("shown\n")
    return Sandbox(root, place / "tmp")


def run(boxed: Sandbox, argv: Sequence[str], shown: Sequence[str] = ()) -> tuple[str, Boundary]:
    launch, boundary = boxed.wrap_read_only(Launch(tuple(argv), dict(os.environ)), boxed.root, shown, runs_git=False)
    ran = subprocess.run(
        launch.argv, env=launch.environment, pass_fds=launch.descriptors, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False, start_new_session=True,
    )  # fmt: skip
    for descriptor in launch.descriptors:
        with suppress(OSError):
            os.close(descriptor)
    return ran.stdout, boundary


def in_shell(boxed: Sandbox, line: str, shown: Sequence[str] = ()) -> str:
    return run(boxed, ("bash", "-c", line), shown)[0]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_sees_the_folder_and_the_programs_of_the_system_and_nothing_else(boxed: Sandbox, place: Path) -> None:
    (place / "other").mkdir()
    (place / "other" / "b.txt").write_text("not shown\n")
    told = in_shell(boxed, f"cat a.txt; cat {place}/other/b.txt ~/notes.txt /etc/hosts; ls {place} | sort; ls ~ /home")
    assert told.startswith("shown\n")
    assert told.count("No such file or directory") == 5
    assert "\nproject\n" in told
    assert in_shell(boxed, f"cat {place}/other/b.txt", [str(place / "other" / "b.txt")]) == "not shown\n"


def test_files_with_secrets_cannot_be_read_whatever_they_are_called_by(boxed: Sandbox) -> None:
    for name in (".env", "sub/server.pem", "sub/.aws/credentials", "plain"):
        (boxed.root / name).parent.mkdir(exist_ok=True)
        (boxed.root / name).write_text("KEY")
    (boxed.root / "id_rsa").symlink_to("plain")
    told = in_shell(
        boxed, "cat .e* sub/*.pem; cat sub/.aws/credentials plain; cp .env /dev/stdout; grep -r KEY . || true"
    )
    assert "KEY" not in told
    assert told.count("Permission denied") >= 3
    (boxed.root / "sub" / "new.key").write_text("KEY")
    assert "KEY" not in in_shell(boxed, "cat sub/new.key")
    assert in_shell(boxed, "cat .env", [str(boxed.root / ".env")]) == "KEY"


@pytest.mark.parametrize(
    "line",
    [
        "echo x > new", "echo x >> a.txt", "touch a.txt", "rm a.txt", "mv a.txt b", "mkdir x", "ln a.txt b",
        "ln -s a b", "chmod 600 a.txt", "echo x > /tmp/x", "echo x > ~/x", "echo x > /usr/x", "mkdir /x", "mkfifo x",
        "truncate -s 0 a.txt",
        "python3 -c \"open('a.txt', 'w')\"", "git init -q .", "awk 'BEGIN { print 1 > \"x\" }'", "sed -i s/a/b/ a.txt",
    ],
)  # fmt: skip
def test_nothing_can_be_written(boxed: Sandbox, place: Path, line: str) -> None:
    before = contents(place)
    told = in_shell(boxed, line)
    assert told, line
    assert contents(place) == before
    assert sorted(os.listdir(boxed.root)) == ["a.txt", "sub"]


def test_it_reaches_no_socket_and_no_pipe_even_in_the_folder(boxed: Sandbox) -> None:
    os.mkfifo(boxed.root / "sub" / "pipe")
    heard = list[bytes]()

    def listen(server: socket.socket) -> None:
        with suppress(OSError):
            heard.append(server.accept()[0].recv(9))

    reader = os.open(boxed.root / "sub" / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(boxed.root / "docker.sock"))
        server.listen()
        thread = threading.Thread(target=listen, args=(server,), daemon=True)
        thread.start()
        program = (
            "import os, socket\n"
            "for work in (lambda: socket.socket(socket.AF_UNIX).connect('docker.sock'),"
            " lambda: socket.socket(socket.AF_INET), lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),"
            " lambda: os.write(os.open('sub/pipe', os.O_WRONLY | os.O_NONBLOCK), b'x')):\n"
            "    try: work(); print('came through')\n"
            "    except OSError as error: print(type(error).__name__)\n"
        )
        told = run(boxed, (PYTHON, "-I", "-c", program), [PREFIX])[0]
        assert told == "PermissionError\n" * 4
        with suppress(BlockingIOError):
            assert os.read(reader, 1) == b""
        os.close(reader)
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)
    assert heard == []


def test_nothing_that_hostile_programs_try_comes_through(boxed: Sandbox, place: Path) -> None:
    shutil.copy(probes.__file__, boxed.root / "probes.py")
    beside = place / "beside"
    beside.write_text("kept\n")
    with subprocess.Popen(["sleep", "60"]) as other:
        files = {
            name: str(beside) for name in ("beside", "settings", "database", "temporary", "named", "agent", "relative")
        }
        others = {"process": other.pid, "terminal": "/dev/pts/0", "terminal_device": 0, "tcp": 9, "udp": 9}
        outside = {**files, **others, "abstract": "x", "secret": "sk-test-4f8a2c"}
        before = contents(place / "home") | {str(beside): beside.read_bytes()}
        told = run(boxed, (PYTHON, "probes.py", json.dumps(outside)), [PREFIX])[0]
        tried = dict(json.loads(told.strip().split("\n")[-1]))
        other.kill()
    assert {name for name, came in tried.items() if came == "yes"} == set()
    assert set(tried) == set(probes.PROBES)
    assert contents(place / "home") | {str(beside): beside.read_bytes()} == before


def test_a_folder_is_listed_again_when_it_has_changed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    listed = dict[str, FolderListing]()
    old = time.time() - 60
    os.utime(tmp_path, (old, old))
    os.utime(tmp_path / "sub", (old, old))
    assert find_secret_files([str(tmp_path)], listed, runs_git=True) == []
    first = dict(listed)
    assert find_secret_files([str(tmp_path)], listed, runs_git=True) == []
    assert all(listed[folder] is first[folder] for folder in first)
    (tmp_path / "sub" / ".env").write_text("KEY")
    assert find_secret_files([str(tmp_path)], listed, runs_git=True) == [str(tmp_path / "sub" / ".env")]


def test_where_there_are_too_many_secrets_nothing_is_tried(tmp_path: Path) -> None:
    for number in range(101):
        (tmp_path / f"{number}.pem").touch()
    with pytest.raises(TooManySecretFilesError, match="more than 100 files"):
        find_secret_files([str(tmp_path)], {}, runs_git=True)


def test_keys_are_hidden_in_whatever_it_sees(boxed: Sandbox, place: Path) -> None:
    home = place / "home"
    (home / ".config" / "gh").mkdir(parents=True)
    (home / ".config" / "gh" / "hosts.yml").write_text("KEY")
    (home / "other").mkdir()
    (home / "other" / ".env").write_text("KEY")
    line = "cd ~; cat .config/gh/* .ssh/* .netrc other/.env; cat notes.txt"
    at_home = Sandbox(home, place / "tmp")
    for told in (in_shell(boxed, line, [str(home)]), in_shell(at_home, line)):
        assert "KEY" not in told
        assert told.count("kept\n") == 1
    with pytest.raises(TooManySecretFilesError, match="whole file system"):
        in_shell(boxed, "ls /", ["/"])
    with pytest.raises(TooManySecretFilesError, match="whole file system"):
        in_shell(Sandbox(Path("/"), place / "tmp"), "ls")
