"""Hypothesis strategies for sessions as they are written down, with everything that a session may keep, and the writing
itself, through the recorder of the program."""

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from hypothesis import strategies as st

from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.archive.recall import SessionRecall
from ebbtide.agent.events.session import ModelSwitched, ReplyFinished
from ebbtide.agent.events.view import ContextCompacted, PrefixRenewed
from ebbtide.agent.messages import (
    Assistant,
    AssistantPart,
    Conversation,
    Image,
    Message,
    Note,
    ProviderItem,
    Reasoning,
    StoredBlob,
    Summary,
    Text,
    ToolCall,
    ToolOutput,
    Usage,
    User,
    UserPart,
)
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.session_state import SessionState
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.view.visible import count_outputs
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from tests.kit.adapters import PIXEL
from tests.kit.conversations import arguments, natives, statuses

WORDS = ("parser", "Lexer", "the retry limit", "測試這個", "a_long_name", "mcp__chat__send", "\0", "\udc80", "\u202e")
"""What texts are made of, so that a search finds some of them."""

texts = st.lists(st.sampled_from(WORDS) | st.text(max_size=12), max_size=6).map(" ".join)
filled = texts.map(lambda text: text or "x")
names = st.sampled_from(
    ["read", "bash", "todo", "grep", "recall", "read_result", "mcp__chat__send", "no such\ttool", ""]
)
images = st.builds(Image, st.sampled_from(["image/png", "image/webp"]), st.sampled_from(["", "aGk=", PIXEL]))
raw = st.binary(max_size=40) | st.sampled_from(
    [b"", b"parser\r\n" * 20, b"\0\xff\r" * 9, "\u202etest 測試".encode(), b"x" * 90]
)
"""What calls gave back."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a call gave back, and what the model is shown of it."""

    output: ToolOutput
    whole: bytes | None
    """All of it, when that is kept apart."""
    pictures: tuple[bytes, ...]
    """Those that are not shown."""


