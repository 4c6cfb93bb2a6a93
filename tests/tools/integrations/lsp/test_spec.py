"""How a language server is started: what it may write, and where."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.tools.integrations.lsp.spec import LanguageServerSpec, detectable_servers
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.sandbox.system import NoSandbox, detect_sandbox

WRITES = """
mkdir -p "$GOCACHE" "$XDG_CACHE_HOME" && touch "$GOCACHE/a" "$XDG_CACHE_HOME/a" && ! touch here 2>/dev/null && echo held
"""


@pytest.mark.skipif(isinstance(detect_sandbox(), NoSandbox), reason="this machine has no sandbox")
def test_in_a_sandbox_a_server_may_write_to_its_caches_and_nothing_else(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (gopls,) = (known for known in detectable_servers() if known.name == "gopls")
    spec = LanguageServerSpec(
        "x", ("/bin/sh", "-c", WRITES), (".go",), {"GOFLAGS": "-v"}, cache_variables=gopls.cache_variables
    )
    sandboxed = replace(spec, sandbox=Sandbox(root, tmp_path / "scratch", visible_paths=(root,)))
    launch = sandboxed.build_launch(root)
    done = subprocess.run(
        launch.argv, env=dict(launch.environment), cwd=root, pass_fds=launch.descriptors, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("held\n", "", 0)
    assert list(root.iterdir()) == []
    assert {path.name for path in (tmp_path / "scratch" / "language-servers").iterdir()} == {
        "gocache",
        "xdg_cache_home",
    }
    assert {name for name in spec.build_launch(root).environment if name in gopls.cache_variables} <= {"GOCACHE"}
