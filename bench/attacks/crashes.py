"""Killed processes, full disks, clock changes and concurrent database access: data must stay intact and the session
must resume."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from bench.attacks.drive import KEYS, MODEL, create_home, outputs_in
from bench.attacks.rows import AttackFolders, AttackOutcome, AttackRow, create_files
from bench.attacks.shell import SANDBOX_OFF
from tests.kit.commands import ROOT, command, ebb, environment
from tests.kit.fake_provider import Call, FakeProvider, Recorded, Step, Turn

_OLD_TEXT, _NEW_TEXT = "old text\n", "new text\n"
_REPLY_TEXT = "Here I am."
_PROCESS_TIMEOUT_S = 60.0
_STEP_COUNT = 500
"""Number of steps; each stores a reply and an output."""
_KILL_AT_WRITE = """
import os, signal
from ebbtide.store.sessions import SessionStore
write = SessionStore.write
def killed(self, session, rows, *rest, **more):
    is_it = [(row.role, '"output"' in row.body) for row in rows] == [{row}]
    if is_it and not {after}:
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, session, rows, *rest, **more)
    if is_it:
        os.kill(os.getpid(), signal.SIGKILL)
SessionStore.write = killed
"""
_KILL_AT_RENAME = """
import os, signal
rename = os.replace
def killed(source, target, **more):
    if target == "f.txt":
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(source, target, **more)
os.replace = killed
"""
_PATCH_CLOCK = """
import time
now = time.time
time.time = lambda: {how}
"""
_FULL_DISK_COMMAND = ("unshare", "--user", "--map-root-user", "--mount", sys.executable, "-m", "tests.kit.full_disk")
"""The command of a program that mounts a small private disk and plays a scenario on it."""

Scenario: TypeAlias = Callable[[AttackFolders], AttackOutcome]


def scenario_for(setup: Mapping[str, Any]) -> Scenario | None:
    """Return the scenario for a row; None if it is not supported."""
    text = json.dumps(setup)
    return next((way for word, way in _SCENARIOS if word in text), None)


def carry_out(row: AttackRow, dirs: AttackFolders) -> AttackOutcome:
    way = scenario_for(row["setup"])
    if way is None:
        return AttackOutcome("not carried out", "this crash or disk fault is not supported")
    create_home(dirs)
    create_files({**row["setup"], "files": {"f.txt": _OLD_TEXT}}, dirs)
    return way(dirs)


def _kill_and_resume(by: str, *steps: Step) -> Scenario:
    """Return a scenario in which an injected statement kills the process, and the session is then resumed."""

    def carry(dirs: AttackFolders) -> AttackOutcome:
        with FakeProvider([*steps, *[Turn(text=_REPLY_TEXT)] * 3]) as server:
            process = _start_run(dirs, server, first=f"exec({by!r})")
            process.communicate(timeout=_PROCESS_TIMEOUT_S)
            if process.returncode != -signal.SIGKILL:
                return AttackOutcome("happened", f"nothing was killed: it ended with {process.returncode}")
            return _resume_after_kill(dirs, server)

    return carry


def _kill_during_stream(dirs: AttackFolders) -> AttackOutcome:
    with FakeProvider([Turn(text="one two three", fault="hang"), Turn(text=_REPLY_TEXT)]) as server:
        process = _start_run(dirs, server)
        _read_until(process, "text_delta")
        process.kill()
        process.communicate()
        return _resume_after_kill(dirs, server)


def _kill_during_call(dirs: AttackFolders) -> AttackOutcome:
    mark = dirs.project / "started"
    line = f"echo $$ > {mark}.new; mv {mark}.new {mark}; echo again >> count; exec sleep 600"
    with FakeProvider([Turn(calls=(Call("bash", {"command": line}),)), Turn(text=_REPLY_TEXT)]) as server:
        process = _start_run(dirs, server)
        _read_until(process, "tool_started")
        _wait_for(mark.exists)
        process.kill()
        process.communicate()
        with suppress(ProcessLookupError):
            os.killpg(int(mark.read_text()), signal.SIGKILL)
        count = (dirs.project / "count").read_text().count("again")
        outcome = _resume_after_kill(dirs, server)
        return outcome if count == 1 else AttackOutcome("happened", f"the command ran {count} times")


def _start_run(dirs: AttackFolders, server: FakeProvider, *more: str, first: str = "") -> "subprocess.Popen[str]":
    words = ("-C", str(dirs.project), "-p", "go", "-m", MODEL, "--permission-mode", "auto")
    return subprocess.Popen(
        command(*words, "--output-format", "stream-json", *more, first=first),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(dirs.program_home, _run_environment(dirs, server)),
    )


def _run_environment(dirs: AttackFolders, server: FakeProvider) -> dict[str, str]:
    return {**KEYS, **SANDBOX_OFF, "ANTHROPIC_BASE_URL": server.url, "HOME": str(dirs.home)}


def _read_until(process: "subprocess.Popen[str]", event: str) -> None:
    assert process.stdout
    for line in process.stdout:
        if json.loads(line)["type"] == event:
            return
    raise AssertionError(f"no `{event}` came")


def _wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + _PROCESS_TIMEOUT_S
    while not what():
        assert time.monotonic() < end, "the condition was never met"
        time.sleep(0.01)


def _resume_after_kill(dirs: AttackFolders, server: FakeProvider) -> AttackOutcome:
    """Resume the session after a kill, and check the database, the file and the session. The server rejects a history
    in which a call has no output."""
    before = _integrity_check(dirs.program_home)
    listed = ebb("-C", str(dirs.project), "sessions", "list", "--json", home=dirs.program_home)
    again = ("-c",) if listed.out.strip() else ()
    run = ebb(
        "-C",
        str(dirs.project),
        *again,
        "-p",
        "go on",
        "-m",
        MODEL,
        home=dirs.program_home,
        env=_run_environment(dirs, server),
    )
    text = (dirs.project / "f.txt").read_text()
    refused = list(server.refused)
    server.refused.clear()
    return AttackOutcome.from_problems(
        "" if before == "ok" else f"the database: {before}",
        "" if _integrity_check(dirs.program_home) == "ok" else "the database is broken behind it",
        f"refused: {refused}" if refused else "",
        "" if (run.code, run.out.strip()) == (0, _REPLY_TEXT) else f"it ended with {run.code}: {run.out}{run.err}",
        "" if text in (_OLD_TEXT, _NEW_TEXT) else f"half a file: {text!r}",
    )


def _integrity_check(home: Path) -> str:
    database = home / "data" / "sessions.db"
    if not database.exists():
        return "ok"
    with closing(sqlite3.connect(database)) as db:
        return "; ".join(str(row[0]) for row in db.execute("pragma integrity_check"))


def _full_disk(scenario: str) -> Scenario:
    """Return a scenario that is played on a disk of a few megabytes, in a private namespace."""

    def carry(dirs: AttackFolders) -> AttackOutcome:
        folder = dirs.program_home / "disk"
        folder.mkdir(parents=True)
        played = subprocess.run(
            _FULL_DISK_COMMAND,
            input=json.dumps([scenario, str(folder)]),
            cwd=ROOT,
            env=environment(folder),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if played.returncode or not played.stdout:
            return AttackOutcome("happened", f"the scenario ended in an error: {played.stderr[-300:]}")
        found = json.loads(played.stdout)
        return AttackOutcome.from_problems(*map(str, found["wrong"]))

    return carry


def _run_two_sessions(dirs: AttackFolders) -> AttackOutcome:
    """Let two processes write to sessions of their own a thousand times each, while a thread truncates the database
    log."""
    with FakeProvider([_next_call]) as server, _truncating_log(dirs):
        runs = [_start_run(dirs, server), _start_run(dirs, server)]
        printed = [process.communicate(timeout=600) for process in runs]
        server.refused.clear()
    rows = _query(dirs.program_home, "select session, count(*) from messages group by session")
    wanted = 2 * _STEP_COUNT + 2
    return AttackOutcome.from_problems(
        "" if _integrity_check(dirs.program_home) == "ok" else "the database is broken",
        "" if [process.returncode for process in runs] == [0, 0] else f"they ended with {[one[1] for one in printed]}",
        "" if [count for _, count in rows] == [wanted, wanted] else f"{rows} messages of {wanted} each",
        "a lock error was shown" if any("locked" in out for out, _ in printed) else "",
    )


def _next_call(asked: Recorded) -> Turn:
    """Return another call for each output in the session, and an answer after the last."""
    number = sum(1 for _ in outputs_in(asked.body))
    call = Call("todo", {"items": [{"text": f"item {number}", "status": "pending"}]}, id=f"call-{number}")
    return Turn(text="done") if number >= _STEP_COUNT else Turn(calls=(call,))


@contextmanager
def _truncating_log(dirs: AttackFolders) -> Iterator[None]:
    over = threading.Event()
    database = dirs.program_home / "data" / "sessions.db"

    def empty() -> None:
        while not over.wait(0.005):
            with suppress(sqlite3.Error):  # the database does not exist yet, or is being written
                _checkpoint(database)

    thread = threading.Thread(target=empty)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _checkpoint(database: Path) -> None:
    if database.exists():
        with closing(sqlite3.connect(database, timeout=1)) as db:
            db.execute("pragma wal_checkpoint(truncate)").fetchall()


def _query(home: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(home / "data" / "sessions.db")) as db:
        return db.execute(sql).fetchall()


def _truncate_with_sqlite3(dirs: AttackFolders) -> AttackOutcome:
    """Let the `sqlite3` program truncate the log while a session is open; the session must continue."""
    tool = shutil.which("sqlite3")
    if tool is None:
        return AttackOutcome("not carried out", "it needs SQLite's own program, `sqlite3`")
    line = f"{tool} {dirs.program_home}/data/sessions.db 'pragma wal_checkpoint(truncate); pragma integrity_check;'"
    steps = [Turn(calls=(Call("bash", {"command": f"{line}; echo {at}"}),)) for at in range(5)]
    with FakeProvider([*steps, Turn(text="done"), Turn(text=_REPLY_TEXT)]) as server:
        process = _start_run(dirs, server)
        out, err = process.communicate(timeout=_PROCESS_TIMEOUT_S)
        outputs = [json.loads(line)["text"] for line in out.splitlines() if '"tool_finished"' in line]
        outcome = _resume_after_kill(dirs, server)
    bad = [text for text in outputs if "ok" not in text]
    if len(outputs) != len(steps) or bad or process.returncode:
        return AttackOutcome("happened", f"{process.returncode}: {bad} {err}")
    return outcome


def _change_clock(dirs: AttackFolders) -> AttackOutcome:
    """Send messages with the clock set to now, an hour earlier, 20 years later and the year 2001. They must stay in the
    order in which they were sent."""
    with FakeProvider([Turn(text=f"answer {at}") for at in range(4)]) as server:
        for at, how in enumerate(("now()", "now() - 3600", "now() + 20 * 365 * 86400", "1e9")):
            words = ("-c",) if at else ()
            begun = ("-C", str(dirs.project), *words, "-p", f"message {at}", "-m", MODEL)
            first = f"exec({_PATCH_CLOCK.format(how=how)!r})"
            run = ebb(*begun, home=dirs.program_home, env=_run_environment(dirs, server), first=first)
            if run.code:
                return AttackOutcome("happened", f"at {how}: {run.err}")
        sent = [
            [part["text"] for message in one.body["messages"] for part in _texts(message)] for one in server.requests
        ]
    wanted = [text for at in range(4) for text in (f"message {at}", f"answer {at}")][:-1]
    order = [text for text in sent[-1] if text.startswith(("message", "answer"))]
    return AttackOutcome.from_problems("" if order == wanted else f"the order is {order}", _database_problem(dirs))


def _texts(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    content = message["content"]
    return [{"text": content}] if isinstance(content, str) else [part for part in content if part["type"] == "text"]


def _database_problem(dirs: AttackFolders) -> str:
    state = _integrity_check(dirs.program_home)
    return "" if state == "ok" else f"the database: {state}"


def _check_open_files(dirs: AttackFolders) -> AttackOutcome:
    """Check that a command inherits none of our open files, inside and outside the sandbox."""
    for walls in (SANDBOX_OFF, {"EBB_SANDBOX": "require"}):
        call = Call("bash", {"command": "ls -l /proc/self/fd /proc/$$/fd"})
        with FakeProvider([Turn(calls=(call,)), Turn(text="done")]) as server:
            run = ebb(
                "-C", str(dirs.project), "-p", "go", "-m", MODEL, "--permission-mode", "auto", home=dirs.program_home,
                env={**_run_environment(dirs, server), **walls},
            )  # fmt: skip
            outputs = [text for one in server.requests for text in outputs_in(one.body)]
        if run.code or not outputs or "->" not in outputs[0]:
            return AttackOutcome("happened", f"nothing was listed: {run.err}{outputs}")
        if "sessions.db" in outputs[0]:
            return AttackOutcome("happened", "a command had the database open")
    return AttackOutcome("held")


def _copy_open_database(dirs: AttackFolders) -> AttackOutcome:
    """Copy only the database file while a session is open: the copy must be intact, and the documentation must explain
    how to copy."""
    away = dirs.program_home.with_name(f"{dirs.program_home.name}-copy")
    (away / "data").mkdir(parents=True, mode=0o700)
    with FakeProvider([Turn(text="first"), Turn(text="one two", fault="hang"), Turn(text=_REPLY_TEXT)]) as server:
        process = _start_run(dirs, server)
        process.communicate(timeout=_PROCESS_TIMEOUT_S)
        process = _start_run(dirs, server, "-c")
        _read_until(process, "text_delta")
        shutil.copy(dirs.program_home / "data" / "sessions.db", away / "data" / "sessions.db")
        process.kill()
        process.communicate()
        listed = ebb("-C", str(dirs.project), "sessions", "list", home=away)
        outcome = _resume_after_kill(dirs, server)
    pages = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    found = (
        "" if _integrity_check(away) == "ok" else "the copy is broken",
        f"it cannot be listed: {listed.err}" if listed.code or "Traceback" in listed.err else "",
        "" if "VACUUM INTO" in pages else "the documentation does not explain how to copy it",
    )
    return outcome if not any(found) else AttackOutcome.from_problems(*found)


def interrupt_command(row: AttackRow, dirs: AttackFolders) -> AttackOutcome:
    """Send Ctrl-C while a command with background processes runs: all must end, and the session must continue."""
    create_home(dirs)
    create_files({**row["setup"], "files": {"f.txt": _OLD_TEXT}}, dirs)
    asked = str((row["action"].get("args") or {}).get("command") or "bash -c 'sleep 300 & sleep 300'")
    mark = dirs.project / "begun"
    call = Call("bash", {"command": f"touch {mark}; {asked}"})
    with FakeProvider([Turn(calls=(call,)), Turn(text=_REPLY_TEXT)]) as server:
        process = _start_run(dirs, server)
        _wait_for(mark.exists)
        _wait_for(lambda: bool(_sleeping_processes()))
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=_PROCESS_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return AttackOutcome("happened", "it did not end")
        left = _sleeping_processes()
        for one in left:
            os.kill(one, signal.SIGKILL)
        if left or process.returncode != 130:
            return AttackOutcome("happened", f"{len(left)} processes were left; it ended with {process.returncode}")
        return _resume_after_kill(dirs, server)


def _sleeping_processes() -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdecimal() and Path(f"/proc/{name}/cmdline").read_bytes() == b"sleep\x00300\x00":
                found.append(int(name))
    return found


_EDIT_TURN = Turn(calls=(Call("edit", {"path": "f.txt", "old_string": _OLD_TEXT, "new_string": _NEW_TEXT}),))
_WRITE_TURN = Turn(calls=(Call("write", {"path": "g.txt", "content": _NEW_TEXT}),))
_READ_TURN = Turn(calls=(Call("read", {"path": "f.txt"}),))
_OUTPUT_ROW = ("user", True)
_SCENARIOS: Sequence[tuple[str, Scenario]] = (
    ("before the user message is stored", _kill_and_resume(_KILL_AT_WRITE.format(row=("user", False), after=False))),
    ("before its result is stored", _kill_and_resume(_KILL_AT_WRITE.format(row=_OUTPUT_ROW, after=False), _WRITE_TURN)),
    (
        "after the result, before the next request",
        _kill_and_resume(_KILL_AT_WRITE.format(row=_OUTPUT_ROW, after=True), _READ_TURN),
    ),
    ("during a file edit", _kill_and_resume(_KILL_AT_RENAME, _READ_TURN, _EDIT_TURN)),
    ("middle of the stream", _kill_during_stream),
    ("while the tool runs", _kill_during_call),
    ("on every write", _full_disk("every_write")),
    ("while editing a user file", _full_disk("editing")),
    ("1000 writes each", _run_two_sessions),
    ("checkpoints racing", _run_two_sessions),
    ("different SQLite libraries", _truncate_with_sqlite3),
    ("goes back 1 h", _change_clock),
    ("fork() after connect", _check_open_files),
    ("without -wal", _copy_open_database),
)
