"""What commands cannot do in a real sandbox, and what they still can. It needs bubblewrap and leave to use it."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.boundary import SessionBoundary
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import Policy, decide
from ebbtide.agent.errors import ConfigError
from ebbtide.tools.base import Result, Workspace
from ebbtide.tools.bash import Bash
from ebbtide.tools.bash_kill import BashKill
from ebbtide.tools.integrations.server_log import ServerLog
from ebbtide.tools.process.child import start_child
from ebbtide.tools.process.shell import shell_launch
from ebbtide.tools.process.start import start_program
from ebbtide.tools.sandbox import mount_paths
from ebbtide.tools.sandbox.boundary import PathAccess
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.sandbox.system import NoSandbox, SandboxProgram, detect_sandbox, landlock_problem
from tests.kit.commands import ROOT
from tests.kit.files import write_file, write_files, write_program
from tests.kit.git import git
from tests.kit.polling import is_alive, soon
from tests.tools.sandbox import probes

FOUND = detect_sandbox()
LANDLOCK = NoSandbox("") if landlock_problem() else SandboxProgram("landlock", ())
WHY_NOT = FOUND.problem if isinstance(FOUND, NoSandbox) else FOUND.note
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"bubblewrap is not tried: {WHY_NOT}")
SECRET = "sk-test-4f8a2c"
PYTHON = os.path.realpath(sys.executable)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that is not in /tmp, which is another one in a sandbox."""
    cache = ROOT / ".pytest_cache"
    cache.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=Path.home() if cache.is_relative_to("/tmp") else cache) as place:
        yield Path(place).resolve()


