"""A home with sessions in it, damaged in ways that a seed chooses, and what `ebb` says of it then. What could be read
of the database before a command can be read behind it."""

import json
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.kit.commands import Run, ebb
from tests.kit.files import write_file

TARGETS = (
    *("database", "first page", "header", "log", "row") * 3, "pages", "schema",
    *("index of the log", "output", "configuration", "project", "rules", "history", "drafts", "servers"),
)  # fmt: skip
KINDS = ("cut", "flip", "overwrite", "zeros", "empty", "garbage", "insert", "of another", "no rights", "folder", "pipe",
         "dangling link", "loop")  # fmt: skip
JSON = ("[]", "null", "{}", "", "{", "[" * 3000, '{"parts":1}', '{"parts":[1]}', '{"parts":[{"type":"text","text":7}]}',
        '{"start":-5,"summary":"","anchor":null,"anchored":0}', '{"a":1e999}')  # fmt: skip
VALUES = (None, "x", "", b"\0\xff", -1, 0, 1 << 40, -(1 << 63), float("inf"), "9" * 50)
CHANGES = (
    "pragma user_version = 0", "pragma user_version = 5", "pragma user_version = 99", "pragma user_version = -1",
    "drop table outputs", "drop table situation", "drop table usage", "drop index messages_by_ref",
    "alter table sessions rename to others",
)  # fmt: skip
CODES, HUNG = range(9), 124
KEYS = {
    "sessions": ("id",), "messages": ("session", "position"), "usage": ("id",), "snapshots": ("session",),
    "situation": ("session", "kind", "key"), "outputs": ("session", "number", "part"),
    "summaries": ("session", "number"), "views": ("session", "number"), "rewrites": ("id",),
}  # fmt: skip
"""By what each row of a table is found."""
PLAIN = {
    "messages": "role, body",
    "sessions": "id, project",
    "usage": "model, input, output",
    "outputs": "call, digest",
}
"""Of these tables, what stays the same when a session goes on; of the others the key does."""

