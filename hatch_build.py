"""Makes the wheel: our packages are put under `ebbtide._app` and imported from there, since `agent`, `tools`, `tui` and
`store` are words that a program which imports Ebbtide may have packages of its own for."""

import ast
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES = ("agent", "store", "tools", "tui")
PLACE = "ebbtide._app"


def moved(source: str, name: str = "source") -> str:
    """The text of a module with imports of our packages from where they are installed; its lines stay the same lines.
    Raises `ValueError` for an import that is not of the form `from PACKAGE… import NAME`."""
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source, name)):
        match node:
            case ast.ImportFrom(module=str(module), level=0) if _is_ours(module):
                at = node.lineno - 1
                lines[at], count = re.subn(rf"\bfrom {module}\b", f"from {PLACE}.{module}", lines[at], count=1)
                if not count:
                    raise ValueError(f"{name}:{node.lineno}: `from {module} import` must stand on one line")
            case ast.Import(names=names) if any(_is_ours(alias.name) for alias in names):
                raise ValueError(f"{name}:{node.lineno}: write `from PACKAGE import NAME`, which can be moved")
            case _:
                pass
    return "\n".join(lines)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


class MovePackages(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return  # there they are found where they are
        self._folder = TemporaryDirectory(prefix="ebbtide-wheel-")
        top = Path(self._folder.name)
        place = top / PLACE.replace(".", "/")
        for source, target in (("ebbtide", top / "ebbtide"), *((name, place / name) for name in PACKAGES)):
            shutil.copytree(Path(self.root, source), target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        for file in top.rglob("*.py"):
            file.write_text(moved(file.read_text("utf-8"), str(file.relative_to(top))), "utf-8")
        (place / "__init__.py").write_text('"""The program. What is meant to be imported stands in `ebbtide`."""\n')
        build_data["force_include"][self._folder.name] = "/"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._folder.cleanup()
