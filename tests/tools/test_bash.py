"""Commands and background jobs as real processes."""

import asyncio
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.tools.base import LoggedOutput, Result, ToolError, Workspace
from ebbtide.tools.bash import Bash
from ebbtide.tools.bash_kill import BashKill
from ebbtide.tools.bash_output import BashOutput
from ebbtide.tools.process.program import ProcessLimits, Program
from ebbtide.tools.process.shell import child_environment, shell_launch
from ebbtide.tools.process.start import start_program
from ebbtide.tools.process.state import ProgramState
from tests.kit.polling import is_alive, soon


async def bash(workspace: Workspace, command: str, **more: int | bool) -> Result:
    return await Bash().run({"command": command, **more}, workspace)


def is_running(pid_file: Path) -> bool:
    """Whether the process with this number runs, and is no zombie that nobody has buried yet."""
    return is_alive(int(pid_file.read_text()))


@pytest.mark.parametrize(
    ("command", "text", "failed"),
    [
        ("true", "no output\nexit code 0", False),
        ("echo out; echo err >&2; exit 3", "out\nerr\nexit code 3", True),
        ("echo a; echo b >/dev/stderr; echo c", "a\nb\nc\nexit code 0", False),
        ("printf 'no newline'", "no newline\nexit code 0", False),
        ("kill -SEGV $$", "no output\nkilled by SIGSEGV", True),
        ("exit 137", "no output\nexit code 137", True),
        ("cat", "no output\nexit code 0", False),
        ("exec 1>&- 2>&-; echo x", "no output\nexit code 1", True),
        (r"printf '\xc3\xa4\n\n'", "ä\n\nexit code 0", False),
        ("echo $TERM $PAGER", "dumb cat\nexit code 0", False),
    ],
)
async def test_a_command_says_what_it_printed_and_how_it_ended(
    command: str, text: str, failed: bool, workspace: Workspace
) -> None:
    result = await bash(workspace, command)
    assert result.program is not None
    printed, _, state_text = text.rpartition("\n")
    state = replace(result.program, told=state_text, is_silent=printed == "no output")
    assert result == Result(text, has_failed=failed, program=state)
    assert (result.program.outcome_text, result.program.printed_text(text)) == (
        state_text,
        "" if state.is_silent else printed,
    )
    assert os.listdir(workspace.outputs_folder) == []


async def test_what_commands_print_is_for_its_owner_only(workspace: Workspace, tmp_path: Path) -> None:
    outputs = tmp_path / "data" / "outputs" / "session"
    outputs.parent.parent.mkdir()
    await bash(replace(workspace, outputs_folder=outputs), "true")
    assert [folder.stat().st_mode & 0o777 for folder in (outputs, outputs.parent)] == [0o700, 0o700]


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("seq 100000", "".join(f"{n}\n" for n in range(1, 100_001)).encode()),
        ("head -c 5000 /dev/zero", bytes(5000)),
        (r"printf '\033[31mred\033[0m\r\n1%%\r2%%\n'", b"\x1b[31mred\x1b[0m\r\n1%\r2%\n"),
        (r"printf 'caf\351\n\n\n'", b"caf\xe9\n\n\n"),
    ],
    ids=["long", "zeros", "colours", "latin"],
)
async def test_output_that_is_long_or_no_plain_text_is_handed_over_in_its_file(
    command: str, printed: bytes, workspace: Workspace
) -> None:
    result = await bash(workspace, command)
    assert result.log is not None
    assert result == Result(
        "exit code 0",
        LoggedOutput(result.log.path, 0, len(printed), is_finished=True),
        program=ProgramState("exit code 0", 0),
    )
    assert result.log.path.read_bytes() == printed


async def test_a_child_in_the_background_holds_nothing_up_and_ends_with_the_session(workspace: Workspace) -> None:
    pids = workspace.root / "pids"
    result = await bash(workspace, f"sleep 300 & echo $! > {pids}; echo done")
    assert result.text == "done\nexit code 0\nits background processes keep running until the session ends"
    assert is_running(pids)
    await workspace.jobs.close()
    await soon(lambda: not is_running(pids))


