"""What hostile programs try, run inside a sandbox: each prints whether it came through. Told in one JSON object what is
outside: files, processes and addresses."""

import array
import ctypes
import json
import os
import resource
import socket
import sys
import termios
from collections.abc import Callable

OUTSIDE = json.loads(sys.argv[1]) if __name__ == "__main__" else {}
LIBC = ctypes.CDLL(None, use_errno=True)


def system_call(number: int, *arguments: int | bytes | None) -> None:
    if LIBC.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def write(path: str) -> None:
    with open(path, "a") as file:
        file.write("# was here\n")
    with open(path) as file:
        assert file.read().endswith("# was here\n"), "it did not stay there"


def read(path: str) -> None:
    with open(path, "rb") as file:
        assert file.read(), "it is empty"


def connect(kind: int, family: int, address: object) -> None:
    with socket.socket(family, kind) as probe:
        probe.settimeout(1)
        probe.connect(address)  # type: ignore[arg-type]  # each family has addresses of its own
        probe.send(b"x")


def answered_by(address: tuple[str, int]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.settimeout(0.5)
        probe.sendto(b"x", address)
        probe.recv(1)


def environments() -> None:
    """Of all processes that can be seen."""
    found = b"".join(_read(f"/proc/{name}/environ") for name in os.listdir("/proc") if name.isdecimal())
    assert OUTSIDE["secret"].encode() in found, "not there"


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def in_place_of(folder: str, file: str) -> None:
    """Moves a folder away and writes a file where it was."""
    os.rename(folder, f"{folder}-away")
    os.mkdir(folder)
    write(f"{folder}/{file}")


def through_link(target: str) -> None:
    os.symlink(target, "link")
    write("link")


def hard_link(target: str) -> None:
    os.link(target, "hard")
    write("hard")


def sees_outer_processes() -> None:
    assert os.path.exists(f"/proc/{OUTSIDE['process']}/status"), "not there"


def attach(process: int) -> None:
    if LIBC.ptrace(16, process, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "not attached")


def types_into_terminal(request: int = termios.TIOCSTI) -> None:
    ours, theirs = os.openpty()
    if LIBC.ioctl(theirs, ctypes.c_ulong(request), b"x") < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.close(ours)


def writes_to_terminal() -> None:
    """One that is another program's: what it shows steers it, and what is typed there can be read."""
    descriptor = os.open(OUTSIDE["terminal"], os.O_RDWR | os.O_NOCTTY)
    assert OUTSIDE["terminal_device"] == os.fstat(descriptor).st_dev, "it is another one of that name"
    os.write(descriptor, b"x")


def gains_rights() -> None:
    """The kernel ignores the bits of programs that run as somebody else."""
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    assert lines["NoNewPrivs"].strip() == "0" or int(lines["CapEff"], 16), "no"


def maps_other_users() -> None:
    system_call(272, 0x10000000)


def left_namespaces() -> None:
    """By descriptors that were open when the command began."""
    for number in range(3, 200):
        try:
            kind = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if kind.startswith("user:"):
            system_call(308, number, 0)
            return
    raise OSError("there is none")


def sets_clock() -> None:
    system_call(227, 0, array.array("l", [0, 0]).tobytes())


def device(major: int, minor: int) -> None:
    os.mknod("device", 0o600 | 0o020000, os.makedev(major, minor))
    read("device")


HOME, ROOT = os.environ["HOME"], os.getcwd()
PROBES: dict[str, Callable[[], object]] = {
    "write beside the working folder": lambda: write(OUTSIDE["beside"]),
    "write above it": lambda: write(f"{ROOT}/../new"),
    "write the shell's start file": lambda: write(f"{HOME}/.bashrc"),
    "write a new start file": lambda: write(f"{HOME}/.bash_profile"),
    "write the system": lambda: write("/etc/passwd"),
    "write cron": lambda: write("/var/spool/cron-was-here"),
    "write the kernel's settings": lambda: write("/proc/sys/kernel/hostname"),
    "write a control group": lambda: write("/sys/fs/cgroup/cgroup.procs"),
    "write through a link": lambda: through_link(OUTSIDE["beside"]),
    "write through a hard link": lambda: hard_link(OUTSIDE["beside"]),
    "read SSH keys": lambda: read(f"{HOME}/.ssh/id_ed25519"),
    "read cloud keys": lambda: read(f"{HOME}/.aws/credentials"),
    "read tokens of git": lambda: read(f"{HOME}/.git-credentials"),
    "read .netrc": lambda: read(f"{HOME}/.netrc"),
    "read keys through a link": lambda: read(f"{HOME}/to-keys/id_ed25519"),
    "read our settings": lambda: read(OUTSIDE["settings"]),
    "read our database": lambda: read(OUTSIDE["database"]),
    "read passwords of the system": lambda: read("/etc/shadow"),
    "read what is in the real /tmp": lambda: read(OUTSIDE["temporary"]),
    "read environments": environments,
    "read memory of the machine": lambda: read("/dev/mem"),
    "read memory of the kernel": lambda: read("/proc/kcore"),
    "read a disk": lambda: device(254, 0),
    "see other processes": sees_outer_processes,
    "end another process": lambda: os.kill(OUTSIDE["process"], 15),
    "attach to another process": lambda: attach(OUTSIDE["process"]),
    "limit another process": lambda: resource.prlimit(OUTSIDE["process"], resource.RLIMIT_CORE, (0, 0)),
    "type into a terminal": types_into_terminal,
    "write to the terminal of others": writes_to_terminal,
    "walk out by what the first process has open": lambda: write(f"/proc/1/root{OUTSIDE['beside']}"),
    "mount by newer calls": lambda: system_call(467, -100, b"/", 1, bytes(32), 32),
    "type into a terminal by a number with more digits": lambda: types_into_terminal((1 << 32) | termios.TIOCSTI),
    "mount": lambda: system_call(165, b"tmpfs", b"/mnt", b"tmpfs", 0, None),
    "unmount": lambda: system_call(166, f"{HOME}/.ssh".encode(), 2),
    "make namespaces": maps_other_users,
    "join a namespace": lambda: system_call(308, os.open("/proc/self/ns/user", os.O_RDONLY), 0),
    "use the namespaces that it was left": left_namespaces,
    "become somebody else by a program": gains_rights,
    "change the owner": lambda: os.chown(f"{ROOT}/.git/config", 65534, 65534),
    "set the clock": sets_clock,
    "load into the kernel": lambda: system_call(321, 0, b"\0" * 64, 64),
    "use io_uring": lambda: system_call(425, 1, b"\0" * 120),
    "use the host's sockets for machines": lambda: socket.socket(40, socket.SOCK_STREAM),
    "use raw sockets": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "reach a named socket in /tmp": lambda: connect(socket.SOCK_STREAM, socket.AF_UNIX, OUTSIDE["named"]),
    "reach a server here": lambda: connect(socket.SOCK_STREAM, socket.AF_INET, ("127.0.0.1", OUTSIDE["tcp"])),
    "send a datagram": lambda: answered_by(("127.0.0.1", OUTSIDE["udp"])),
    "reach a named socket at home": lambda: connect(socket.SOCK_STREAM, socket.AF_UNIX, OUTSIDE["agent"]),
    "reach a socket that was opened by a relative path": lambda: connect(
        socket.SOCK_STREAM, socket.AF_UNIX, OUTSIDE["relative"]
    ),
    "reach a socket without a file": lambda: connect(socket.SOCK_STREAM, socket.AF_UNIX, "\0" + OUTSIDE["abstract"]),
    "reach the world": lambda: connect(socket.SOCK_STREAM, socket.AF_INET, ("192.0.2.1", 80)),
    "write hooks": lambda: write(f"{ROOT}/.git/hooks/pre-commit"),
    "write git's settings": lambda: write(f"{ROOT}/.git/config"),
    "put other settings of git in their place": lambda: in_place_of(f"{ROOT}/.git", "config"),
    "put other hooks in their place": lambda: in_place_of(f"{ROOT}/.git/hooks", "pre-commit"),
    "write included settings": lambda: write(f"{ROOT}/shared/gitconfig"),
    "make included settings": lambda: write(f"{ROOT}/shared/absent"),
    "put other included settings in their place": lambda: in_place_of(f"{ROOT}/shared", "gitconfig"),
    "write hooks kept elsewhere": lambda: write(f"{ROOT}/my-hooks/pre-commit"),
    "write a submodule's settings": lambda: write(f"{ROOT}/.git/modules/part/config"),
    "write a submodule's link": lambda: write(f"{ROOT}/libs/part/.git"),
    "put another submodule in its place": lambda: in_place_of(f"{ROOT}/libs/part", ".git"),
    "write this program's settings of the project": lambda: write(f"{ROOT}/.ebb/config.toml"),
}


def main() -> None:
    came_through = {}
    wanted = OUTSIDE.get("only", PROBES)
    for name, probe in ((name, PROBES[name]) for name in wanted):
        try:
            probe()
        except (OSError, AssertionError) as error:
            came_through[name] = f"no: {error}"
        else:
            came_through[name] = "yes"
    print(json.dumps(came_through))


if __name__ == "__main__":
    main()