Key = tuple[str, tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a command did in a damaged home."""

    arguments: tuple[str, ...]
    run: Run
    lost: tuple[Key, ...] = ()
    """Rows that could be read before it and cannot be read behind it."""

    @property
    def fault(self) -> str:
        """What it should not have done; empty when all is as it should be."""
        printed = self.run.out + self.run.err
        if "Traceback (most recent call last)" in printed or "has a fault" in printed:
            return "a traceback"
        if self.run.code not in CODES:
            return f"exit code {self.run.code}"
        if self.lost:
            return f"{len(self.lost)} rows that could be read are gone: {self.lost[:5]}"
        return "not a word" if self.run.code and not printed.strip() else ""


@dataclass(frozen=True, slots=True)
class Whole:
    """A home that is not damaged."""

    copy: Path
    """A copy of it."""
    place: Path
    """Where it was made: sessions belong to a folder, so only there they are found."""
    session: str
    """The id of the first session."""


def made(folder: Path) -> Whole:
    """A home with two sessions, stored outputs and a configuration, as a killed program leaves it: with a log."""
    project = folder / "app"
    (project / ".ebb").mkdir(parents=True)
    write_file(folder / "config" / "config.toml", "[archive]\nmax_age = 900\n\n[agent]\nprotect_tokens = 9000\n")
    calls = [{"calls": [{"name": "bash", "arguments": {"command": f"seq {number}"}}]} for number in (9000, 7000, 3)]
    script = folder / "script.json"
    script.write_text(json.dumps({"reply": [*calls, {"text": "Done."}]}))
    (project / ".ebb" / "config.toml").write_text("[agent]\ncontext_note_at = 0.7\n")
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"files": {"command": "true"}}}))
    (folder / "config" / "rules.json").write_text(json.dumps({"projects": {str(project): {"allow": ["bash(ls)"]}}}))
    data = folder / "data"
    database = data / "sessions.db"
    for number, words in enumerate(("first words", "second words")):
        connection = sqlite3.connect(database) if number else None
        if connection is not None:  # somebody reads meanwhile, so that what is new stays in the log
            connection.execute("begin")
            connection.execute("select count(*) from sessions").fetchall()
        run = ebb(*told(folder, "-p", words, "--permission-mode", "auto"), home=folder)
        assert run.code == 0, run.err
        if connection is not None:
            killed = {each.name: each.read_bytes() for each in data.glob("sessions.db*")}
            connection.close()
            for name, content in killed.items():
                (data / name).write_bytes(content)
    (data / "history").write_text(json.dumps({"text": "first words", "project": str(project)}) + "\n")
    (data / "drafts").mkdir()
    first, newest = _sessions(database)
    (data / "drafts" / f"{newest}.json").write_text(json.dumps(["a draft"]))
    copy = folder.with_name(f"{folder.name}-whole")
    shutil.copytree(folder, copy)
    return Whole(copy, folder, first)


def _sessions(database: Path) -> tuple[str, ...]:
    """The ids, the oldest first."""
    with closing(_opened(database)) as db:
        return tuple(id for (id,) in db.execute("select id from sessions order by created"))


def told(folder: Path, *arguments: str) -> tuple[str, ...]:
    """The arguments of a command in that home."""
    is_run = "-p" in arguments or "doctor" in arguments or "context" in arguments
    model = ("-m", f"scripted/{folder / 'script.json'}") if is_run and "context" not in arguments else ()
    return (*arguments, *model, "-C", str(folder / "app"))


def damage(home: Path, seed: int) -> str:
    """Damages one file of the home; what was done."""
    chance = random.Random(seed)
    target = chance.choice(TARGETS)
    if target in ("row", "schema"):
        with closing(sqlite3.connect(home / "data" / "sessions.db", isolation_level=None)) as db:
            what = _change_row(db, chance) if target == "row" else chance.choice(CHANGES)
            if target == "schema":
                db.execute(what)
            return f"{target}: {what}"
    if target == "pages":
        return _change_pages(home / "data" / "sessions.db", chance)
    path = _file(home, target, chance)
    data = bytearray(path.read_bytes() if path.exists() else b"\0" * 5000)
    kind = chance.choice(KINDS)
    length = {"header": 100, "first page": 4096}.get(target, len(data))
    at = chance.randrange(length) if length else 0
    end = min(at + chance.choice((1, 16, 512, 4096)), max(length, at + 1))
    match kind:
        case "cut":
            del data[at:]
        case "flip":
            for _ in range(chance.randrange(1, 20)):
                data[chance.randrange(length)] ^= 1 << chance.randrange(8)
        case "overwrite":
            data[at:end] = chance.randbytes(len(data[at:end]))
        case "zeros":
            data[at:end] = bytes(len(data[at:end]))
        case "empty":
            data.clear()
        case "garbage":
            data[:] = chance.randbytes(len(data))
        case "insert":
            data[at:at] = chance.randbytes(100)
        case "of another":
            data[:] = chance.choice([each for each in sorted(home.rglob("*")) if each.is_file()]).read_bytes()
        case "no rights":
            path.chmod(0)
        case _:
            _put_in_place(path, kind)
    if kind in KINDS[:8]:
        path.write_bytes(data)
    return f"{target}: {kind}"


def _change_row(db: sqlite3.Connection, chance: random.Random) -> str:
    """Puts another value into a column of a row."""
    table = chance.choice([name for name in KEYS if db.execute(f"select count(*) from {name}").fetchone()[0]])
    column = chance.choice([row[1] for row in db.execute(f"pragma table_info({table})")])
    key = chance.choice(db.execute(f"select {', '.join(KEYS[table])} from {table}").fetchall())
    value = chance.choice(JSON if column == "body" else VALUES)
    where = " and ".join(f"{name} = ?" for name in KEYS[table])
    with suppress(sqlite3.IntegrityError):
        db.execute(f"update {table} set {column} = ? where {where}", (value, *key))
    return f"{table}.{column} = {str(value)[:20]!r}"


def _change_pages(path: Path, chance: random.Random) -> str:
    data = path.read_bytes()
    pages = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    one, other = chance.sample(range(len(pages)), 2)
    match kind := chance.choice(("cut", "swap", "zeros")):
        case "cut":
            del pages[one:]
        case "swap":
            pages[one], pages[other] = pages[other], pages[one]
        case _:
            pages[one:other] = [bytes(4096) for _ in pages[one:other]]
    path.write_bytes(b"".join(pages))
    return f"pages: {kind} {one} {other}"


def _put_in_place(path: Path, kind: str) -> None:
    path.unlink(missing_ok=True)
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "loop":
            path.symlink_to(path.name)
        case _:
            path.symlink_to(path.parent / "not" / "there")


def _file(home: Path, target: str, chance: random.Random) -> Path:
    data = home / "data"
    match target:
        case "log":
            return data / "sessions.db-wal"
        case "index of the log":
            return data / "sessions.db-shm"
        case "output":
            return chance.choice(sorted((data / "blobs").glob("??/*")))
        case "configuration":
            return home / "config" / "config.toml"
        case "project":
            return home / "app" / ".ebb" / "config.toml"
        case "servers":
            return home / "app" / ".mcp.json"
        case "rules":
            return home / "config" / "rules.json"
        case "history":
            return data / "history"
        case "drafts":
            return next((data / "drafts").glob("*.json"))
        case _:
            return data / "sessions.db"


def commands(home: Path, session: str) -> Sequence[tuple[str, ...]]:
    """Every command that reads what is stored, the ones that repair and delete last."""
    return (
        ("sessions", "list"),
        ("sessions", "show", session),
        ("sessions", "show", session, "r1"),
        ("sessions", "search", "4321"),
        ("sessions", "export", session, str(home / "out.zip"), "--force"),
        ("context",),
        ("config",),
        ("doctor",),
        ("doctor", "--deep"),
        ("-p", "new", "--permission-mode", "auto"),
        ("-c", "-p", "newest", "--permission-mode", "auto"),
        ("-r", session, "-p", "more", "--permission-mode", "auto"),
        ("sessions", "fork", session),
        ("doctor", "--repair"),
        ("-r", session, "-p", "after", "--permission-mode", "auto"),
        ("sessions", "delete", session),
    )


LAST = 3
"""Commands that are always run, behind the others."""


def tried(whole: Whole, seed: int, share: int = 1) -> tuple[str, list[Seen]]:
    """What was damaged in a home, and what commands did there: one of `share` of those that read, and all that
    repair."""
    place = whole.place
    shutil.rmtree(place)
    shutil.copytree(whole.copy, place)
    known = rows_of(place)
    what = damage(place, seed)
    every = commands(place, whole.session)
    chosen = [one for number, one in enumerate(every[:-LAST]) if (number + seed) % share == 0]
    seen, before = [], kept_of(place, known)
    for one in (*chosen, *every[-LAST:]):
        run = _run(place, one)
        after = kept_of(place, known)
        gone = before - after if "delete" not in one else frozenset[Key]()
        seen.append(Seen(one, run, tuple(sorted(gone, key=repr))))
        before = after
    return what, seen


def _run(home: Path, arguments: tuple[str, ...]) -> Run:
    try:
        return ebb(*told(home, *arguments), home=home)
    except subprocess.TimeoutExpired:
        return Run(HUNG, "", "it does not end")


def rows_of(home: Path) -> frozenset[Key]:
    """Every row of a sound database: its table, and its key with what never changes."""
    with closing(_opened(home / "data" / "sessions.db")) as db:
        return frozenset(
            (table, (*row,)) for table in KEYS for row in db.execute(f"select {_columns(table)} from {table}")
        )


def kept_of(home: Path, known: frozenset[Key]) -> frozenset[Key]:
    """The rows of them that can still be read, where the database is or in what was set aside of it."""
    found = set[Key]()
    for path in sorted((home / "data").glob("sessions.db*")):
        if not path.name.endswith(("-wal", "-shm")) and stat.S_ISREG(path.lstat().st_mode):
            with suppress(sqlite3.Error), closing(_opened(path)) as db:
                found |= set(_found(db, known - found))
    return frozenset(found)


def _found(db: sqlite3.Connection, known: frozenset[Key]) -> Iterator[Key]:
    for table, values in known:
        keys = KEYS[table]
        # By its key, and past a damaged index.
        for by in (" and ".join(f"{key} = ?" for key in keys), " and ".join(f"+{key} = ?" for key in keys)):
            with suppress(sqlite3.Error):
                row = db.execute(f"select {_columns(table)} from {table} where {by}", values[: len(keys)]).fetchone()
                if row == values:
                    yield table, values
                    break


def _columns(table: str) -> str:
    return ", ".join((*KEYS[table], *((PLAIN[table],) if table in PLAIN else ())))


def _opened(path: Path) -> sqlite3.Connection:
    """A copy of a database with its log, which is not changed by looking; it is gone when this returns."""
    folder = Path(tempfile.mkdtemp(prefix="ebb-look-"))
    try:
        for ending in ("", "-wal"):
            each = path.with_name(path.name + ending)
            if each.is_file():
                mode = each.stat().st_mode
                each.chmod(mode | stat.S_IRUSR)
                shutil.copyfile(each, folder / f"sessions.db{ending}")
                each.chmod(mode)
        with closing(sqlite3.connect(folder / "sessions.db", isolation_level=None)) as db:
            db.text_factory = lambda data: data.decode("utf-8", "replace")
            memory = sqlite3.connect(":memory:", isolation_level=None)
            try:
                db.execute("select 1 from sqlite_master").fetchall()
                memory.deserialize(_checkpointed(db, folder))
            except sqlite3.Error:
                memory.close()
                raise
            memory.text_factory = db.text_factory
            return memory
    finally:
        shutil.rmtree(folder)


def _checkpointed(db: sqlite3.Connection, folder: Path) -> bytes:
    db.execute("pragma wal_checkpoint(truncate)").fetchall()
    data = bytearray((folder / "sessions.db").read_bytes())
    data[18:20] = b"\1\1"  # no log beside it
    return bytes(data)