async def test_what_a_child_prints_later_does_not_break_it(workspace: Workspace) -> None:
    await bash(workspace, "(while [ ! -e go ]; do sleep 0.01; done; echo late; touch printed) & echo now")
    (workspace.root / "go").touch()
    await soon((workspace.root / "printed").exists)


async def test_a_command_that_takes_too_long_goes_on_as_a_job(workspace: Workspace) -> None:
    progress: list[str] = []
    workspace = replace(workspace, on_progress=progress.append)
    result = await bash(workspace, "echo begun; until [ -e go ]; do sleep 0.01; done; echo done; exit 3", timeout=1)
    state_text = "not finished after 1 s: it continues as job-1; bash_output shows its output, bash_kill ends it"
    assert result == Result(f"begun\n{state_text}", program=ProgramState(state_text, job="job-1"))
    (workspace.root / "go").touch()
    await workspace.jobs.by_id["job-1"].program.wait(60)
    rest = await BashOutput().run({"job": "job-1"}, workspace)
    assert rest.text == "done\njob-1: exit code 3"
    assert progress == ["begun\n"]  # nobody watches the call any more


async def test_what_goes_on_as_a_job_ends_with_the_session(workspace: Workspace) -> None:
    result = await bash(workspace, "sleep 300 & echo $! > pid; wait", timeout=1)
    assert result.text.startswith("no output yet\nnot finished after 1 s: it continues as job-1;")
    assert [job.id for job in workspace.jobs.running_jobs] == ["job-1"]
    await workspace.jobs.close()
    await soon(lambda: not is_running(workspace.root / "pid"))


async def test_a_command_begins_in_the_folder_that_it_is_given(workspace: Workspace) -> None:
    (workspace.root / "a b").mkdir()
    arguments = {"command": "pwd", "workdir": "a b"}
    result = await Bash().run(arguments, workspace)
    assert result.text == f"{workspace.root}/a b\nexit code 0"
    assert (await bash(workspace, "cd 'a b'")).text == "no output\nexit code 0"
    assert (await bash(workspace, "pwd")).text == f"{workspace.root}\nexit code 0"
    assert Bash().subjects(arguments, workspace) == ("cd 'a b' && pwd",)
    with pytest.raises(ToolError, match="`nowhere` is not a folder, so nothing was run"):
        await Bash().run({"command": "touch made", "workdir": "nowhere"}, workspace)
    assert not (workspace.root / "made").exists()


async def test_a_job_with_a_terminal_is_written_to(workspace: Workspace) -> None:
    asks = "test -t 0 && test -t 1 && tty -s </dev/tty && read -p 'Name? ' name; echo \"hello $name\"; read; exit 4"
    started = await bash(workspace, asks, terminal=True)
    assert started.text == "job-1 is running; bash_output shows its output, bash_kill ends it"
    program = workspace.jobs.by_id["job-1"].program
    await program.wait_for_output(60, 5)
    answer = {"command": "Ann", "job": "job-1"}
    assert Bash().subjects(answer, workspace) == (f"{asks} <<< Ann",)
    printed = (await Bash().run(answer, workspace)).text
    await program.wait_for_output(60, len("Name? Ann\n"))
    printed += (await BashOutput().run({"job": "job-1"}, workspace)).text
    assert "Name? Ann" in printed
    assert "hello Ann" in printed
    await Bash().run({"command": "", "job": "job-1"}, workspace)
    await program.wait(60)
    assert program.code == 4
    with pytest.raises(ToolError, match=r"job-1 has ended \(exit code 4\): start it again"):
        await Bash().run(answer, workspace)


async def test_a_job_without_a_terminal_takes_no_input(workspace: Workspace) -> None:
    await bash(workspace, "sleep 300", background=True)
    with pytest.raises(ToolError, match="job-1 takes no input: start the command with `terminal`"):
        await Bash().run({"command": "x", "job": "job-1"}, workspace)
    with pytest.raises(ToolError, match="there is no job `job-7`"):
        await Bash().run({"command": "x", "job": "job-7"}, workspace)


