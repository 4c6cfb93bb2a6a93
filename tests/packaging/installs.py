"""Installs a wheel with pip, pipx and uv on each Python that can be had, and runs what is installed.

python -m tests.packaging.installs WHEEL
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kit.commands import ROOT, environment

PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
PROGRAM = "import ebbtide, sys; assert not [name for name in ('agent', 'tools') if name in sys.modules]; ebbtide.Agent"


def python_of(version: str) -> str | None:
    """An interpreter of that version; None where there is none that starts."""
    name = f"python{version}"
    interpreters = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/{name}"))
    for found in (*map(str, interpreters), shutil.which(name)):
        if found and not subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
            return found
    return None


def install(tool: str, python: str, wheel: str, place: Path, tools: Path) -> tuple[Path, Path]:
    """Installs the wheel there; `ebb`, and the interpreter that it runs with."""
    own = {
        **os.environ,
        "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
        "UV_CONSTRAINT": str(ROOT / "constraints.txt"),
    }
    own |= {"UV_TOOL_DIR": str(place / "uv"), "UV_TOOL_BIN_DIR": str(place / "bin"), "PIPX_HOME": str(place / "pipx")}
    own |= {"PIPX_BIN_DIR": str(place / "bin")}
    match tool:
        case "pip":
            _run([python, "-m", "venv", str(place)], own)
            _run([str(place / "bin" / "pip"), "install", "--quiet", wheel], own)
            return place / "bin" / "ebb", place / "bin" / "python"
        case "pipx":
            _run([str(tools / "pipx"), "install", "--python", python, wheel], own)
            return place / "bin" / "ebb", place / "pipx" / "venvs" / "ebbtide" / "bin" / "python"
        case _:
            _run([str(tools / "uv"), "tool", "install", "--quiet", "--python", python, wheel], own)
            return place / "bin" / "ebb", place / "uv" / "ebbtide" / "bin" / "python"


def main(wheel: str) -> int:
    """The number of installations that do not work, each told in a line."""
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        tools = Path(name, "tools", "bin")
        _run([sys.executable, "-m", "venv", str(tools.parent)], os.environ)
        _run([str(tools / "pip"), "install", "--quiet", "pipx", "uv"], os.environ)
        for version in PYTHONS:
            python = python_of(version)
            if python is None:
                print(f"{version}: there is no such Python here", flush=True)
                continue
            for tool in ("pip", "pipx", "uv"):
                place = Path(name, f"{tool}-{version}")
                home = environment(place / "home") | {"PYTHONPATH": ""}
                try:
                    ebb, own_python = install(tool, python, str(Path(wheel).resolve()), place, tools)
                    printed = _run([str(ebb), "--version"], home)
                    _run([str(ebb), "demo", "--print"], home)
                    _run([str(own_python), "-c", PROGRAM], home)
                    print(f"{version} with {tool}: {', '.join(printed.splitlines()[:3])}", flush=True)
                except subprocess.CalledProcessError as error:
                    failures += 1
                    print(f"{version} with {tool}: FAILED\n{error.stdout}{error.stderr}", flush=True)
    return failures


def _run(command: Sequence[str], given: Mapping[str, str]) -> str:
    return subprocess.run(command, env=dict(given), capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
