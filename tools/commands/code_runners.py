"""Programs that do whatever their arguments say: run others, run code, put files anywhere. Data and a lookup.

A permission for the name of such a program, or for the first words of its command, would be one for anything. So what
is allowed of them is only ever a whole command.
"""

import re
from collections.abc import Sequence

from tools.lazy import regex

_PROGRAMS = frozenset(
    """
    bash sh zsh dash ash ksh mksh fish csh tcsh pwsh powershell cmd busybox toybox
    env sudo doas su pkexec runuser xargs eval exec source . trap command builtin coproc nohup nice ionice chrt taskset
    stdbuf setsid setarch chroot unshare nsenter flock time timeout watch entr parallel script expect strace ltrace gdb
    lldb perf valgrind hyperfine systemd-run at batch crontab tmux screen direnv
    python pypy ipython node nodejs deno bun tsx ts-node perl ruby irb php lua luajit tclsh wish rscript r julia octave
    java jshell groovy scala kotlin clojure ghci runghc runhaskell ocaml elixir iex erl escript sbcl guile racket swipl
    osascript dotnet mono wine gnuplot m4 npx uvx pipx sqlite sqlite3 duckdb mysql psql
    vi vim nvim view ex ed emacs
    find rm dd cp mv ln install tee chmod chown chgrp truncate shred mkfifo kill pkill killall
    curl wget ssh scp sftp rsync nc ncat netcat socat telnet openssl
    mapfile readarray compgen complete compopt enable hash bind fc alias export declare typeset readonly set shopt
    docker podman nerdctl docker-compose kubectl make gmake
    """.split()  # noqa: SIM905  # a list of a hundred names is a table
)

_COMMANDS = frozenset(
    tuple(line.split())
    for line in """
    uv run
    uv tool
    poetry run
    pipenv run
    pdm run
    hatch run
    rye run
    pixi run
    conda run
    mamba run
    bundle exec
    npm exec
    npm x
    pnpm exec
    pnpm dlx
    yarn exec
    yarn dlx
    go run
    cargo run
    nix run
    nix shell
    nix develop
    mise exec
    asdf exec
    rbenv exec
    pyenv exec
    git bisect
    git submodule
    git filter-branch
    git config
    git rebase
    git for-each-repo
    git difftool
    git mergetool
    git clone
    """.strip().splitlines()
)
"""Commands of programs that otherwise do what they are called for."""

_FOLLOWED = {"uv run", "poetry run", "pipenv run", "pdm run", "hatch run", "rye run", "pixi run", "bundle exec"}
"""Those behind which the command stands that they run, where no option comes first."""
_HAVE_SUCH = {program for program, *_ in _COMMANDS}

_ASSIGNMENT = regex(r"[A-Za-z_]\w*\+?=", re.DOTALL)
_VERSION = regex(r"[-_]?\d[\d.]*$")


def runs_anything(command: Sequence[str]) -> bool:
    """Whether a rule for the first words of a command would be one for every other as well: by the program's name,
    wherever it lies and whatever its version is, or by a variable that is set for it."""
    if _ASSIGNMENT.match(command[0]):
        return True
    name = command[0].rpartition("/")[2].casefold()
    plain = _VERSION.sub("", name)
    return not _PROGRAMS.isdisjoint((name, plain)) or (plain, *command[1:2]) in _COMMANDS


def beginning_of(command: Sequence[str]) -> tuple[str, ...]:
    """As much of a command as tells what it does: the program, and what that is to do. Nothing where only all of its
    words do."""
    if " ".join(command[:2]) in _FOLLOWED:
        followed = beginning_of(command[2:]) if command[2:] else ()
        is_command = bool(followed) and not any(map(is_place, followed)) and followed[0][:1] != "-"
        return (*command[:2], *followed) if is_command else ()
    words = tuple(command[: 2 if len(command) > 1 and command[1][:1] != "-" else 1])
    return () if runs_anything(words) or (len(words) == 1 and words[0] in _HAVE_SUCH) else words


def is_place(word: str) -> bool:
    """Whether a word is the name of a file, as far as that shows, and no part of a program's own language."""
    return "/" in word or "." in word


def depends_on_its_folder(command: Sequence[str]) -> bool:
    """Whether the same words may be another command in another folder."""
    return runs_anything(command) or command[0].find("/") > 0


def behind_assignments(command: Sequence[str]) -> int:
    """Where in a command its program stands; beyond the end when there is none."""
    return next((at for at, word in enumerate(command) if not _ASSIGNMENT.match(word)), len(command))
