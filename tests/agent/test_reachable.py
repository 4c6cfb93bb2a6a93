"""Whatever left the view comes back byte for byte in two calls at most, by what the view says of it."""

import asyncio
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.archive.recall import SessionRecall, create_fetch_function, create_search_function
from ebbtide.agent.calls.execute import CallPosition
from ebbtide.agent.calls.output_intake import OutputArchiver
from ebbtide.agent.messages import Assistant, Conversation, Text, ToolCall, ToolOutput, User
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.view.previews import OffloadLimits, OffloadMode
from ebbtide.agent.view.visible import visible_messages
from ebbtide.store.blobs import BlobStore
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import LoggedOutput, Result, Workspace
from ebbtide.tools.read_result import ReadResult
from ebbtide.tools.recall import Recall as RecallTool
from tests.conftest import thorough
from tests.kit.fuzzed_sessions import Inline
from tests.kit.read_result_text import as_bytes

ROW = SessionRow("aa11bb22cc33", "/code/app", "", "scripted/a", "auto", 1.0, 1.0)

PIECES = (
    b"a line of a log\n", b"error: no such file\r\n", b"x" * 700, b"\0", b"\x80\xff\xfe", b"\x1b[31mred\x1b[0m", b"\r",
    "日本語 é\n".encode(), "\u202eright to left\u2066".encode(), "\udc80 half".encode("utf-8", "surrogatepass"),
    b"\\xff \\\\ \n", b"(not text; shown in hexadecimal)\n", b"[Tool result stored]\n",
    b"\n(bytes 0-4 of 4; continue at offset=4)",
)  # fmt: skip
pieces = st.sampled_from(PIECES) | st.binary(max_size=40)
raw = st.builds(
    lambda parts, times: b"".join(parts) * times,
    st.lists(pieces, max_size=6),
    st.sampled_from([1, 1, 3, 60, 900]),
)
"""Anything that a call may give back: nothing, text, bytes that are none, one long line, all ends of lines."""

NEWLINE = b"\n"

Form = Literal["as it came", "masked", "summarised"]


@dataclass(frozen=True, slots=True)
class Given:
    """What a call gave back, and how."""

    data: bytes
    is_log: bool
    """It was printed by a program, not told by a tool."""

    @property
    def result(self) -> Result:
        text = self.data.decode("utf-8", "replace")
        return Result("exit code 0") if self.is_log else Result(text)


class Desk:
    """A session whose outputs are kept, and the two tools that bring them back."""

    def __init__(self, folder: Path, settings: OffloadLimits) -> None:
        self.folder = folder
        self.thread = Inline(lambda: SessionStore(":memory:", blobs=BlobStore(folder / "blobs")))
        self.settings = settings
        self.view = Conversation()

    async def open(self) -> None:
        self.store = await self.thread.open()
        self.recorder = Recorder(self.thread, self.store, ROW)
        self.archive = Archive(self.thread, self.store, ROW.id, ROW.project)
        recall = SessionRecall(self.thread, self.store, self.archive, ROW.id, ROW.project)
        fetch = create_fetch_function(recall)
        root = self.folder
        self.workspace = Workspace(
            root,
            root,
            get_stored_content=lambda ref: fetch(ref, None),
            fetch_stored_content=fetch,
            search_history=create_search_function(recall),
        )
        await self.say(User((Text("go"),)))

    async def say(self, message: User | Assistant) -> None:
        await (
            self.recorder.record_user_message(message)
            if isinstance(message, User)
            else self.recorder.record_reply(message)
        )
        self.view = self.view.plus(message)

    async def take(self, number: int, given: Given) -> bytes:
        """A step with one call; all that it gave back, in bytes."""
        call = ToolCall(f"c{number}", "bash", {"command": f"make target{number}"})
        result = given.result
        if given.is_log:
            log = self.folder / f"log-{number}"
            log.write_bytes(given.data)
            result = replace(result, log=LoggedOutput(log, 0, len(given.data), is_finished=True))
        output = await OutputArchiver(self.archive, self.settings).store_and_show(
            call, CallPosition(number), "done", result
        )
        await self.say(Assistant((call,), "scripted/a"))
        await self.say(User((output,)))
        if output.stored is None:  # then it stands in the view, and only that can leave it
            return output.text.encode()
        return given.data if given.is_log else result.text.encode()

    async def reads(self, ref: str, at: int, limit: int) -> bytes:
        """The bytes of one answer."""
        answer = (await ReadResult().run({"ref_id": ref, "offset": at, "limit": limit}, self.workspace)).text
        return as_bytes(answer.rpartition("\n(")[0])

    async def recalls(self, number: int) -> str:
        """The reference that a search for the call finds."""
        asked = {"query": f"make target{number}", "kind": "output"}
        found = (await RecallTool().run(asked, self.workspace)).text
        # What is searched in part only is told before what was found.
        return next(line for line in found.split("\n") if line.startswith("[recall:"))[len("[recall:") :].partition(
            "]"
        )[0]


@contextmanager
def new_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ebb-reachable-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@settings(max_examples=thorough(60), deadline=None)
@given(
    st.lists(st.builds(Given, raw, st.booleans()), min_size=1, max_size=3),
    st.sampled_from(["auto", "truncate"]),
    st.sampled_from(["as it came", "masked", "summarised"]),
    st.data(),
)
def test_every_byte_that_is_not_shown_comes_back(
    outputs: list[Given], mode: OffloadMode, form: Form, data: st.DataObject
) -> None:
    async def work(folder: Path) -> None:
        desk = Desk(folder, OffloadLimits(mode=mode))
        await desk.open()
        whole = [await desk.take(number, given) for number, given in enumerate(outputs, 1)]
        for number, (original, visible) in enumerate(zip(whole, shown_outputs(desk.view, form), strict=True), 1):
            ref = named_in(visible) or await desk.recalls(number)
            assert ref == f"r{number}"
            at, limit = data.draw(st.integers(0, max(len(original) - 1, 0))), data.draw(st.integers(1, 5000))
            back = await desk.reads(ref, at, limit)
            # What was told of the end of a program follows its text; other bytes end where they end.
            assert f"{original.decode('latin-1')}{told_behind(original)}".encode("latin-1")[at:].startswith(back)
            assert len(back) >= min(limit - 3, 1024, len(original) - at)
        await desk.thread.close()

    with new_folder() as folder:
        asyncio.run(work(folder))


def told_behind(printed: bytes) -> str:
    return f"{'' if printed.endswith(NEWLINE) or not printed else chr(10)}exit code 0"


def outputs_of(view: Conversation) -> list[ToolOutput]:
    return [output for message in view.messages if isinstance(message, User) for output in message.outputs]


def shown_outputs(view: Conversation, form: Form) -> list[str]:
    """What the model sees of the outputs."""
    outputs = outputs_of(view)
    match form:
        case "as it came":
            return [output.text for output in outputs]
        case "masked":
            masked = replace(view, masked=frozenset(output.call_id for output in outputs))
            return [output.text for output in outputs_of(replace(view, messages=tuple(visible_messages(masked))))]
        case "summarised":
            return [""] * len(outputs)


def named_in(text: str) -> str:
    """The reference that an output in view names; nothing where it does not, as a search does then."""
    found = re.findall(r'ref_id="(r\d+)"|\[recall:(r\d+)\]', text)
    return "".join(found[-1]) if found else ""
