"""What becomes of a home whose disk is full: `python -m tests.kit.full_disk`, where small disks may be mounted. It
reads lines of JSON, each a scenario and a folder, answers each with what happened, and judges nothing."""

import json
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from ebbtide.store.migrations import MIGRATIONS
from tests.kit.commands import Run
from tests.kit.files import write_files
from tests.kit.session import bash, call, calls
from tests.kit.user import User

LOG = 2_000_000
"""Bytes that a command prints: in base64, of which three quarters are left when they are compressed."""
PRINT = f"head -c {LOG} /dev/urandom | base64 -w 76 | head -c {LOG}"


class Home(User):
    """A home whose data lie on a disk of a few megabytes."""

    def __init__(self, folder: Path, size: int) -> None:
        super().__init__(folder)
        self.ballast = self.data / "ballast"
        self.data.mkdir(mode=0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", str(self.data)], check=True)

    def say(self, *replies: dict[str, Any], more: tuple[str, ...] = ()) -> Run:
        return self.ask(*replies, flags=("--permission-mode", "auto", *more), form="stream-json")

    def fill(self, left: int) -> None:
        """Leaves so many bytes on the disk."""
        with self.ballast.open("wb") as file:
            file.write(bytes(max(self.free() - left, 0)))

    def free(self) -> int:
        done = subprocess.run(["stat", "-f", "-c", "%a %S", str(self.data)], capture_output=True, check=True, text=True)
        blocks, size = map(int, done.stdout.split())
        return blocks * size

    def rows(self) -> list[str]:
        """The database as text."""
        with sqlite3.connect(self.data / "sessions.db") as db:
            rows = list(db.iterdump())
        db.close()
        return rows

    def files(self) -> list[str]:
        """What is kept beside the databases."""
        found = (path for path in self.data.rglob("*") if path.is_file() and "sessions.db" not in path.name)
        found = (path for path in found if self.data / "checkpoints" not in path.parents)
        return sorted(str(path.relative_to(self.data)) for path in found if path != self.ballast)

    def doctor(self) -> list[str]:
        """What is broken, with every byte read."""
        found = self.ebb("doctor", "--deep", "--json", "-m", "ollama/a").result["findings"]
        return [finding["text"] for finding in found if finding["state"] == "broken"]


def output(folder: Path) -> dict[str, Any]:
    """There is room for what a command prints, and not for that once more."""
    home = Home(folder, 3_400_000)
    first = home.say(calls(bash(PRINT), bash("echo fine")), {"text": "Yes."})
    session = first.result["session"]
    (log,) = (path for path in home.files() if path.startswith("outputs/"))
    printed = (home.data / log).read_bytes()
    again = home.say(calls(call("read_result", ref_id="r1", offset=LOG - 60)), {"text": "So."}, more=("-r", session))
    finished = [line for line in (*first.lines, *again.lines) if line["type"] == "tool_finished"]
    return {
        "codes": [first.code, again.code],
        "ends": [first.result["result"], again.result["result"]],
        "notices": [line["text"] for line in first.lines if line["type"] == "noticed"],
        "shown": [line["text"][-400:] for line in finished],
        "log": str(home.data / log),
        "printed": len(printed),
        "end": printed[-60:].decode(),
        "files": home.files(),
        "doctor": home.doctor(),
    }


def printing(folder: Path) -> dict[str, Any]:
    """The disk becomes full while a command prints, and again with bytes that cannot be compressed."""
    home = Home(folder, 2_000_000)
    printed = bash(f"{PRINT}; {PRINT}; echo end")
    first = home.say(calls(printed, bash("echo fine")), calls(printed), {"text": "Yes."})
    session = first.result["session"]
    texts = [line["text"] for line in first.lines if line["type"] == "tool_finished"]
    return {
        "codes": [first.code, home.ebb("sessions", "show", session, "r1").code],
        "end": first.result["result"],
        "shown": [text.splitlines()[-2:] for text in texts],
        "log": [line["role"] for line in home.ebb("sessions", "show", session, "--json").lines],
        "files": [path for path in home.files() if path.startswith(("outputs/", "blobs/incoming/"))],
        "has_room": home.free() > 0,
        "doctor": home.doctor(),
    }


def turn(folder: Path) -> dict[str, Any]:
    """The disk is full before the step's outputs are written down."""
    home = Home(folder, 3_000_000)
    fill = f"head -c 9000000 /dev/zero > {home.ballast}; true"
    text = "x" * 200_000
    first = home.say({"text": "I look.", **calls(bash(fill))}, {"text": text})
    session = next(line["session"] for line in first.lines if "session" in line)
    before = home.rows()
    home.ballast.unlink()
    again = home.say({"text": "Yes."}, more=("-r", session))
    return {
        "codes": [first.code, again.code],
        "error": first.result["error"],
        "err": first.err,
        "result": again.result["result"],
        "kept": sum(line.startswith('INSERT INTO "messages"') for line in before),
        "log": [line["role"] for line in home.ebb("sessions", "show", session, "--json").lines],
        "doctor": home.doctor(),
    }


def migration(folder: Path) -> dict[str, Any]:
    """There is no room to bring a database of the first version to the newest."""
    home = Home(folder, 3_000_000)
    output = {"type": "output", "call_id": "c", "text": "x", "status": "done"}
    with sqlite3.connect(home.data / "sessions.db") as db:
        MIGRATIONS[0](db)
        row = ("aa11bb22cc33", str(home.project), "an old one", "scripted/a", "ask", 1.0, 1.0)
        db.execute("insert into sessions values (?, ?, ?, ?, ?, ?, ?)", row)
        for position in range(3_000):
            body = json.dumps({"parts": [{**output, "call_id": f"c{position}"}]})
            values = ("aa11bb22cc33", position, "user", body, 1.0)
            db.execute("insert into messages (session, position, role, body, created) values (?, ?, ?, ?, ?)", values)
        db.execute("pragma user_version = 1")
    db.close()
    before = home.rows()
    home.fill(60_000)
    listed = home.ebb("sessions", "list")
    after = home.rows()
    home.ballast.unlink()
    again = home.ebb("sessions", "list", "--json")
    return {
        "codes": [listed.code, again.code],
        "err": listed.err,
        "is_unchanged": before == after,
        "titles": [line["title"] for line in again.lines],
        "doctor": home.doctor(),
    }


def coming(folder: Path) -> dict[str, Any]:
    """There is no room for a session that is exported, and for one that is imported."""
    home = Home(folder, 9_000_000)
    session = home.say(calls(bash(PRINT)), {"text": "Yes."}).result["session"]
    file = folder / "s.zip"
    home.fill(700_000)
    written = home.ebb("sessions", "export", session, str(home.data / "s.zip"))
    home.ballast.unlink()
    home.ebb("sessions", "export", session, str(file))
    home.ebb("sessions", "delete", session)
    before, files = home.rows(), home.files()
    home.fill(700_000)
    refused = home.ebb("sessions", "import", str(file))
    after, left = home.rows(), home.files()
    home.ballast.unlink()
    again = home.ebb("sessions", "import", str(file))
    return {
        "codes": [written.code, refused.code, again.code],
        "err": written.err + refused.err,
        "is_unchanged": (before, files) == (after, left),
        "out": again.out.replace(session, "ID"),
        "doctor": home.doctor(),
    }


def reading(folder: Path) -> dict[str, Any]:
    """The disk is full when the program starts."""
    home = Home(folder, 3_000_000)
    session = home.say(calls(bash("seq 5000")), {"text": "Yes."}).result["session"]
    home.fill(0)
    sessions = home.ebb("sessions", "list", "--json").lines
    text = home.ebb("sessions", "show", session, "r1").out
    found = home.ebb("sessions", "search", "4999")
    refused = home.ebb("-r", session, "-p", "more", "-m", f"scripted/{folder / 'script.json'}")
    home.ballast.unlink()
    again = home.say({"text": "So."}, more=("-r", session))
    return {
        "listed": [line["id"] == session for line in sessions],
        "shown": text.splitlines()[:5000] == [str(number) for number in range(1, 5001)],
        "found": found.code,
        "refused": [refused.code, refused.err],
        "again": again.result["result"],
        "doctor": home.doctor(),
    }


def checkpoint(folder: Path) -> dict[str, Any]:
    """There is no room for what a command is about to change; later there is."""
    home = Home(folder, 3_000_000)
    (home.project / "big.bin").write_bytes(random.Random(1).randbytes(1_000_000))
    (home.project / "a.txt").write_text("old\n")
    home.fill(500_000)
    first = home.say(calls(bash("echo new > a.txt; rm big.bin")), {"text": "Done."})
    refused, left = home.ebb("undo"), home.free()
    home.ballast.unlink()
    again = home.say(calls(bash("echo newer > a.txt")), {"text": "Done."}, more=("-r", first.result["session"]))
    undone = home.ebb("undo")
    return {
        "codes": [first.code, refused.code, again.code, undone.code],
        "ends": [first.result["result"], again.result["result"]],
        "notices": [line["text"] for run in (first, again) for line in run.lines if line["type"] == "noticed"],
        "refused": refused.err,
        "has_room": left > 0,
        "undone": undone.out.splitlines()[1:2],
        "text": (home.project / "a.txt").read_text(),
        "doctor": home.doctor(),
    }


def restoring(folder: Path) -> dict[str, Any]:
    """There is no room in the working folder for what is to come back."""
    user = User(folder)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(user.project)], check=True)
    before, big, ballast = random.Random(2).randbytes(1_000_000), user.project / "a.bin", user.project / "mine"
    big.write_bytes(before)
    run = user.ask(
        calls(bash("echo x > a.bin; echo y > b.txt")), {"text": "Done."}, flags=("--permission-mode", "auto")
    )
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    refused, names = user.ebb("undo"), sorted(path.name for path in user.project.iterdir())
    as_it_was = big.read_bytes() == b"x\n"
    ballast.unlink()
    undone = user.ebb("undo")
    return {
        "codes": [run.code, refused.code, undone.code],
        "err": refused.err,
        "names": names,
        "as_it_was": as_it_was,
        "left": sorted(path.name for path in user.project.iterdir()),
        "is_back": big.read_bytes() == before,
    }


