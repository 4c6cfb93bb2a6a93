"""Files that are no session, or not as it was written: each is refused in one sentence that says why, and changes
nothing."""

import asyncio
import hashlib
import json
import os
import shutil
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.agent.errors import AgentError, UsageError
from ebbtide.agent.integrations.export.bundle import Bundle, InvalidBundleError
from ebbtide.agent.integrations.export.session_export import export_session, import_session
from ebbtide.agent.messages import Image, Reasoning, Summary, Text, ToolCall, ToolOutput, Usage, User
from ebbtide.agent.records.session_state import SessionState
from tests.agent.integrations.export.test_export import ID, OTHER, Home
from tests.conftest import thorough
from tests.kit.adapters import PIXEL
from tests.kit.conversations import values
from tests.kit.stored_sessions import Compacts, Given, Happening, Looks, Says, Steps

PICTURE = Image("image/png", PIXEL)
WORK = (Reasoning("hm", {"sig": "x"}), Text("I look."), ToolCall("0", "bash", {"command": "make"}))
PLENTY: list[Happening] = [
    Says((Text("please mend the parser \udc80"), PICTURE)),
    Steps(
        (*WORK, ToolCall("1", "read", {})),
        (
            Given(ToolOutput("0", "a part of it"), b"parser\r\n" * 300, ()),
            Given(ToolOutput("1", "picture", "failed", (PICTURE,)), None, ()),
        ),
        Usage(10, 20, 30, 40),
        0.5,
        SessionState(seen_digests={Path("/p/caf\udce9.txt"): "d" * 64}, running_jobs={"1": "make test"}),
    ),
    Looks(1),
    Compacts(Summary("keep", "they read [recall:r1]", "files: a.py", User((Text("go"),)), "more"), 2, None),
    Steps(
        (ToolCall("0", "bash", {}),),
        (Given(ToolOutput("0", "two"), b"\0\xff" * 50, (b"png",)),),
        Usage(1),
        None,
        SessionState(),
    ),
]


class Exported:
    """A session of plenty in a file, and a home that knows nothing of it."""

    def __init__(self, folder: Path) -> None:
        here, self.folder = Home(folder, "here"), folder
        asyncio.run(here.writes(PLENTY))
        file = folder / "good.zip"
        export_session(here.config, ID, file)
        self.data, self.rows = file.read_bytes(), here.rows()
        self.there = Home(folder, "there")
        asyncio.run(self.there.writes([Says((Text("hello"),))], OTHER))
        self.before = self.there.everything()

    def refused(self, data: bytes) -> str:
        """Why a file is not taken for a session, in one sentence where nothing has changed; nothing where it is."""
        file = self.folder / "bad.zip"
        file.write_bytes(data)
        try:
            import_session(self.there.config, file)
        except UsageError as error:
            message = str(error)
        else:
            return ""
        assert str(file) in message
        assert "\n" not in message
        assert self.there.everything() == self.before
        assert sorted(path.name for path in self.folder.iterdir()) == ["app", "bad.zip", "good.zip", "here", "there"]
        return message

    def parts(self) -> dict[str, bytes]:
        with zipfile.ZipFile(BytesIO(self.data)) as file:
            return {name: file.read(name) for name in file.namelist()}

    @contextmanager
    def imported(self) -> Iterator[Home]:
        """The home with what was imported, which is as it was before afterwards."""
        try:
            yield self.there
        finally:
            shutil.rmtree(self.there.data)
            asyncio.run(self.there.writes([Says((Text("hello"),))], OTHER))
            self.before = self.there.everything()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return Exported(tmp_path_factory.mktemp("exported"))


def packed(parts: dict[str, bytes]) -> bytes:
    made = BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return made.getvalue()


@st.composite
def damages(draw: st.DrawFn, size: int) -> list[tuple[int, int, bytes]]:
    """Places in a file of a size, how many bytes are gone there, and what stands there instead."""
    places = st.tuples(st.integers(0, size - 1), st.sampled_from([0, 1, 1, 1, 4, 40, size]), st.binary(max_size=4))
    return sorted(draw(st.lists(places, min_size=1, max_size=3)), reverse=True)


@settings(max_examples=thorough(120), deadline=None)
@given(st.data())
def test_a_file_that_is_damaged_or_cut_changes_nothing(exported: Exported, data: st.DataObject) -> None:
    damaged = bytearray(exported.data)
    for at, length, instead in data.draw(damages(len(damaged))):
        damaged[at : at + length] = instead
    if not exported.refused(bytes(damaged)):  # what was damaged tells nothing, such as when the file was made
        with exported.imported() as there:
            assert (there.rows(), there.faults()) == (exported.rows, [])


