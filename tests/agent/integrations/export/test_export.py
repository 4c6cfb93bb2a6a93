"""Sessions of any content, exported and imported again: whatever a user can see of them is the same, and a file that is
not as it should be leaves everything as it was."""

import asyncio
import hashlib
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from ebbtide.agent.archive.archive import FORMER_ID_FACT, Archive
from ebbtide.agent.archive.indexer import Indexer
from ebbtide.agent.config.load import load_config
from ebbtide.agent.config.values import Folders
from ebbtide.agent.errors import AgentError
from ebbtide.agent.integrations.doctor.store import check_store
from ebbtide.agent.integrations.export.session_export import ImportedSession, export_session, import_session
from ebbtide.agent.messages import Assistant, Text, ToolCall, ToolOutput, Usage, User
from ebbtide.agent.records.message_rows import decode_message
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.session_state import SessionState
from ebbtide.agent.records.store_access import open_store
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.view.references import message_digits
from ebbtide.store.queries import SearchQuery
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.store.transfer import COLUMNS
from tests.conftest import thorough
from tests.kit.fuzzed_sessions import Inline
from tests.kit.stored_sessions import WORDS, Given, Happening, Says, Steps, Writing, sessions

ID, OTHER = "aa11bb22cc33", "dd44ee55ff66"
CONFIG = load_config(Path("/"), {"EBB_HOME": "/nowhere"}, {})


@dataclass(frozen=True, slots=True)
class Opened:
    """A session in a store that is open."""

    thread: StoreThread
    store: SessionStore
    row: SessionRow
    is_new: bool

    @property
    def recorder(self) -> Recorder:
        return Recorder(self.thread, self.store, self.row, is_new=self.is_new)

    @property
    def archive(self) -> Archive:
        return Archive(self.thread, self.store, self.row.id, self.row.project)

    async def write(self, session: list[Happening]) -> None:
        await Writing(self.thread, self.store, self.row, is_new=self.is_new).write(session)

    async def seen(self, called: str) -> dict[str, object]:
        """What a user sees of the session: what was said, what the model is shown, what it cost, what every reference
        stands for, and what is found of it. `called`: its id in references."""
        found, recorder = await self.found(), self.recorder
        view = await recorder.load()
        log = [decode_message(row) for row in self.store.messages(self.row.id)]
        refs = [f"r{number}:tool-{part}" for number, part in self.query("number, part", "outputs") if part]
        refs += [f"r{number}" for number, _ in self.query("number, part", "outputs")]
        refs += [f"sum-{number}" for number, _ in self.query("number, position", "summaries")]
        refs += [f"msg-{message_digits(message)}" for message in log]
        where = f"ebb://{Path(self.row.project).name}/{called}"
        return {
            "log": log,
            "view": view,
            "spent": recorder.events.total_usage,
            "requests": await recorder.log.request_usages(),
            "rewrites": await recorder.log.rewrites(),
            "situation": recorder.session_state,
            "before the last rewrite": await recorder.log.view_before_rewrite(view),
            "references": {ref: (await self.read(ref), await self.read(f"{where}/{ref}")) for ref in refs},
            "found": found,
        }

    def query(self, columns: str, table: str) -> list[tuple[Any, ...]]:
        return self.store.query(f"select {columns} from {table} where session = ? order by 1, 2", self.row.id)

    async def read(self, ref: str) -> bytes | str:
        """The bytes that a reference stands for, or why there are none."""
        try:
            return await self.archive.read(ref)
        except AgentError as error:
            return str(error)

    async def found(self) -> list[set[object]]:
        """What a search finds of the session."""
        indexer = Indexer(self.thread, self.store)
        await indexer.catch_up()
        wanted = [SearchQuery(words, sessions=(self.row.id,), limit=200) for words in ("", *WORDS)]
        found = [await indexer.find(one) for one in wanted]
        return [{(match.document, match.method, match.access_count) for match in matches} for matches in found]


class Home:
    """A database with its files."""

    def __init__(self, folder: Path, name: str) -> None:
        self.project = folder / "app"
        self.project.mkdir(exist_ok=True)
        self.data = folder / name / "data"
        self.config = replace(CONFIG, project_folder=self.project, folders=Folders(folder, self.data, folder / "logs"))

    @asynccontextmanager
    async def opened(self, id: str = ID) -> AsyncIterator[Opened]:
        thread = Inline(lambda: open_store(self.config, is_ephemeral=False))
        store = await thread.open()
        new = SessionRow(id, str(self.project), "", "scripted/a", "ask", 1.0, 1.0)
        row = await thread.run(store.session, id)
        yield Opened(thread, store, row or new, row is None)
        await thread.close()

    async def writes(self, session: list[Happening], id: str = ID) -> None:
        async with self.opened(id) as opened:
            await opened.write(session)

    async def sees(self, id: str = ID, called: str = ID) -> dict[str, object]:
        async with self.opened(id) as opened:
            return await opened.seen(called)

    def rows(self, session: str = ID) -> dict[str, list[tuple[Any, ...]]]:
        """All that is written down of a session but what it may do, which no other home takes over, and what it was
        called."""
        columns = {**COLUMNS, "sessions": ("project", "title", "model", "created", "updated")}
        with self._database() as db:
            found = {
                table: db.execute(
                    f"select {', '.join(names)} from {table} where {'id' if table == 'sessions' else 'session'} = ? "
                    f"order by {', '.join(names)}",
                    (session,),
                ).fetchall()
                for table, names in columns.items()
            }
        return {**found, "situation": [row for row in found["situation"] if row[0] != FORMER_ID_FACT]}

    def everything(self) -> tuple[list[str], list[tuple[str, bytes]]]:
        """The whole database as text, and what is in every other file."""
        files = sorted(path for path in self.data.rglob("*") if path.is_file() and "sessions.db" not in path.name)
        with self._database() as db:
            return list(db.iterdump()), [(path.name, path.read_bytes()) for path in files]

    def faults(self) -> list[str]:
        """What the doctor finds broken."""
        found = check_store(self.config.folders, lambda *_: None, should_read_blobs=True)
        return [finding.text for finding in found if finding.state == "broken"]

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        db = sqlite3.connect(self.data / "sessions.db")
        try:
            yield db
        finally:
            db.close()


