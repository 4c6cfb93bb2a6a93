"""User setups: an environment and a home folder for commands."""

import os
import stat
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

_INHERITED_VARIABLES = (
    "PIP_",
    "npm_config_",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT",
    "REQUESTS_CA_BUNDLE",
    "http",
    "HTTP",
    "no_proxy",
)
"""Prefixes of variables that are needed on a machine without direct access to package registries."""
_GITCONFIG = """\
[core]
	pager = less -FRX
	editor = vim
	excludesFile = ~/.gitignore_global
[color]
	ui = auto
[alias]
	st = status --short --branch
	lg = log --oneline --graph
	last = log -1 HEAD --stat
	hello = "!echo hello from an alias"
[diff]
	external = {home}/bin/side-by-side
	algorithm = histogram
[pager]
	diff = {home}/bin/side-by-side
[interactive]
	diffFilter = cat
[commit]
	gpgsign = true
[tag]
	gpgsign = true
[gpg]
	format = ssh
[user]
	signingkey = {home}/.ssh/id_ed25519
[merge]
	conflictstyle = diff3
[pull]
	rebase = true
[push]
	autoSetupRemote = true
[rerere]
	enabled = true
[includeIf "gitdir:{base}/w/"]
	path = .gitconfig-work
"""
_SHIM_SCRIPT = """\
#!/usr/bin/env bash
set -e
program="${0##*/}"
export PYENV_ROOT="%s"
exec "$PYENV_ROOT/versions/3.11/bin/$program" "$@"
"""


@dataclass(frozen=True, slots=True)
class Setup:
    """The environment in which a worker is started."""

    environment: Mapping[str, str]
    base: Path
    """The folder with `w` and `home`, as the user names it."""
    umask: int = 0o022


def plain_setup(base: Path) -> Setup:
    """Return the setup of a minimal user, who has only a name for Git."""
    variables = {name: value for name, value in os.environ.items() if name.startswith(_INHERITED_VARIABLES)}
    return Setup(
        variables
        | {
            "HOME": str(base / "home"),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "USER": "dev",
            "LOGNAME": "dev",
            "SHELL": "/bin/bash",
            "TERM": "xterm-256color",
            "GIT_CONFIG_NOSYSTEM": "1",
            "npm_config_update_notifier": "false",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "GIT_AUTHOR_DATE": "2026-01-05T10:00:00Z",
            "GIT_COMMITTER_DATE": "2026-01-05T10:00:00Z",
        },
        base,
    )


def _git_settings(setup: Setup) -> Setup:
    home = setup.base / "home"
    with (home / ".gitconfig").open("a") as settings:
        settings.write(_GITCONFIG.format(home=home, base=setup.base))
    (home / ".gitconfig-work").write_text("[user]\n\temail = dev@work.invalid\n")
    (home / ".gitignore_global").write_text(".DS_Store\n*.swp\n")
    (home / ".ssh").mkdir(mode=0o700)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / ".ssh" / "id_ed25519"], check=True, timeout=30
    )
    _write_program(home / "bin" / "side-by-side", '#!/bin/sh\nif [ $# -gt 1 ]; then echo "changed: $1"; else cat; fi\n')
    return setup


def _virtual_environment(setup: Setup) -> Setup:
    venv = setup.base / "home" / ".venvs" / "work"
    subprocess.run(["/usr/bin/python3", "-m", "venv", venv], check=True, timeout=120)
    return _with_variables(
        setup, VIRTUAL_ENV=str(venv), PATH=f"{venv}/bin:{setup.environment['PATH']}", PS1="(work) $ "
    )


def _shims(setup: Setup) -> Setup:
    root = setup.base / "home" / ".pyenv"
    for name in ("python", "python3", "pip", "node", "npm"):
        _write_program(root / "shims" / name, _SHIM_SCRIPT % root)
    binaries = root / "versions" / "3.11" / "bin"
    binaries.mkdir(parents=True)
    for name, target in (
        ("python", "python3"),
        ("python3", "python3"),
        ("pip", "pip"),
        ("node", "node"),
        ("npm", "npm"),
    ):
        _write_program(binaries / name, f'#!/bin/sh\nexec /usr/bin/{target} "$@"\n')
    return _with_variables(
        setup, PYENV_ROOT=str(root), PATH=f"{root}/shims:{setup.environment['PATH']}", PYENV_SHELL="bash"
    )


def _locale_c(setup: Setup) -> Setup:
    return _with_variables(setup, LANG="C", LC_ALL="C")


def _restrictive_umask(setup: Setup) -> Setup:
    return replace(setup, umask=0o077)


def _symlinked_home(setup: Setup) -> Setup:
    link = setup.base / "linked"
    if not link.is_symlink():
        link.symlink_to(".")
    return replace(_with_variables(setup, HOME=str(link / "home")), base=link)


def _with_variables(setup: Setup, **variables: str) -> Setup:
    return replace(setup, environment={**setup.environment, **variables})


def _write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


SETUPS: Mapping[str, Callable[[Setup], Setup]] = {
    "plain": lambda setup: setup,
    "git": _git_settings,
    "venv": _virtual_environment,
    "shims": _shims,
    "lang-c": _locale_c,
    "umask": _restrictive_umask,
    "linked": _symlinked_home,
}