@pytest.fixture
def home(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of somebody with keys."""
    home = place / "home"
    write_files(
        home, (".ssh/id_ed25519", ".aws/credentials", ".git-credentials", ".netrc", ".bashrc", ".npm/index"), "kept\n"
    )
    (home / "to-keys").symlink_to(home / ".ssh")
    (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
async def boxed(home: Path, place: Path) -> AsyncIterator[Workspace]:
    """A working folder, a repository, whose commands run in a sandbox."""
    ours, root, outputs = home / ".config" / "ebbtide", place / "project", place / "outputs"
    write_file(ours / "config.toml", "kept\n")
    root.mkdir()
    git(root, "init")
    made = Workspace(root, outputs, sandbox=Sandbox(root, outputs / "tmp", own_folders=(ours,), visible_paths=(root,)))
    yield made
    await made.jobs.close()


async def bash(workspace: Workspace, command: str, **more: object) -> Result:
    return await Bash().run({"command": command, **more}, workspace)


def fill(root: Path) -> None:
    """Makes the repository one with included settings, hooks elsewhere and a submodule."""
    (root / "a.txt").write_text("one\n")
    git(root, "add", "a.txt")
    git(root, "commit", "-m", "first")
    part = root.parent / "part"
    shutil.copytree(root, part)
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "--name", "part", str(part), "libs/part")
    git(root, "commit", "-m", "part")
    write_files(root, ("shared/gitconfig", "my-hooks/pre-commit"), "# nothing\n")
    with (root / ".git" / "config").open("a") as config:
        config.write(
            "[include]\n\tpath = ../shared/gitconfig\n\tpath = ../shared/absent\n[core]\n\thooksPath = my-hooks\n"
        )
    (root / ".ebb").mkdir()


@pytest.fixture
def outside(place: Path, home: Path) -> Iterator[dict[str, object]]:
    """What there is outside."""
    (place / "beside").write_text("kept\n")
    process = subprocess.Popen(["sleep", "60"], env={**os.environ, "API_KEY": SECRET})
    reader, terminal = os.openpty()
    serves = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('s'); s.listen(); print(flush=True); s.accept()"
    server = subprocess.Popen([sys.executable, "-c", serves], cwd=home, stdout=subprocess.PIPE)
    assert server.stdout is not None
    server.stdout.readline()
    kinds = ((socket.AF_UNIX, 1), (socket.AF_UNIX, 1), (socket.AF_UNIX, 1), (socket.AF_INET, 1), (socket.AF_INET, 2))
    name, abstract = f"/tmp/ebb-test-{os.getpid()}", f"ebb-test-{os.getpid()}"
    with ExitStack() as open_sockets:
        named, agent, unnamed, tcp, udp = (open_sockets.enter_context(socket.socket(*kind)) for kind in kinds)
        named.bind(name)
        agent.bind(str(home / ".agent.sock"))
        unnamed.bind(f"\0{abstract}")
        for each in (tcp, udp):
            each.bind(("127.0.0.1", 0))
        for each in (named, agent, unnamed, tcp):
            each.listen()
        udp.setblocking(False)
        yield {
            "beside": str(place / "beside"),
            "temporary": name,
            "settings": str(home / ".config/ebbtide/config.toml"),
            "database": str(home / ".config/ebbtide/sessions.db"),
            "process": process.pid,
            "secret": SECRET,
            "relative": str(home / "s"),
            "terminal": os.ttyname(terminal),
            "terminal_device": os.fstat(terminal).st_dev,
            "named": name,
            "agent": str(home / ".agent.sock"),
            "abstract": abstract,
            "tcp": tcp.getsockname()[1],
            "udp": udp.getsockname()[1],
        }
        with pytest.raises(BlockingIOError):
            udp.recv(1)
    os.unlink(name)
    os.set_blocking(reader, False)
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    os.close(reader)
    os.close(terminal)
    assert server.poll() is None, "somebody came"
    server.kill()
    server.communicate()
    assert process.poll() is None, "it was ended from inside"
    process.kill()
    process.wait()


async def test_nothing_that_hostile_programs_try_comes_through(
    boxed: Workspace, home: Path, outside: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", SECRET)
    fill(boxed.root)
    outside_folder, metadata = boxed.root.parent / "beside", boxed.root / ".git"
    before = _all_files(metadata, home, outside_folder)
    tried = await probed(boxed, outside)
    assert {name for name, report in tried.items() if report == "yes"} == set()
    assert _all_files(metadata, home, outside_folder) == before


@pytest.mark.skipif(isinstance(LANDLOCK, NoSandbox), reason="the kernel has no Landlock that could be tried")
async def test_landlock_holds_all_but_what_lies_in_folders_that_can_be_written(
    boxed: Workspace, home: Path, outside: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.tools.sandbox.sandbox.detect_sandbox", lambda: LANDLOCK)
    fill(boxed.root)
    outside_folder = boxed.root.parent / "beside"
    before = _all_files(home, outside_folder)
    tried = await probed(boxed, outside)
    let_through = {name for name, report in tried.items() if report == "yes" and not name.startswith("put ")}
    assert let_through - IN_THE_FOLDER == set()
    assert "write git's settings" in let_through, "it holds more than is told of it"
    assert _all_files(home, outside_folder) == before


IN_THE_FOLDER = {
    "see other processes", "write hooks", "write git's settings", "write included settings", "make included settings",
    "write hooks kept elsewhere", "write a submodule's settings", "write a submodule's link",
    "write this program's settings of the project",
}  # fmt: skip


async def probed(boxed: Workspace, outside: dict[str, object]) -> dict[str, str]:
    """What came of each thing that is tried without network."""
    assert boxed.sandbox is not None
    boxed = replace(boxed, sandbox=replace(boxed.sandbox, has_network=False))
    script = boxed.root / "probes.py"
    shutil.copy(probes.__file__, script)
    result = await bash(boxed, f"{PYTHON} probes.py '{json.dumps(outside)}'")
    tried = json.loads(result.text.partition("\nexit code 0")[0]) if result.log is None else _of_log(result)
    assert set(tried) == set(probes.PROBES)
    assert len(tried) >= 33
    return dict(tried)


def _of_log(result: Result) -> dict[str, str]:
    assert result.log is not None
    return dict(json.loads(result.log.path.read_text()))


def _all_files(*folders: Path) -> dict[Path, bytes]:
    """What is in them; a file stands for itself."""
    files = (path for folder in folders for path in (folder, *folder.rglob("*")) if path.is_file())
    return {path: path.read_bytes() for path in files}


async def test_what_work_takes_goes_on_as_without_a_sandbox(boxed: Workspace, home: Path) -> None:
    fill(boxed.root)
    (boxed.root / ".git" / "hooks").rename(boxed.root / ".git" / "no-hooks")
    script = """
        echo two > a.txt && git commit -qam second && git log -1 --format='%an %s' && git checkout -qb side &&
        git stash list && git worktree list | wc -l && git -C libs/part status --short && echo kept > /tmp/kept &&
        echo x > ~/.npm/index && : > "$(mktemp)" && echo /dev/shm/x > /dev/shm/x && cat ~/.netrc ~/.git-credentials &&
        (exec 3<>/dev/tcp/127.0.0.1/9) 2>&1 | grep -om1 'refused$'; python3 -c 'import multiprocessing as m; m.Lock()'
    """
    (boxed.root / "my-hooks" / "pre-commit").unlink()
    assert (await bash(boxed, script)).text == "Ada second\n1\nrefused\nexit code 0"
    assert (await bash(boxed, "cat /tmp/kept; ls -A .git/hooks")).text == "kept\nexit code 0"
    assert (home / ".npm" / "index").read_text() == "x\n"
    assert sorted(path.name for path in (boxed.root / ".git").iterdir() if "hooks" in path.name) == [
        "hooks",
        "no-hooks",
    ]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("echo x > ../beside", "it may not write `{place}/beside`"),
        ("echo x > ~/.profile", "it may not write `{place}/home/.profile`"),
        ("mkdir /opt/x", "it may not write `/opt/x`"),
        ("echo x >> .git/config", "it may not write `{place}/project/.git/config`"),
        ("cat ~/.ssh/id_ed25519", "it cannot see `{place}/home/.ssh`"),
        ("unshare -r true", "it may not create namespaces or mount anything"),
        ("touch x && chown 1:1 x", "it cannot give files to other users"),
        ("pgrep -f no-such-program", "it sees only this session's own processes, ports and network"),
        ("echo 'see ps(1)'; false", ""),
        (
            "touch x && ln x /tmp/x",
            "files cannot be linked between /tmp, which is a separate mount, and other folders",
        ),
        ("echo Cannot connect to the Docker daemon; exit 1", "it cannot reach Docker or Podman"),
        ("false", ""),
        ("grep -q 'Read-only file system' x || true", ""),
    ],
)
async def test_a_command_that_failed_says_what_the_sandbox_kept_from_it(
    command: str, message: str, boxed: Workspace, place: Path
) -> None:
    result = await bash(boxed, command)
    blocked = message.format(place=place)
    assert result.sandbox_block == blocked
    line = f"it ran in a sandbox, where {blocked}: do without it, or tell the user what it needs"
    assert (line in result.text.split("\n")) == bool(message)


async def test_a_look_at_other_programs_says_that_it_sees_none_of_them(boxed: Workspace) -> None:
    note = "it sees only this session's own processes, ports and network"
    assert [(await bash(boxed, command)).sandbox_block for command in ("ps aux | wc -l", "echo ps")] == [note, ""]


async def test_a_command_runs_although_a_place_goes_away_while_its_sandbox_is_put_up(
    boxed: Workspace, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a socket of another program does, and the folder that it was in."""
    known, gone = mount_paths.compute_path_access, [str(place / "gone" / "socket")]

    def places_of(*given: object) -> dict[str, PathAccess]:
        return {**known(*given), **({gone.pop(): "hidden file"} if gone else {})}  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr("ebbtide.tools.sandbox.mount_paths.compute_path_access", places_of)
    result = await bash(boxed, "echo ran >> log; cat log")
    assert (result.text, gone) == ("ran\nexit code 0", [])


async def test_caches_of_installed_programs_are_made_before_their_first_run(boxed: Workspace, home: Path) -> None:
    bin_folder = home / "bin"
    bin_folder.mkdir()
    for name in ("go", "uv"):
        write_program(bin_folder / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{bin_folder}:/usr/bin:/bin")
        patch.setenv("XDG_CACHE_HOME", str(home / "caches"))
        patch.setenv("GOMODCACHE", str(home / "modules"))
        (home / "modules").mkdir()
        result = await bash(
            boxed, "echo x > ~/go/pkg/x && echo y > ~/caches/uv/y && echo z > ~/modules/z; cat ~/bin/go"
        )
    assert result.text == "#!/bin/sh\nexit code 0"
    written = [(home / name).read_text() for name in ("go/pkg/x", "caches/uv/y", "modules/z")]
    assert (written, (home / ".cargo").exists()) == (["x\n", "y\n", "z\n"], False)


async def test_the_working_folder_has_the_name_that_the_user_has_for_it(
    boxed: Workspace, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "by-link").symlink_to(boxed.root)
    monkeypatch.setenv("PWD", str(place / "by-link"))
    assert (await bash(boxed, "pwd; pwd -P")).text == f"{place}/by-link\n{boxed.root}\nexit code 0"


@pytest.mark.parametrize("may_write", [True, False])
@pytest.mark.parametrize(("swapped", "target"), [("a", "../home/.ssh"), ("a/b", "../../home/.ssh")])
async def test_a_link_that_takes_the_place_of_a_folder_meanwhile_opens_nothing(
    swapped: str, target: str, may_write: bool, boxed: Workspace, home: Path
) -> None:
    """As what a command left in the background can do it, just before the next one's sandbox is put up."""
    assert boxed.sandbox is not None
    inner, log = boxed.root / "a" / "b", boxed.root / "log"
    inner.mkdir(parents=True)
    for folder in (inner, home / ".ssh", home / ".ssh" / "b"):
        write_file(folder / "settings")
    with (boxed.root / ".git" / "config").open("a") as config:
        config.write("[include]\n\tpath = ../a/b/settings\n")
    command = shell_launch("for d in a a/b; do cat $d/id_ed25519; echo x >> $d/authorized_keys; done")
    launch, before = boxed.sandbox.wrap(command, boxed.root, may_write=may_write), _all_files(home)
    (boxed.root / swapped).rename(boxed.root / "away")
    (boxed.root / swapped).symlink_to(target)
    program = start_program(launch, boxed.root, log)
    assert await program.wait(10)
    await program.close()
    assert log.read_text() == "sandbox: a folder was changed while it was put up\n"
    assert _all_files(home) == before


@pytest.mark.skipif(isinstance(LANDLOCK, NoSandbox), reason="the kernel has no Landlock that could be tried")
@pytest.mark.parametrize("access", ["write", "read"])
async def test_landlock_opens_nothing_behind_a_link_in_the_working_folder(
    access: PathAccess, boxed: Workspace, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert boxed.sandbox is not None
    monkeypatch.setattr("ebbtide.tools.sandbox.sandbox.detect_sandbox", lambda: LANDLOCK)
    linked = boxed.root / "a"
    linked.symlink_to(home / ".ssh")
    known = mount_paths.compute_path_access
    monkeypatch.setattr(
        "ebbtide.tools.sandbox.mount_paths.compute_path_access", lambda *given: {**known(*given), str(linked): access}
    )
    result = await bash(boxed, "cat a/id_ed25519; echo x >> a/id_ed25519; echo done")
    assert [line for line in result.text.splitlines() if "Permission denied" not in line] == ["done", "exit code 0"]


async def test_a_further_folder_is_written_while_it_is_one(boxed: Workspace, home: Path, place: Path) -> None:
    assert boxed.sandbox is not None
    approval, more = Approver(Policy(str(boxed.root)), added_folders=boxed.sandbox.added_roots), place / "more"
    boundary = SessionBoundary(approval, boxed)
    git(more.parent, "init", "more")
    assert boundary.add_folder("../more") == more
    asked = PermissionRequest("read", "read", (str(more / "a"),))
    result = await bash(
        boxed, "echo x > ../more/a; cat ../more/a; git -C ../more config a.b c 2>/dev/null || echo kept"
    )
    assert result.text.startswith("x\nkept\nexit code 0\n")
    assert result.sandbox_block.startswith("Git's setting `a.b` was not written")
    assert decide(asked, approval.policy).verdict == "allow"
    for wrong, problem in (
        ("../not-there", f"there is no folder `{place}/not-there`"),
        ("sub/../../more/.git", f"`{more}/.git` is already part of this session"),
        (".", f"`{boxed.root}` is already part of this session"),
        ("~/.config", f"`{home}/.config` contains this program's own files, which no session may change"),
    ):
        with pytest.raises(ConfigError, match=re.escape(problem)):
            boundary.add_folder(wrong)
    assert (boundary.added_folders, boundary.remove_folder(str(more)), boundary.added_folders) == (
        (str(more),),
        more,
        (),
    )
    assert (await bash(boxed, "echo x > ../more/b")).sandbox_block == f"it may not write `{more}/b`"
    assert decide(asked, approval.policy).verdict == "ask"


async def test_all_of_the_disk_as_working_folder_shows_nothing_that_is_hidden(
    home: Path, outside: dict[str, object]
) -> None:
    outputs = home / "outputs"
    made = Workspace(
        Path("/"), outputs, sandbox=Sandbox(Path("/"), outputs / "tmp", visible_paths=(Path("/"), outputs))
    )
    result = await bash(
        made, f"cat /dev/null; ls -A /run; ls -d {outside['named']}; ls {home}/.ssh; echo x > /tmp/x && echo written"
    )
    assert [line for line in result.text.splitlines() if "cannot access" not in line] == ["written", "exit code 0"]


async def test_sockets_of_others_are_hidden_where_they_lie_in_the_working_folder(
    home: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = place / "desk"
    monkeypatch.setattr("ebbtide.tools.sandbox.mount_paths.SHARED_SOCKET_FOLDERS", (str(root),))
    (root / "tmux-0").mkdir(parents=True)
    monkeypatch.chdir(root)  # a path of a socket is short
    with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as agent_socket:
        other.bind("tmux-0/default")
        agent_socket.bind("agent")
        made = Workspace(root, home / "out", sandbox=Sandbox(root, home / "out" / "tmp", visible_paths=(root,)))
        result = await bash(made, "ls tmux-0; test -S agent || touch a && ls")
    assert result.text.splitlines() == ["a", "agent", "tmux-0", "exit code 0"]


async def test_without_network_a_command_says_so(boxed: Workspace) -> None:
    assert boxed.sandbox is not None
    alone = replace(boxed, sandbox=replace(boxed.sandbox, has_network=False))
    result = await bash(alone, "echo > /dev/tcp/192.0.2.1/80")
    assert result.sandbox_block == "it has no network"


async def test_a_server_of_the_project_talks_over_its_pipes_and_ends_whole(boxed: Workspace, place: Path) -> None:
    assert boxed.sandbox is not None
    serves = "read line; test -e ~/.ssh/id_ed25519; echo $?; read line"
    launch = boxed.sandbox.wrap(shell_launch(serves), boxed.root)
    child = await start_child(launch, boxed.root, ServerLog(place / "log"), 1000)
    child.write(b"go\n")
    assert await child.read() == b"1"
    await child.end()
    await soon(lambda: not is_alive(child.transport.get_pid()))


async def test_a_file_in_the_real_tmp_that_a_command_does_not_see_is_named(
    boxed: Workspace, outside: dict[str, object]
) -> None:
    named = outside["named"]
    assert (
        await bash(boxed, f"cat {named}")
    ).sandbox_block == f"/tmp is private to the session, so it cannot see `{named}`"
    nowhere = tempfile.mktemp(prefix="nowhere-", dir="/tmp")
    assert (await bash(boxed, f"cat {nowhere}")).sandbox_block == ""


async def test_what_may_only_look_cannot_write_in_the_working_folder(boxed: Workspace) -> None:
    assert boxed.sandbox is not None
    (boxed.root / "a.txt").write_text("one\n")
    launch = boxed.sandbox.wrap(shell_launch("cat a.txt; echo x > a.txt"), boxed.root, may_write=False)
    program = start_program(launch, boxed.root, boxed.root / "log")
    assert await program.wait(10)
    assert (boxed.root / "log").read_text().splitlines()[0] == "one"
    assert "a.txt: Read-only file system" in (boxed.root / "log").read_text()
    await program.close()


async def test_what_a_command_leaves_in_the_background_runs_on_until_the_session_ends(boxed: Workspace) -> None:
    result = await bash(boxed, "sleep 987 & setsid sleep 986 & echo started")
    assert result.text.endswith("its background processes keep running until the session ends")
    await soon(lambda: _running("sleep 987") and _running("sleep 986"))
    await boxed.jobs.close()
    await soon(lambda: not _running("sleep 987") and not _running("sleep 986"))


async def test_a_job_is_asked_to_end_before_it_is_forced(boxed: Workspace) -> None:
    command = "trap 'echo tidied up; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    await bash(boxed, command, background=True)
    job = boxed.jobs.by_id["job-1"]
    await soon(lambda: b"ready" in job.program.log.read_bytes())
    killed = await BashKill().run({"job": "job-1"}, boxed)
    assert "tidied up" in killed.text


async def test_a_job_with_a_terminal_has_its_keys(boxed: Workspace) -> None:
    command = "trap 'echo interrupted' INT; tty -s && echo a terminal; while :; do read line; echo got $line; done"
    await bash(boxed, command, terminal=True)
    job = boxed.jobs.by_id["job-1"]
    await soon(lambda: b"a terminal" in job.program.log.read_bytes())
    job.program.write(b"words\n")
    await soon(lambda: b"got words" in job.program.log.read_bytes())
    job.program.write(b"\x03")
    await soon(lambda: b"interrupted" in job.program.log.read_bytes())
    assert job.program.code is None


def _running(command: str) -> bool:
    found = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))
    return any(line.replace(b"\0", b" ").strip() == command.encode() for line in found)


async def test_what_is_shown_of_a_hidden_folder_is_seen_and_the_rest_is_not(home: Path, place: Path) -> None:
    data, root = home / ".local" / "share" / "ebbtide", place / "project"
    outputs = data / "outputs" / "aa11"
    for folder in (root, outputs):
        folder.mkdir(parents=True)
    (data / "sessions.db").write_text("kept")
    (outputs / "1.log").write_text("printed\n")
    made = Workspace(
        root, outputs, sandbox=Sandbox(root, outputs / "tmp", own_folders=(data,), visible_paths=(root, outputs))
    )
    result = await bash(made, f"cat {outputs}/1.log; ls {data}; touch {data}/x {outputs}/x 2>/dev/null || echo refused")
    assert result.text == "printed\noutputs\nrefused\nexit code 0"
    await made.jobs.close()


async def test_an_agent_that_starts_between_two_commands_is_hidden_from_the_second(
    boxed: Workspace, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = f"{PYTHON} -c \"import os, socket; socket.socket(socket.AF_UNIX).connect(os.environ['HOME'] + '/s')\""
    assert "FileNotFoundError" in (await bash(boxed, connect)).text
    monkeypatch.chdir(home)  # the path of a socket is short
    for name in ("s", str(home / "s")):
        with socket.socket(socket.AF_UNIX) as agent:
            agent.bind(name)
            agent.listen()
            assert "ConnectionRefusedError" in (await bash(boxed, connect)).text
        (home / "s").unlink()


async def test_keys_that_appear_between_two_commands_are_hidden_from_the_second(boxed: Workspace, home: Path) -> None:
    shutil.rmtree(home / ".aws")
    assert "No such file" in (await bash(boxed, "cat ~/.aws/credentials ~/.config/gh/hosts.yml")).text
    write_files(home, (".aws/credentials", ".config/gh/hosts.yml"), "kept\n")
    assert "kept" not in (await bash(boxed, "cat ~/.aws/credentials ~/.config/gh/hosts.yml; ls ~/.aws")).text


async def test_a_link_in_place_of_the_working_folder_opens_nothing(boxed: Workspace, home: Path) -> None:
    assert (await bash(boxed, "touch a && ls")).text == "a\nexit code 0"
    before = _all_files(home)
    boxed.root.rename(boxed.root.with_name("away"))
    boxed.root.symlink_to(home / ".ssh")
    result = await bash(boxed, "cat id_ed25519; echo x >> authorized_keys; ls -A ~/.ssh")
    assert "kept" not in result.text
    assert _all_files(home) == before


def _mount_disk(folder: Path) -> None:
    """Mounts a file system in memory. Skips the test if that is not permitted."""
    if subprocess.run(["mount", "-t", "tmpfs", "disk", str(folder)], check=False, capture_output=True).returncode:
        pytest.skip("only an administrator can mount, and not in every container")


def _unmount_disk(folder: Path) -> None:
    subprocess.run(["umount", str(folder)], check=True)


async def test_a_file_system_that_is_mounted_between_two_commands_is_seen_and_not_written(
    boxed: Workspace, place: Path
) -> None:
    disk = place / "disk"
    disk.mkdir()
    assert (await bash(boxed, f"ls {disk}")).text == "no output\nexit code 0"
    _mount_disk(disk)
    try:
        (disk / "a").write_text("seen\n")
        result = await bash(boxed, f"cat {disk}/a; echo x > {disk}/b")
    finally:
        _unmount_disk(disk)
    assert result.text.startswith("seen\n")
    assert result.sandbox_block == f"it may not write `{disk}/b`"