@settings(max_examples=thorough(60), deadline=None)
@given(st.data())
def test_what_others_wrote_is_refused_or_can_be_read(exported: Exported, data: st.DataObject) -> None:
    """Any value of any row, with a manifest that tells of it."""
    parts = exported.parts()
    manifest = json.loads(parts["manifest.json"])
    table = data.draw(st.sampled_from(sorted(table for table, part in manifest["rows"].items() if part["count"])))
    rows = [json.loads(line) for line in parts[f"rows/{table}.jsonl"].splitlines()]
    row = data.draw(st.sampled_from(rows))
    column = data.draw(st.sampled_from(sorted(row)))
    row[column] = data.draw(values | st.integers() | st.floats() | bodies(row[column]))
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    parts[f"rows/{table}.jsonl"] = lines
    manifest["rows"][table]["sha256"] = hashlib.sha256(lines).hexdigest()
    parts["manifest.json"] = json.dumps(manifest).encode()
    if not exported.refused(packed(parts)):
        with exported.imported() as there, suppress(AgentError):
            there.faults()
            asyncio.run(there.sees())


def bodies(body: object) -> st.SearchStrategy[Any]:
    """JSON like that of a body, with another value somewhere."""
    try:
        parsed = json.loads(str(body))
    except ValueError:
        return st.just(body)
    return places_in(parsed).flatmap(lambda path: values.map(lambda value: json.dumps(put(parsed, path, value))))


def places_in(parsed: object) -> st.SearchStrategy[tuple[Any, ...]]:
    """The way to something inside a value: keys and indexes."""
    found: list[tuple[Any, ...]] = [()]
    for way in found:
        inner = parsed
        for key in way:
            inner = inner[key]  # type: ignore[index]  # the way leads through lists and objects only
        if isinstance(inner, dict):
            found += [(*way, key) for key in inner]
        if isinstance(inner, list):
            found += [(*way, index) for index in range(len(inner))]
    return st.sampled_from(found)


def put(parsed: Any, way: tuple[Any, ...], value: object) -> object:
    """A copy with another value at the end of the way."""
    if not way:
        return value
    changed = dict(parsed) if isinstance(parsed, dict) else list(parsed)
    changed[way[0]] = put(parsed[way[0]], way[1:], value)
    return changed


# One thing that is wrong


def manifest_with(**changed: object) -> Callable[[dict[str, bytes]], None]:
    def change(parts: dict[str, bytes]) -> None:
        parts["manifest.json"] = json.dumps({**json.loads(parts["manifest.json"]), **changed}).encode()

    return change


def session_with(**changed: object) -> Callable[[dict[str, bytes]], None]:
    def change(parts: dict[str, bytes]) -> None:
        manifest = json.loads(parts["manifest.json"])
        manifest["session"].update(changed)
        parts["manifest.json"] = json.dumps(manifest).encode()

    return change


def row_with(table: str, **changed: object) -> Callable[[dict[str, bytes]], None]:
    """Changes the first row of a table, and the manifest accordingly."""

    def change(parts: dict[str, bytes]) -> None:
        name = f"rows/{table}.jsonl"
        first, rest = parts[name].split(b"\n", 1)
        parts[name] = json.dumps({**json.loads(first), **changed}).encode() + b"\n" + rest
        manifest = json.loads(parts["manifest.json"])
        manifest["rows"][table]["sha256"] = hashlib.sha256(parts[name]).hexdigest()
        parts["manifest.json"] = json.dumps(manifest).encode()

    return change


def with_name(name: str) -> Callable[[dict[str, bytes]], None]:
    def change(parts: dict[str, bytes]) -> None:
        parts[name] = b"x"

    return change


def other_bytes(parts: dict[str, bytes]) -> None:
    name = next(name for name in parts if name.startswith("blobs/"))
    parts[name] = parts[name][:-1] + b"?"


def more_bytes(parts: dict[str, bytes]) -> None:
    name = next(name for name in parts if name.startswith("blobs/"))
    parts[name] += b"?"


def without(prefix: str) -> Callable[[dict[str, bytes]], None]:
    def change(parts: dict[str, bytes]) -> None:
        del parts[next(name for name in parts if name.startswith(prefix))]

    return change


