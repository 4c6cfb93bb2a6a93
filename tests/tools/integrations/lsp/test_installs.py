"""Programs that are installed where sandboxes hide everything: what belongs to them is shown, and no more."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from ebbtide.tools.integrations.lsp.installs import find_hidden_install_paths
from ebbtide.tools.integrations.lsp.spec import LanguageServerSpec
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.sandbox.system import NoSandbox, detect_sandbox
from tests.kit.files import write_file


@pytest.fixture(params=["/tmp", "/var/tmp"])
def folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """One of those that a sandbox does not show, wherever the tests have theirs."""
    made = Path(mkdtemp(dir=request.param))
    yield made
    shutil.rmtree(made)


def program(path: Path, text: str) -> str:
    write_file(path, text).chmod(0o755)
    return str(path)


def link(path: Path, target: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return str(path)


def test_what_belongs_to_a_program_is_known_by_where_it_lies(folder: Path) -> None:
    node = program(folder / "node" / "bin" / "node", "#!/bin/sh\n")
    modules = folder / "app" / "node_modules"
    program(modules / "pyright" / "langserver.index.js", "#!/usr/bin/env node\n")
    shim = link(modules / ".bin" / "pyright-langserver", "../pyright/langserver.index.js")
    python = link(folder / "venv" / "bin" / "python", program(folder / "py" / "bin" / "python3", "#!/bin/sh\n"))
    script = program(folder / "venv" / "bin" / "ruff", f"#!{python}\n")
    long = program(folder / "long" / "x", f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n")
    path = f"{folder}/node/bin:/usr/bin:/bin"
    assert {*find_hidden_install_paths((shim, "--stdio"), path)} == {modules, folder / "node"}
    assert {*find_hidden_install_paths((script,), path)} == {folder / "venv", folder / "py"}
    assert {*find_hidden_install_paths((long,), path)} == {folder / "long", folder / "venv", folder / "py"}
    assert find_hidden_install_paths(("node", shim), path)[0] == modules
    assert find_hidden_install_paths((node,), path) == (folder / "node",)
    assert find_hidden_install_paths(("/bin/sh", "-c", "true"), path) == ()


def test_a_folder_that_all_share_is_never_shown() -> None:
    assert find_hidden_install_paths(("/tmp/gopls",), "/bin") == (Path("/tmp/gopls"),)
    assert find_hidden_install_paths(("/tmp/bin/gopls",), "/bin") == (Path("/tmp/bin"),)
    assert find_hidden_install_paths(("/var/tmp/bin/gopls",), "/bin") == (Path("/var/tmp/bin"),)


@pytest.mark.skipif(isinstance(detect_sandbox(), NoSandbox), reason="this machine has no sandbox")
def test_a_language_server_sees_its_own_program_and_nothing_beside_it(folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    other = program(folder / "other" / "key", "secret")
    shell = link(folder / "sh" / "bin" / "own-sh", "/bin/sh")
    own = program(folder / "server" / "bin" / "server", f"#!{shell}\ncat {other} || . {folder}/server/lib\n")
    (folder / "server" / "lib").write_text("echo found; echo x > $0 || echo held")
    spec = LanguageServerSpec("x", (own,), (".x",), sandbox=Sandbox(root, tmp_path / "scratch", visible_paths=(root,)))
    launch = spec.build_launch(root)
    done = subprocess.run(
        launch.argv, env=dict(launch.environment), cwd=root, pass_fds=launch.descriptors, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("found\nheld\n", 0), done.stderr
    assert os.path.getsize(own) > 0