@dataclass(frozen=True, slots=True)
class Says:
    parts: tuple[UserPart, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    parts: tuple[AssistantPart, ...]
    given: tuple[Given, ...]
    """Empty in a step without calls, and where the program died before any was answered."""
    usage: Usage
    cost: float | None
    situation: SessionState


@dataclass(frozen=True, slots=True)
class Compacts:
    summary: Summary
    keep: int
    """Messages that stay in view, or a few more: calls keep their outputs."""
    cost: float | None


@dataclass(frozen=True, slots=True)
class Masks:
    """All outputs in view become a line each."""


@dataclass(frozen=True, slots=True)
class Goes:
    """On with another model."""

    model: str


@dataclass(frozen=True, slots=True)
class Looks:
    """Something is looked up by reference."""

    number: int


Happening: TypeAlias = Says | Steps | Compacts | Masks | Goes | Looks

costs = st.none() | st.floats(0, 5)
usages = st.builds(Usage, *[st.integers(0, 10**6)] * 4)
paths = st.sampled_from([Path("/p/a.py"), Path("/p/日本.txt"), Path("/p/caf\udce9.txt"), Path('/p/"quoted".py')])
situations = st.builds(
    SessionState, seen_digests=st.dictionaries(paths, st.just("d" * 64), max_size=2),
    running_jobs=st.dictionaries(st.sampled_from(["1", "2"]), st.just("make test"), max_size=2),
)  # fmt: skip
user_parts: st.SearchStrategy[UserPart] = st.builds(Text, texts) | images | st.builds(Note, filled)


@st.composite
def given_back(draw: st.DrawFn, id: str) -> Given:
    whole = draw(st.none() | raw)
    pictures = tuple(draw(st.lists(st.binary(min_size=1, max_size=9), max_size=1)))
    pictures_in_output = tuple(draw(st.lists(images, max_size=1))) if not pictures else ()
    return Given(ToolOutput(id, draw(texts), draw(statuses), pictures_in_output), whole, pictures)


@st.composite
def a_step(draw: st.DrawFn) -> Steps:
    """A step whose calls have no ids yet."""
    parts: list[AssistantPart] = []
    if draw(st.booleans()):
        parts.append(Reasoning(draw(texts), draw(natives)))
    if draw(st.booleans()):
        parts.append(Text(draw(texts), draw(st.none() | natives)))
    if draw(st.booleans()):
        parts.append(ProviderItem(draw(natives)))
    todos = {"items": [{"text": draw(filled), "status": "doing"}]}
    count = draw(st.integers(0, 3))
    for index in range(count):
        name = draw(names)
        wanted = todos if name == "todo" else draw(arguments)
        parts.append(ToolCall(str(index), name, wanted, draw(st.just("") | texts), draw(st.just("") | filled)))
    parts = parts or [Text("done")]
    given = tuple(draw(given_back(str(index))) for index in range(count))
    return Steps(tuple(parts), given, draw(usages), draw(costs), draw(situations))


summaries = st.builds(
    Summary, texts, filled, texts, st.builds(User, st.lists(st.builds(Text, texts) | images, max_size=2).map(tuple)),
    texts,
)  # fmt: skip
happenings: st.SearchStrategy[Happening] = st.one_of(
    st.builds(Says, st.lists(user_parts, min_size=1, max_size=3).map(tuple)),
    a_step(),
    a_step(),
    a_step(),
    st.builds(Compacts, summaries, st.integers(0, 4), costs),
    st.just(Masks()),
    st.builds(Goes, st.sampled_from(["scripted/b", "openai/gpt-9"])),
    st.builds(Looks, st.integers(1, 4)),
)
sessions: st.SearchStrategy[list[Happening]] = st.builds(
    lambda first, rest, last: [Says((Text(first),)), *rest, *last],
    texts,
    st.lists(happenings, max_size=9),
    st.just([]) | st.just([]) | a_step().map(lambda step: [replace(step, given=())]),
)
"""What happens in a session, which begins with what the user says and may end while calls run."""


class Writing:
    """A session as it is written down."""

    def __init__(self, thread: StoreThread, store: SessionStore, row: SessionRow, *, is_new: bool) -> None:
        self.recorder = Recorder(thread, store, row, is_new=is_new, get_workspace_state=lambda: self.situation)
        self.archive = Archive(thread, store, row.id, row.project)
        self.recall = SessionRecall(thread, store, self.archive, row.id, row.project)
        self.view = Conversation()
        self.situation = SessionState()
        self.steps = 0

    async def write(self, all_of_it: Sequence[Happening]) -> None:
        for one in all_of_it:
            await self._happens(one)
        await self.recorder.end_turn("scripted/a", "auto")

    async def _happens(self, one: Happening) -> None:
        match one:
            case Says(parts):
                message = User(parts)
                await self.recorder.record_user_message(message)
                self.view = self.view.plus(message)
            case Steps():
                await self._step(one)
            case Compacts():
                await self._compact(one)
            case Masks():
                ids = [output.call_id for m in self.view.messages if isinstance(m, User) for output in m.outputs]
                self.view = replace(self.view, masked=frozenset(ids))
                await self.recorder.record_snapshot(self.view, User(()), None)
            case Goes(model):
                self.recorder.queue_event_rows(ModelSwitched("scripted/a", model, "it is full", 9))
                self.recorder.queue_event_rows(PrefixRenewed(("system",)))
                await self.recorder.switch_model(model)
            case Looks(number):
                if number <= count_outputs(self.view):
                    (await self.recall.fetch(f"r{number}")).content.close()

    async def _step(self, step: Steps) -> None:
        self.steps += 1
        parts = tuple(
            replace(part, id=f"c{self.steps}-{part.id}") if isinstance(part, ToolCall) else part for part in step.parts
        )
        reply = Assistant(parts, "scripted/a")
        self.recorder.queue_event_rows(ReplyFinished("scripted/a", "end", step.usage, step.cost))
        await self.recorder.record_reply(reply)
        self.view = replace(self.view.plus(reply), anchor=step.usage, anchored=len(self.view.messages) + 1)
        outputs = User(tuple([await self._kept(given) for given in step.given]))
        self.situation = step.situation
        self.view = self.view.plus(outputs)
        await self.recorder.record_snapshot(self.view, outputs, None)

    async def _kept(self, given: Given) -> ToolOutput:
        stored = None if given.whole is None else await self.archive.put([given.whole])
        pictures = [await self.archive.put([data]) for data in given.pictures]
        apart = tuple(StoredBlob(one.digest, one.size, 0, "image/png") for one in pictures)
        images = tuple([await self._image(image) for image in given.output.images])
        id = f"c{self.steps}-{given.output.call_id}"
        return replace(given.output, call_id=id, images=images, stored=stored, pictures=apart, files=apart)

    async def _image(self, image: Image) -> Image:
        """A picture that is kept apart, or, as in sessions of earlier versions, with its message."""
        if image.media_type != "image/png":
            return image
        return replace(image, digest=(await self.archive.put([b64decode(image.data)])).digest)

    async def _compact(self, compacts: Compacts) -> None:
        messages = self.view.messages
        cut = max(len(messages) - compacts.keep, 0)
        while cut and cut < len(messages) and _answers(messages[cut]):
            cut -= 1
        before = count_outputs(replace(self.view, messages=messages[:cut]))
        left = self.view
        self.view = replace(
            self.view, messages=messages[cut:], summary=compacts.summary, outputs_before=before, masked=frozenset(),
            anchor=None, anchored=0,
        )  # fmt: skip
        self.recorder.queue_event_rows(
            ContextCompacted(9, 5, 9, compacts.keep, ("mask", "summary"), cost=compacts.cost)
        )
        await self.recorder.record_snapshot(self.view, User(()), None, left)


def _answers(message: Message) -> bool:
    return isinstance(message, User) and bool(message.outputs)
