"""What is found on systems that have less, and whether the numbers of system calls are those of the kernel."""

import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from ebbtide.tools.sandbox import system, system_calls
from ebbtide.tools.sandbox.landlock_program import find_program
from ebbtide.tools.sandbox.system import NoSandbox, SandboxProgram, detect_sandbox, landlock_problem
from tests.kit.files import write_program

GENERIC = Path("/usr/include/asm-generic/unistd.h")
X86_64 = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
APPARMOR = "bwrap: setting up uid map: Permission denied"
needs_landlock = pytest.mark.skipif(bool(landlock_problem()), reason="the kernel has no Landlock that could be tried")


@pytest.mark.parametrize(("machine", "header"), [("aarch64", GENERIC), ("riscv64", GENERIC), ("x86_64", X86_64)])
def test_the_numbers_of_system_calls_are_those_of_the_kernel(machine: str, header: Path) -> None:
    if not header.exists():
        pytest.skip("the kernel's headers are not installed")
    defined = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    real = {name: int(number) for name, number in defined}
    _, refused, (clone, socket, ioctl, limit) = system_calls._ARCHITECTURES[machine]
    named = {"clone": clone, "socket": socket, "ioctl": ioctl, "prlimit64": limit, "clone3": system_calls._CLONE3}
    ours = {**refused, **named, **system_calls._COMMON_REJECTED_CALLS}
    assert ours == {name: real[name] for name in ours}


def bubblewrap_that_says(text: str, folder: Path) -> tuple[str, ...]:
    stub = write_program(folder / "bwrap", f"echo '{text}' >&2\nexit 1\n")
    return (str(stub),)


@needs_landlock
@pytest.mark.parametrize("is_installed", [True, False])
def test_where_bubblewrap_cannot_be_had_landlock_is_taken_and_it_is_said_why(
    is_installed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "_BUBBLEWRAP", bubblewrap_that_says(APPARMOR, tmp_path) if is_installed else ())
    why = (
        f"bubblewrap cannot work here: {APPARMOR}"
        if is_installed
        else "bubblewrap is not installed (`apt install bubblewrap`, `dnf install bubblewrap`)"
    )
    found = detect_sandbox.__wrapped__()
    assert found == SandboxProgram("landlock", (), f"it restricts less than bubblewrap: {why}")


def test_a_machine_whose_system_calls_are_not_known_has_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="s390x", sysname="Linux"))
    monkeypatch.setattr(system, "_BUBBLEWRAP", ("/bin/true",))
    assert detect_sandbox.__wrapped__() == NoSandbox("the system calls of s390x are unknown")


def test_landlock_runs_no_program_of_the_folder_in_the_place_of_one_of_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sh", "only-here"):
        write_program(tmp_path / name, "#!/bin/false\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".::/usr/bin:/bin")
    assert find_program("sh") in ("/usr/bin/sh", "/bin/sh")
    assert find_program("./sh") == "./sh"
    with pytest.raises(SystemExit):
        find_program("only-here")