async def test_a_job_with_a_terminal_ends_with_the_session(workspace: Workspace) -> None:
    await bash(workspace, "trap '' HUP; echo $$ > pid.new; mv pid.new pid; sleep 300", terminal=True)
    await soon((workspace.root / "pid").exists)
    await workspace.jobs.close()
    await soon(lambda: not is_running(workspace.root / "pid"))


async def test_a_cancelled_command_leaves_no_process(workspace: Workspace) -> None:
    pid = workspace.root / "pid"
    command = "trap '' TERM; bash -c 'bash -c \"sleep 300 & echo \\$! > pid.new; mv pid.new pid; sleep 300\"'"
    task = asyncio.create_task(bash(workspace, command))
    await soon(pid.exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await soon(lambda: not is_running(pid))


async def test_progress_is_told_while_the_command_runs(workspace: Workspace) -> None:
    progress: list[str] = []
    watched = replace(workspace, on_progress=progress.append)
    task = asyncio.create_task(
        bash(watched, "printf '\\033[1mone\\n'; while [ ! -e go ]; do sleep 0.01; done; echo two")
    )
    await soon(lambda: progress == ["one\n"])
    (workspace.root / "go").touch()
    await task
    assert progress == ["one\n", "two\n"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "the command is empty: say what to run"),
        ("echo \0", "the command contains a NUL character: remove it, or create it with `printf '\\0'`"),
        ("x" * 200_000, "the command is too long (200000 characters): write it to a file and run that"),
    ],
)
async def test_a_command_that_cannot_run_is_explained(command: str, message: str, workspace: Workspace) -> None:
    with pytest.raises(ToolError) as caught:
        await bash(workspace, command)
    assert str(caught.value) == message


async def test_a_working_folder_that_is_gone_is_explained(workspace: Workspace) -> None:
    workspace.root.rmdir()
    with pytest.raises(ToolError, match=r"the working folder `.*` no longer exists: ask the user what to do"):
        await bash(workspace, "true")


async def started(workspace: Workspace, command: str, limits: ProcessLimits) -> Program:
    workspace.outputs_folder.mkdir(exist_ok=True)
    log = workspace.outputs_folder / "log"
    return start_program(shell_launch(command), workspace.root, log, limits=limits)


async def test_a_command_that_prints_too_much_keeps_both_ends_and_says_so(workspace: Workspace) -> None:
    limited = replace(workspace, max_output_bytes=40_000)
    result = await bash(limited, "seq 1 20000; echo the end; exit 3")
    assert result.log is not None
    log = result.log.path.read_text()
    assert (result.text, result.program and result.program.code, result.has_failed) == (
        "it printed 108,902 bytes, more than the limit of 40,000: the middle was dropped\nexit code 3", 3, True
    )  # fmt: skip
    beginning, dropped, end = re.split(r"\n(\[… 68,902 bytes of output dropped here …\])\n", log)
    everything = "".join(f"{number}\n" for number in range(1, 20_001)) + "the end\n"
    assert dropped
    assert (len(beginning), len(end)) == (30_000, 10_000)
    assert everything.startswith(beginning)
    assert everything.endswith(end)


async def test_a_command_that_prints_without_end_is_ended_when_its_time_is_over(workspace: Workspace) -> None:
    limited = replace(workspace, max_output_bytes=40_000)
    result = await bash(limited, "echo $$ > pid; yes", timeout=1)
    assert result.log is not None
    printed, ended = re.sub(r"[\d,]+ bytes", "N bytes", result.text, count=1).splitlines()
    assert printed == "it printed N bytes, more than the limit of 40,000: the middle was dropped"
    assert ended == "not finished after 1 s: it was ended because it kept printing"
    assert result.program is not None
    assert (result.program.limit, result.has_failed, limited.jobs.running_jobs) == (1, True, ())
    assert 40_000 < result.log.path.stat().st_size < 40_100
    assert not is_running(workspace.root / "pid")