@contextmanager
def new_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ebb-transfer-")).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@settings(max_examples=thorough(12), deadline=None)
@given(sessions, sessions)
def test_any_session_comes_back_as_it_was(session: list[Happening], other: list[Happening]) -> None:
    with new_folder() as folder:
        here, there, file = Home(folder, "here"), Home(folder, "there"), folder / "s.zip"
        asyncio.run(here.writes(session))
        asyncio.run(there.writes(other, OTHER))
        assert here.faults() == []
        before, neighbour = here.rows(), there.rows(OTHER)
        assert export_session(here.config, ID, file).left_out == ()
        assert import_session(there.config, file) == ImportedSession(
            ID, before["sessions"][0][1], len(before["messages"]), ID
        )
        assert (there.rows(), there.rows(OTHER), there.faults()) == (before, neighbour, [])
        everything = there.everything()
        assert not import_session(there.config, file).is_new
        assert there.everything() == everything
        assert asyncio.run(there.sees()) == asyncio.run(here.sees())


@settings(max_examples=thorough(8), deadline=None)
@given(sessions, sessions)
def test_any_session_finds_itself_where_its_id_was_taken(session: list[Happening], other: list[Happening]) -> None:
    with new_folder() as folder:
        here, there, file = Home(folder, "here"), Home(folder, "there"), folder / "s.zip"
        asyncio.run(here.writes(session))
        asyncio.run(there.writes(other))
        before, first = here.rows(), there.rows()
        export_session(here.config, ID, file)
        done = import_session(there.config, file)
        assert (done.session != ID, done.exported_id, done.is_new) == (True, ID, True)
        assert (there.rows(done.session), there.rows(), there.faults()) == (before, first, [])
        everything = there.everything()
        assert import_session(there.config, file) == replace(done, is_new=False)
        assert there.everything() == everything
        assert asyncio.run(there.sees(done.session)) == asyncio.run(here.sees())


@pytest.mark.parametrize("environment", [None, {}], ids=("raw", "masked"))
def test_a_session_with_a_damaged_output_can_be_imported_without_it(
    tmp_path: Path, environment: dict[str, str] | None
) -> None:
    here, there, file = Home(tmp_path, "here"), Home(tmp_path, "there"), tmp_path / "s.zip"
    step = Steps(
        (ToolCall("0", "bash", {}), ToolCall("1", "bash", {})),
        (Given(ToolOutput("0", "one"), b"one\n" * 300, ()), Given(ToolOutput("1", "two"), b"two\n" * 300, ())),
        Usage(1),
        None,
        SessionState(),
    )
    asyncio.run(here.writes([Says((Text("go"),)), step]))
    blob = next(
        path for path in sorted(here.data.rglob("*")) if path.name == hashlib.sha256(b"one\n" * 300).hexdigest()
    )
    data = bytearray(blob.read_bytes())
    data[12] ^= 0x55
    blob.write_bytes(data)
    assert export_session(here.config, ID, file, environment=environment).left_out == ("r1",)
    assert import_session(there.config, file).is_new
    references = asyncio.run(there.sees())["references"]
    assert isinstance(references, dict)
    assert (references["r1"][0] != b"one\n" * 300, references["r2"][0]) == (True, b"two\n" * 300)


def test_an_output_in_a_file_comes_once_however_often_it_is_imported(tmp_path: Path) -> None:
    here, there, file, log = Home(tmp_path, "here"), Home(tmp_path, "there"), tmp_path / "s.zip", tmp_path / "log"
    log.write_bytes(b"all of it\n")
    call = ToolCall("c1", "bash", {})

    async def writing() -> None:
        async with here.opened() as opened:
            recorder = opened.recorder
            await recorder.record_user_message(User((Text("go"),)))
            await recorder.record_reply(Assistant((call,), "scripted/a"))
            await recorder.record_user_message(User((ToolOutput("c1", "a part", whole=str(log)),)))

    asyncio.run(writing())
    export_session(here.config, ID, file)
    assert [import_session(home.config, file).is_new for home in (here, there, there)] == [False, True, False]
    seen = asyncio.run(there.sees())
    assert seen["references"] == asyncio.run(here.sees())["references"]
