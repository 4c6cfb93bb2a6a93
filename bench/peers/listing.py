"""The row that compares our `glob` tool with `rg --files`; the only one that runs our code in this process."""

import asyncio
import resource
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from bench.peers.places import Folders
from bench.peers.tables import Metric, Table
from ebbtide.tools.base import Workspace
from ebbtide.tools.glob import Glob

METRICS = (Metric("wall", "wall time", "ms"), Metric("cpu", "processor time", "ms"))


def measure_listing(folders: Folders, runs: int, load: float) -> Table:
    """Measure listing 50,000 files, alternating."""
    tree = folders.project("tree")
    values: dict[str, dict[str, list[float]]] = {name: {"wall": [], "cpu": []} for name in ("ebb", "rg --files")}
    found = shutil.which("rg")
    for number in range(runs + 1):
        for name in ("ebb", *(("rg --files",) if found else ())):
            before, began = _cpu_seconds(), time.monotonic()
            if name == "ebb":
                _list_with_glob(tree)
            else:
                subprocess.run(["rg", "--files"], cwd=tree, stdout=subprocess.DEVNULL, check=True)
            if number:  # the first round warms the page cache and is discarded
                values[name]["wall"].append((time.monotonic() - began) * 1000)
                values[name]["cpu"].append((_cpu_seconds() - before) * 1000)
    failures = {} if found else {"rg --files": "not installed"}
    return Table("listing 50,000 files", METRICS, values, failures, load)


def _list_with_glob(tree: Path) -> None:
    result = asyncio.run(Glob().run({"pattern": "**/*_49999.py"}, Workspace(tree, tree.parent / "outputs")))
    assert "alpha_49999.py" in str(result), result


def _cpu_seconds() -> float:
    used: Sequence[resource.struct_rusage] = [
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)