async def test_a_job_that_prints_without_end_fills_no_disk_and_shows_its_newest_output(workspace: Workspace) -> None:
    limited = replace(workspace, max_output_bytes=40_000)
    await bash(limited, "seq 1 20000; echo first; until [ -e go ]; do sleep 0.01; done; seq 1 9000", background=True)
    job = limited.jobs.by_id["job-1"]
    await job.program.wait_for_output(60, 108_899)
    seen = await BashOutput().run({"job": "job-1"}, limited)
    assert seen.log is not None
    assert seen.log.path.read_bytes()[seen.log.start : seen.log.end].endswith(b"\n20000\nfirst\n")
    (workspace.root / "go").touch()
    await job.program.wait(60)
    news = await BashOutput().run({"job": "job-1"}, limited)
    assert news.log is not None
    printed = news.log.path.read_bytes()[news.log.start :].decode()
    numbers = "".join(f"{number}\n" for number in range(1, 9001))
    assert printed == f"\n[… 33,893 bytes of output dropped here …]\n{numbers[-10_000:]}"
    assert news.text == (
        "it printed 152,793 bytes, more than the limit of 40,000: the middle was dropped\njob-1: exit code 0"
    )


async def test_a_program_that_ignores_the_request_to_end_is_ended(workspace: Workspace) -> None:
    program = await started(
        workspace, "trap '' TERM; echo on; while :; do sleep 1; done", ProcessLimits(grace_seconds=0.1)
    )
    await program.wait_for_output(20, 0)
    await program.close()
    assert program.code == -9


async def test_a_background_job_is_looked_at_and_ended(workspace: Workspace) -> None:
    begun = await bash(
        workspace, "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; sleep 300", background=True
    )
    state_text = "job-1 is running; bash_output shows its output, bash_kill ends it"
    assert begun == Result(state_text, program=ProgramState(state_text, job="job-1", is_silent=True))
    runs = ProgramState("job-1: still running", job="job-1")
    look = {"job": "job-1", "wait": 20}
    assert await BashOutput().run(look, workspace) == Result("one\njob-1: still running", program=runs)
    (workspace.root / "go").touch()
    assert await BashOutput().run(look, workspace) == Result("two\njob-1: still running", program=runs)
    assert await BashOutput().run({"job": "job-1"}, workspace) == Result(
        "no new output\njob-1: still running", program=replace(runs, is_silent=True)
    )
    state_text = "job-1: killed by SIGTERM"
    assert await BashKill().run({"job": "job-1"}, workspace) == Result(
        f"no new output\n{state_text}", program=ProgramState(state_text, signal=15, job="job-1", is_silent=True)
    )
    assert workspace.jobs.running_jobs == ()


async def test_an_unknown_job_is_an_error_that_names_the_known_ones(workspace: Workspace) -> None:
    await bash(workspace, "true", background=True)
    with pytest.raises(ToolError, match=r"there is no job `job-9`; jobs of this session: job-1"):
        await BashOutput().run({"job": "job-9"}, workspace)


def test_a_command_gets_what_development_needs() -> None:
    given = {
        "PATH": "/bin", "HOME": "/home/u", "LC_ALL": "C", "XDG_CACHE_HOME": "/c", "VIRTUAL_ENV": "/v", "CI": "1",
        "PYTHONPATH": "src", "CONDA_PREFIX": "/c", "NVM_DIR": "/n", "npm_config_cache": "/n", "GOPRIVATE": "a.org",
        "CARGO_HOME": "/c", "JAVA_HOME": "/j", "CFLAGS": "-O2", "SSH_AUTH_SOCK": "/s", "GIT_AUTHOR_NAME": "A",
        "KUBECONFIG": "/k", "https_proxy": "http://proxy:3128", "NODE_EXTRA_CA_CERTS": "/c.pem", "PWD": "/w",
        "XDG_SESSION_TYPE": "tty", "PIP_INDEX_URL": "https://example.org/simple",
    }  # fmt: skip
    environment = child_environment(given)
    assert {name: environment[name] for name in given} == given
    assert environment["GIT_TERMINAL_PROMPT"] == "0"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SOME_API_KEY", "x"),
        ("MY_DATABASE", "x"),
        ("ANYTHING", "x"),
        ("GITHUB_TOKEN", "x"),
        ("CARGO_REGISTRIES_OWN_TOKEN", "x"),
        ("POETRY_PYPI_TOKEN_OWN", "x"),
        ("RAILS_MASTER_KEY", "x"),
        ("DJANGO_SECRET", "x"),
        ("COMPOSER_AUTH", "{}"),
        ("npm_config_//example.org/:_authToken", "x"),
        ("npm_config__auth", "x"),
        ("FLASK_DB", "postgres://:word@db/x"),
        ("NODE_OPTIONS", "--x=ghp_0123456789abcdef"),
        ("BASH_ENV", "/x"),
        ("BASH_FUNC_ls%%", "() { x; }"),
        ("SHELLOPTS", "xtrace"),
        ("LESSOPEN", "|x %s"),
        ("DIRENV_DIFF", "x"),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/x"),
    ],
)
def test_secrets_and_what_bash_would_run_do_not_reach_a_command(name: str, value: str) -> None:
    assert name not in child_environment({name: value})
    assert child_environment({name: value, "EBB_PASS_ENV": f"A, {name} B"})[name] == value