def every_write(folder: Path) -> dict[str, Any]:
    """A turn with ever so little room more, from none to enough: what is wrong with how it ends and what it leaves."""
    home, wrong, counts = Home(folder, 3_000_000), list[str](), Counter[str]()
    (home.project / "a.txt").write_text("old\n")
    first = home.say({"text": "Hello."}).result["session"]
    for left in (0, *(4096 * pages for pages in (1, 2, 3, 5, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256))):
        home.fill(left)
        run = home.say(calls(bash("seq 3000"), bash("echo x >> a.txt")), {"text": "Done."}, more=("-r", first))
        home.ballast.unlink()
        is_reported = any(word in run.out + run.err for word in ("disk is full", "No space left", "almost full"))
        counts["done" if run.code == 0 else "said" if is_reported else "unsaid"] += 1
        wrong += (
            [f"with {left} bytes: exit code {run.code} and {run.err or run.out}"]
            if run.code and not is_reported
            else []
        )
        wrong += [f"with {left} bytes: a traceback"] if "Traceback" in run.out + run.err else []
        with closing(sqlite3.connect(home.data / "sessions.db")) as db:
            state = db.execute("pragma integrity_check").fetchone()[0]
        wrong += [f"with {left} bytes: the database is broken: {state}"] if state != "ok" else []
    again = home.say({"text": "So."}, more=("-r", first))
    wrong += [] if again.result["result"] == "So." else [f"it does not go on: {again.out}"]
    wrong += home.doctor()
    return {"wrong": wrong, "told": sorted(counts)}