def shorter(parts: dict[str, bytes]) -> None:
    parts["rows/messages.jsonl"] = parts["rows/messages.jsonl"].rsplit(b"\n", 2)[0] + b"\n"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            manifest_with(version=2),
            "has version 2 of the format, but this program supports only 1: update this program",
        ),
        (manifest_with(format="holiday pictures"), "is not an exported session"),
        (manifest_with(rows={}), "is damaged and was not imported: its manifest does not list `messages`"),
        (manifest_with(blobs={"../../x": 1}), "its manifest names an output without a valid digest"),
        (manifest_with(blobs=7), "its manifest does not list its content"),
        (without("manifest"), "is not an exported session: it has no `manifest.json`"),
        (with_name("../../evil"), "was not imported: it contains `../../evil`, a path outside its folder"),
        (with_name("/etc/evil"), "was not imported: it contains `/etc/evil`, a path outside its folder"),
        (with_name("rows/evil.jsonl"), "its manifest does not list `evil`"),
        (with_name(f"blobs/{'a' * 64}"), "its manifest does not list `aaaaaaaaaaaa`"),
        (with_name("README"), "it contains files that do not belong to a session"),
        (session_with(id="../../../x"), "its manifest has no valid session"),
        (session_with(updated="yesterday"), "its manifest has no valid times"),
        (other_bytes, "was changed"),
        (more_bytes, "is longer than the manifest says"),
        (without("blobs/"), "is damaged and was not imported"),
        (without("rows/usage"), "is damaged and was not imported"),
        (shorter, "`messages` does not match its manifest"),
        (row_with("messages", body="{}"), "message 0 of the session cannot be read: 'parts'"),
        (row_with("messages", body=7), "message 0 is not a message"),
        (row_with("messages", position=1), "message 0 is not a message"),
        (row_with("outputs", digest="f" * 64), "the bytes of `r1` are missing"),
        (row_with("outputs", number=2), "row 2 of `outputs` does not fit the others"),
        (row_with("outputs", position=999), "row 1 of `outputs` does not fit the others"),
        (row_with("usage", cost={"a": 1}), "row 1 of `usage` is not a row"),
        (row_with("usage", input=1 << 70), "row 1 of `usage` is not a row"),
        (row_with("usage", evil="x"), "row 1 of `usage` is not a row"),
    ],
)
def test_a_file_that_is_not_as_it_should_be_is_refused_whole(
    exported: Exported, change: Callable[[dict[str, bytes]], None], why: str
) -> None:
    parts = exported.parts()
    change(parts)
    message = exported.refused(packed(parts))
    assert message.startswith(f"`{exported.folder / 'bad.zip'}` ")
    assert why in message


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b" " * (1 << 25), "`rows/messages.jsonl` has a line of more than 16 MiB"),
        (b"[" + b"[]," * 2_100_000 + b"[]]", "line 1 of `messages` is not a valid row"),
    ],
    ids=("a long line", "many lists"),
)
def test_a_small_file_that_unpacks_to_much_is_refused_before_it_does(exported: Exported, line: bytes, why: str) -> None:
    parts = exported.parts()
    parts["rows/messages.jsonl"] = line + b"\n"
    data = packed(parts)
    assert len(data) < 1_000_000
    tracemalloc.start()
    message = exported.refused(data)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert message.endswith(f"{why}; export the session again")
    assert most < 60_000_000


def test_a_manifest_is_no_larger_than_what_it_tells_of(exported: Exported) -> None:
    parts = exported.parts()
    parts["manifest.json"] += b" " * (1 << 20)
    assert "its manifest is larger than its content" in exported.refused(packed(parts))


def test_what_is_no_zip_is_refused(exported: Exported) -> None:
    whole = exported.data
    for data in (b"", b"hello", whole[: len(whole) // 2], whole[: len(whole) // 2] + bytes(100) + whole[-30:]):
        assert "is not an exported session, or only a part of one" in exported.refused(data)


def test_bytes_that_flipped_are_noticed(exported: Exported) -> None:
    with zipfile.ZipFile(BytesIO(exported.data)) as zipped:
        for entry in zipped.infolist():
            if entry.compress_size > 100:  # what stands before the bytes is shorter
                data = bytearray(exported.data)
                data[entry.header_offset + 50 + len(entry.filename) + entry.compress_size // 2] ^= 0x55
                assert exported.refused(bytes(data)), entry.filename


def test_what_is_no_file_is_not_waited_for_nor_read_without_end(exported: Exported) -> None:
    os.mkfifo(exported.folder / "pipe")
    whys = {exported.folder: "Is a directory"}
    for name in (exported.folder / "pipe", Path("/dev/zero"), exported.folder):
        with pytest.raises(InvalidBundleError) as caught:
            Bundle(name)
        assert str(caught.value) == f"cannot read `{name}`: {whys.get(name, 'it is not a regular file')}"
