"""The program as users have it: a wheel, built from the sdist, that pip has installed in a virtual environment.

`installation`, a fixture, is one for all tests of a run. Nothing of the checkout and no tool of a developer can be
imported there.
"""

import fcntl
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ebbtide.version import VERSION
from tests.kit.commands import ROOT, Run, environment, lines_in

_PATIENCE = 120
"""Seconds that a run may take."""


@dataclass(frozen=True, slots=True)
class Installation:
    """`top`: the folder that all of it is in."""

    top: Path

    @property
    def wheel(self) -> Path:
        return self.top / "dist" / f"ebbtide-{VERSION}-py3-none-any.whl"

    @property
    def sdist(self) -> Path:
        return self.top / "dist" / f"ebbtide-{VERSION}.tar.gz"

    @property
    def ebb(self) -> str:
        return str(self.top / "venv" / "bin" / "ebb")

    @property
    def python(self) -> str:
        return str(self.top / "venv" / "bin" / "python")

    @property
    def shared_data(self) -> Path:
        """Where man pages and completions are."""
        return self.top / "venv" / "share"

    @property
    def extras(self) -> str:
        """A folder for `PYTHONPATH`, with the packages of all extras."""
        return str(self.top / "extras")

    def environment(self, home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """As `tests.kit.commands.environment`, with this `ebb` in the `PATH` and without the checkout."""
        own = environment(home, extra)
        if "PYTHONPATH" not in (extra or {}):
            del own["PYTHONPATH"]
        return (
            own
            if "PATH" in (extra or {})
            else {**own, "PATH": os.pathsep.join((str(Path(self.ebb).parent), own["PATH"]))}
        )

    def run(
        self, command: Sequence[str], *, cwd: Path, home: Path, env: Mapping[str, str] | None = None,
        stdin: str | None = None,
    ) -> Run:  # fmt: skip
        """Runs a command with this `ebb` in the `PATH`."""
        done = subprocess.run(
            command, cwd=cwd, env=self.environment(home, env), input=(stdin or "").encode(), capture_output=True,
            timeout=_PATIENCE, check=False,
        )  # fmt: skip
        return Run(done.returncode, lines_in(done.stdout), lines_in(done.stderr))


def shared_installation(factory: pytest.TempPathFactory) -> Installation:
    """The installation of this run of tests, made by the worker that needs it first."""
    base = factory.getbasetemp()
    top = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "installation"
    top.mkdir(exist_ok=True)
    found = Installation(top)
    with (top / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (top / "ready").exists():
            _install(found)
            (top / "ready").touch()
    return found


def _install(place: Installation) -> None:
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(place.wheel.parent), str(ROOT))
    _run(sys.executable, "-m", "venv", "--without-pip", str(place.top / "venv"))
    (site,) = (place.top / "venv" / "lib").glob("python*/site-packages")
    required = _requirements(place.wheel)
    _link(_closure(required), site)
    (place.top / "extras").mkdir()
    for extra in ("serve", "otel", "semantic"):
        _link(_closure(required, extra), place.top / "extras")
    # It fetches nothing, and refuses where a package that the wheel requires is not there.
    install = ("install", "--quiet", "--no-index", "--no-compile", "--disable-pip-version-check", str(place.wheel))
    _run(sys.executable, "-m", "pip", "--python", place.python, *install)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def _requirements(wheel: Path) -> tuple[str, ...]:
    with zipfile.ZipFile(wheel) as archive:
        metadata = message_from_bytes(archive.read(f"ebbtide-{VERSION}.dist-info/METADATA"))
    return tuple(metadata.get_all("Requires-Dist", ()))


def _closure(requirements: Iterable[str], extra: str = "") -> set[str]:
    """The names of all distributions that are required, directly or by others."""
    pending, found = [(text, frozenset({"", extra})) for text in requirements], dict[str, frozenset[str]]()
    while pending:
        text, extras = pending.pop()
        wanted = Requirement(text)
        if wanted.marker and not any(wanted.marker.evaluate({"extra": each}) for each in extras):
            continue
        name, asked = canonicalize_name(wanted.name), frozenset({"", *wanted.extras})
        if not asked <= found.get(name, frozenset()):
            found[name] = found.get(name, frozenset()) | asked
            pending += [(each, found[name]) for each in distribution(name).requires or ()]
    return {*found}


def _link(names: Iterable[str], site: Path) -> None:
    """Lets distributions of this environment be found there, too."""
    for name in names:
        own = distribution(name)
        tops = {file.parts[0] for file in own.files or ()} - {"..", "__pycache__"}
        for top in tops:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(own.locate_file(top))))