def editing(folder: Path) -> dict[str, Any]:
    """There is no room in the working folder for what `write` and `edit` put into a file."""
    user = User(folder)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(user.project)], check=True)
    old = "".join(f"line {number}\n" for number in range(2_000))
    write_files(user.project, ("a.txt", "b.txt", "linked.txt"), old)
    (user.project / "second.txt").hardlink_to(user.project / "linked.txt")
    with suppress(OSError), (user.project / "mine").open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    reads = [call("read", path=name) for name in ("a.txt", "b.txt", "linked.txt")]
    changes = [
        call("write", path="a.txt", content=old * 2),
        call("edit", path="b.txt", old_string="line 7\n", new_string="line seven\n" * 1_000),
        call("edit", path="linked.txt", old_string="line 7\n", new_string="line seven\n" * 1_000),
        call("write", path="new.txt", content=old),
    ]
    flags = ("--permission-mode", "auto", "--allow", "edit(linked.txt)")
    run = user.ask(calls(*reads), calls(*changes), {"text": "Done."}, flags=flags, form="stream-json")
    texts = [line["text"] for line in run.lines if line["type"] == "tool_finished"][len(reads) :]
    names = sorted(path.name for path in user.project.iterdir())
    wrong = [
        f"{name} is another file now" for name in names if name != "mine" and (user.project / name).read_text() != old
    ]
    wrong += [] if names == ["a.txt", "b.txt", "linked.txt", "mine", "second.txt"] else [f"left behind: {names}"]
    wrong += [f"not said: {text}" for text in texts if "no space left" not in text.lower()]
    return {"wrong": wrong, "calls": len(texts), "code": run.code}


SCENARIOS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "output": output,
    "printing": printing,
    "turn": turn,
    "migration": migration,
    "coming": coming,
    "reading": reading,
    "checkpoint": checkpoint,
    "restoring": restoring,
    "every_write": every_write,
    "editing": editing,
}

if __name__ == "__main__":
    for line in sys.stdin:
        scenario, folder = json.loads(line)
        print(json.dumps(SCENARIOS[scenario](Path(folder))), flush=True)
