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

from bench.attacks.drive import KEYS, MODEL, make_home, outputs_in
from bench.attacks.rows import AttackFolders, AttackOutcome, Row, lay_out
from bench.attacks.shell import OFF
from tests.fake_provider import Call, FakeProvider, Recorded, Step, Turn
from tests.running import ROOT, command, ebb, environment

_OLD, _NEW = "old text\n", "new text\n"
_REPLY_TEXT = "Here I am."
_PROCESS_TIMEOUT_S = 60.0
_STEPS = 500
"""Each step writes three times: user message, reply, and output."""
_AT_WRITE = """
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
_AT_RENAME = """
import os, signal
rename = os.replace
def killed(source, target, **more):
    if target == "f.txt":
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(source, target, **more)
os.replace = killed
"""
_CLOCK = """
import time
now = time.time
time.time = lambda: {how}
"""
_APART = ("unshare", "--user", "--map-root-user", "--mount", sys.executable, "-m", "tests.full_disk")
"""Runs a program that may mount a small private disk and plays a scenario on it."""

Way: TypeAlias = Callable[[AttackFolders], AttackOutcome]


def way_of(setup: Mapping[str, Any]) -> Way | None:
    """Return the function that carries out a row; None if it is not supported."""
    told = json.dumps(setup)
    return next((way for word, way in _WAYS if word in told), None)


def carry_out(row: Row, places: AttackFolders) -> AttackOutcome:
    way = way_of(row["setup"])
    if way is None:
        return AttackOutcome("not carried out", "this crash or disk fault is not supported")
    make_home(places)
    lay_out({**row["setup"], "files": {"f.txt": _OLD}}, places)
    return way(places)


def _kill_and_resume(by: str, *steps: Step) -> Way:
    """Kill the process at a point chosen by an injected statement, then resume the session."""

    def carry(places: AttackFolders) -> AttackOutcome:
        with FakeProvider([*steps, *[Turn(text=_REPLY_TEXT)] * 3]) as server:
            process = _start_run(places, server, first=f"exec({by!r})")
            process.communicate(timeout=_PROCESS_TIMEOUT_S)
            if process.returncode != -signal.SIGKILL:
                return AttackOutcome("happened", f"nothing was killed: it ended with {process.returncode}")
            return _resume_after_kill(places, server)

    return carry


def _in_the_stream(places: AttackFolders) -> AttackOutcome:
    with FakeProvider([Turn(text="one two three", fault="hang"), Turn(text=_REPLY_TEXT)]) as server:
        process = _start_run(places, server)
        _read_until(process, "text_delta")
        process.kill()
        process.communicate()
        return _resume_after_kill(places, server)


def _in_a_call(places: AttackFolders) -> AttackOutcome:
    mark = places.project / "started"
    line = f"echo $$ > {mark}.new; mv {mark}.new {mark}; echo again >> count; exec sleep 600"
    with FakeProvider([Turn(calls=(Call("bash", {"command": line}),)), Turn(text=_REPLY_TEXT)]) as server:
        process = _start_run(places, server)
        _read_until(process, "tool_started")
        _wait_for(mark.exists)
        process.kill()
        process.communicate()
        with suppress(ProcessLookupError):
            os.killpg(int(mark.read_text()), signal.SIGKILL)
        count = (places.project / "count").read_text().count("again")
        held = _resume_after_kill(places, server)
        return held if count == 1 else AttackOutcome("happened", f"the command ran {count} times")


def _start_run(places: AttackFolders, server: FakeProvider, *more: str, first: str = "") -> "subprocess.Popen[str]":
    words = ("-C", str(places.project), "-p", "go", "-m", MODEL, "--permission-mode", "auto")
    return subprocess.Popen(
        command(*words, "--output-format", "stream-json", *more, first=first), text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(places.ours, _run_environment(places, server)),
    )  # fmt: skip


def _run_environment(places: AttackFolders, server: FakeProvider) -> dict[str, str]:
    return {**KEYS, **OFF, "ANTHROPIC_BASE_URL": server.url, "HOME": str(places.home)}


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


def _resume_after_kill(places: AttackFolders, server: FakeProvider) -> AttackOutcome:
    """Check the database, the file and the session after a kill. The server rejects a history in which a call has no
    output."""
    before = _integrity(places.ours)
    listed = ebb("-C", str(places.project), "sessions", "list", "--json", home=places.ours)
    again = ("-c",) if listed.out.strip() else ()
    run = ebb(
        "-C",
        str(places.project),
        *again,
        "-p",
        "go on",
        "-m",
        MODEL,
        home=places.ours,
        env=_run_environment(places, server),
    )
    text = (places.project / "f.txt").read_text()
    refused = list(server.refused)
    server.refused.clear()
    return AttackOutcome.of(
        "" if before == "ok" else f"the database: {before}",
        "" if _integrity(places.ours) == "ok" else "the database is broken behind it",
        f"refused: {refused}" if refused else "",
        "" if (run.code, run.out.strip()) == (0, _REPLY_TEXT) else f"it ended with {run.code}: {run.out}{run.err}",
        "" if text in (_OLD, _NEW) else f"half a file: {text!r}",
    )


def _integrity(home: Path) -> str:
    database = home / "data" / "sessions.db"
    if not database.exists():
        return "ok"
    with closing(sqlite3.connect(database)) as db:
        return "; ".join(str(row[0]) for row in db.execute("pragma integrity_check"))


def _full_disk(scenario: str) -> Way:
    """Play a scenario on a disk of a few megabytes, in a private namespace."""

    def carry(places: AttackFolders) -> AttackOutcome:
        folder = places.ours / "disk"
        folder.mkdir(parents=True)
        played = subprocess.run(
            _APART, input=json.dumps([scenario, str(folder)]), cwd=ROOT, env=environment(folder), capture_output=True,
            text=True, timeout=300, check=False,
        )  # fmt: skip
        if played.returncode or not played.stdout:
            return AttackOutcome("happened", f"the scenario ended in an error: {played.stderr[-300:]}")
        found = json.loads(played.stdout)
        return AttackOutcome.of(*map(str, found["wrong"]))

    return carry


def _two_at_once(places: AttackFolders) -> AttackOutcome:
    """Two processes write to a session a thousand times each, while a thread truncates the database log."""
    with FakeProvider([_next_call]) as server, _emptied_log(places):
        runs = [_start_run(places, server), _start_run(places, server)]
        said = [process.communicate(timeout=600) for process in runs]
        server.refused.clear()
    rows = _query(places.ours, "select session, count(*) from messages group by session")
    wanted = 2 * _STEPS + 2
    return AttackOutcome.of(
        "" if _integrity(places.ours) == "ok" else "the database is broken",
        "" if [process.returncode for process in runs] == [0, 0] else f"they ended with {[one[1] for one in said]}",
        "" if [count for _, count in rows] == [wanted, wanted] else f"{rows} messages of {wanted} each",
        "a lock error was shown" if any("locked" in out for out, _ in said) else "",
    )


def _next_call(asked: Recorded) -> Turn:
    """Return another call for each output in the session, and an answer after the last."""
    number = sum(1 for _ in outputs_in(asked.body))
    call = Call("todo", {"items": [{"text": f"item {number}", "status": "pending"}]}, id=f"call-{number}")
    return Turn(text="done") if number >= _STEPS else Turn(calls=(call,))


@contextmanager
def _emptied_log(places: AttackFolders) -> Iterator[None]:
    over = threading.Event()
    database = places.ours / "data" / "sessions.db"

    def empty() -> None:
        while not over.wait(0.005):
            with suppress(sqlite3.Error):  # it does not exist yet, or is being written
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


def _two_libraries(places: AttackFolders) -> AttackOutcome:
    """The `sqlite3` program truncates the log while a session is open; the session must continue."""
    tool = shutil.which("sqlite3")
    if tool is None:
        return AttackOutcome("not carried out", "it needs SQLite's own program, `sqlite3`")
    line = f"{tool} {places.ours}/data/sessions.db 'pragma wal_checkpoint(truncate); pragma integrity_check;'"
    steps = [Turn(calls=(Call("bash", {"command": f"{line}; echo {at}"}),)) for at in range(5)]
    with FakeProvider([*steps, Turn(text="done"), Turn(text=_REPLY_TEXT)]) as server:
        process = _start_run(places, server)
        out, err = process.communicate(timeout=_PROCESS_TIMEOUT_S)
        outputs = [json.loads(line)["text"] for line in out.splitlines() if '"tool_finished"' in line]
        held = _resume_after_kill(places, server)
    bad = [text for text in outputs if "ok" not in text]
    if len(outputs) != len(steps) or bad or process.returncode:
        return AttackOutcome("happened", f"{process.returncode}: {bad} {err}")
    return held


def _clock(places: AttackFolders) -> AttackOutcome:
    """Three messages: now, an hour earlier, and long after 2038. They must stay in the order in which they were
    sent."""
    with FakeProvider([Turn(text=f"answer {at}") for at in range(4)]) as server:
        for at, how in enumerate(("now()", "now() - 3600", "now() + 20 * 365 * 86400", "1e9")):
            words = ("-c",) if at else ()
            begun = ("-C", str(places.project), *words, "-p", f"message {at}", "-m", MODEL)
            first = f"exec({_CLOCK.format(how=how)!r})"
            run = ebb(*begun, home=places.ours, env=_run_environment(places, server), first=first)
            if run.code:
                return AttackOutcome("happened", f"at {how}: {run.err}")
        sent = [
            [part["text"] for message in one.body["messages"] for part in _texts(message)] for one in server.requests
        ]
    wanted = [text for at in range(4) for text in (f"message {at}", f"answer {at}")][:-1]
    order = [text for text in sent[-1] if text.startswith(("message", "answer"))]
    return AttackOutcome.of("" if order == wanted else f"the order is {order}", _database_problem(places))


def _texts(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    content = message["content"]
    return [{"text": content}] if isinstance(content, str) else [part for part in content if part["type"] == "text"]


def _database_problem(places: AttackFolders) -> str:
    state = _integrity(places.ours)
    return "" if state == "ok" else f"the database: {state}"


def _check_open_files(places: AttackFolders) -> AttackOutcome:
    """Check that a command inherits none of our open files, inside and outside the sandbox."""
    for walls in (OFF, {"EBB_SANDBOX": "require"}):
        call = Call("bash", {"command": "ls -l /proc/self/fd /proc/$$/fd"})
        with FakeProvider([Turn(calls=(call,)), Turn(text="done")]) as server:
            run = ebb(
                "-C", str(places.project), "-p", "go", "-m", MODEL, "--permission-mode", "auto", home=places.ours,
                env={**_run_environment(places, server), **walls},
            )  # fmt: skip
            outputs = [text for one in server.requests for text in outputs_in(one.body)]
        if run.code or not outputs or "->" not in outputs[0]:
            return AttackOutcome("happened", f"nothing was listed: {run.err}{outputs}")
        if "sessions.db" in outputs[0]:
            return AttackOutcome("happened", "a command had the database open")
    return AttackOutcome("held")


def _copy_open_database(places: AttackFolders) -> AttackOutcome:
    """Copy only the database file while a session is open: the copy must be intact, and the documentation must explain
    how to copy."""
    away = places.ours.with_name(f"{places.ours.name}-copy")
    (away / "data").mkdir(parents=True, mode=0o700)
    with FakeProvider([Turn(text="first"), Turn(text="one two", fault="hang"), Turn(text=_REPLY_TEXT)]) as server:
        process = _start_run(places, server)
        process.communicate(timeout=_PROCESS_TIMEOUT_S)
        process = _start_run(places, server, "-c")
        _read_until(process, "text_delta")
        shutil.copy(places.ours / "data" / "sessions.db", away / "data" / "sessions.db")
        process.kill()
        process.communicate()
        listed = ebb("-C", str(places.project), "sessions", "list", home=away)
        held = _resume_after_kill(places, server)
    pages = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    found = (
        "" if _integrity(away) == "ok" else "the copy is broken",
        f"it cannot be listed: {listed.err}" if listed.code or "Traceback" in listed.err else "",
        "" if "VACUUM INTO" in pages else "the documentation does not explain how to copy it",
    )
    return held if not any(found) else AttackOutcome.of(*found)


def interrupt_command(row: Row, places: AttackFolders) -> AttackOutcome:
    """Send Ctrl-C while a command with background processes runs: all must end, and the session must continue."""
    make_home(places)
    lay_out({**row["setup"], "files": {"f.txt": _OLD}}, places)
    asked = str((row["action"].get("args") or {}).get("command") or "bash -c 'sleep 300 & sleep 300'")
    mark = places.project / "begun"
    call = Call("bash", {"command": f"touch {mark}; {asked}"})
    with FakeProvider([Turn(calls=(call,)), Turn(text=_REPLY_TEXT)]) as server:
        process = _start_run(places, server)
        _wait_for(mark.exists)
        _wait_for(lambda: bool(_sleeping()))
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=_PROCESS_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return AttackOutcome("happened", "it did not end")
        left = _sleeping()
        for one in left:
            os.kill(one, signal.SIGKILL)
        if left or process.returncode != 130:
            return AttackOutcome("happened", f"{len(left)} processes were left; it ended with {process.returncode}")
        return _resume_after_kill(places, server)


def _sleeping() -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdecimal() and Path(f"/proc/{name}/cmdline").read_bytes() == b"sleep\x00300\x00":
                found.append(int(name))
    return found


_WRITES = Turn(calls=(Call("edit", {"path": "f.txt", "old_string": _OLD, "new_string": _NEW}),))
_MAKES = Turn(calls=(Call("write", {"path": "g.txt", "content": _NEW}),))
_READS = Turn(calls=(Call("read", {"path": "f.txt"}),))
_OUTPUT = ("user", True)
_WAYS: Sequence[tuple[str, Way]] = (
    ("before the user message is stored", _kill_and_resume(_AT_WRITE.format(row=("user", False), after=False))),
    ("before its result is stored", _kill_and_resume(_AT_WRITE.format(row=_OUTPUT, after=False), _MAKES)),
    ("after the result, before the next request", _kill_and_resume(_AT_WRITE.format(row=_OUTPUT, after=True), _READS)),
    ("during a file edit", _kill_and_resume(_AT_RENAME, _READS, _WRITES)),
    ("middle of the stream", _in_the_stream),
    ("while the tool runs", _in_a_call),
    ("on every write", _full_disk("every_write")),
    ("while editing a user file", _full_disk("editing")),
    ("1000 writes each", _two_at_once),
    ("checkpoints racing", _two_at_once),
    ("different SQLite libraries", _two_libraries),
    ("goes back 1 h", _clock),
    ("fork() after connect", _check_open_files),
    ("without -wal", _copy_open_database),
)