@pytest.mark.parametrize(
    ("name", "value", "passed"),
    [
        ("https_proxy", "http://me:word@proxy:3128", "http://proxy:3128"),
        ("PIP_INDEX_URL", "https://0123456789abcdef0123@example.org/simple", "https://example.org/simple"),
        ("npm_config_registry", "https://me:w@rd@example.org/npm/", "https://example.org/npm/"),
        ("UV_INDEX_URL", "https://me:word@a.org/x", "https://a.org/x"),
        ("GOPROXY", "https://me:word@a.org/x,https://b.org,direct", "https://a.org/x,https://b.org,direct"),
    ],
)
def test_addresses_of_registries_and_proxies_lose_only_their_passwords(name: str, value: str, passed: str) -> None:
    assert child_environment({name: value})[name] == passed
    assert child_environment({name: value, "EBB_PASS_ENV": name})[name] == value


def test_the_user_passes_on_variables_by_their_beginning_too() -> None:
    passed = child_environment({"EBB_PASS_ENV": "APP_*", "APP_A": "1", "APP_B": "2", "AP": "3"})
    assert {name for name in passed if name.startswith("AP")} == {"APP_A", "APP_B"}


async def test_a_command_says_which_files_that_others_obey_it_changed(workspace: Workspace) -> None:
    (workspace.root / ".npmrc").write_text("a=1\n")
    hidden = "import os; os.makedirs('.github/workflows'); open('.github/workflows/ci.yml', 'w'); os.remove('.npmrc')"
    result = await bash(workspace, f'python3 -c "{hidden}"; touch a.py')
    obeyed = (
        "`.npmrc`, `.github/workflows/ci.yml`, which other programs run or read automatically: say so in your answer"
    )
    assert result.text == f"no output\nexit code 0\nit changed {obeyed}"
    assert result.program is not None
    assert result.program.printed_text(result.text) == ""
    assert (await bash(workspace, "touch b.py")).text == "no output\nexit code 0"
    made = await bash(workspace, "mkdir -p .git/hooks; touch .git/hooks/pre-push.sample")
    assert made.text == "no output\nexit code 0"
    assert "`.git/hooks/pre-push`" in (await bash(workspace, "touch .git/hooks/pre-push")).text


async def test_an_edit_in_place_that_changed_nothing_or_broke_a_file_says_so(workspace: Workspace) -> None:
    (workspace.root / "a.py").write_text("x = 1\n")
    nothing = "it changed nothing in `a.py`: its pattern does not occur as written"
    broken = "`a.py` no longer parses: line 1, `y = (`: '(' was never closed"
    for command, message in (
        ("sed -i 's/y/z/' a.py", f"no output\nexit code 0\n{nothing}"),
        ("sed -i 's/x/y/' a.py", "no output\nexit code 0"),
        ("sed -i 's/1/(/' a.py && cat a.py", f"y = (\nexit code 0\n{broken}"),
        ("sed -i 's/a/b/' missing.py", "sed: can't read missing.py: No such file or directory\nexit code 2"),
    ):  # fmt: skip
        result = await Bash().run({"command": command}, workspace)
        assert result.text.startswith(message), result.text
        assert result.text.count("\n") == message.count("\n")
