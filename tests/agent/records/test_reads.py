"""How much of a stored session is read when it is resumed."""

from pathlib import Path

import pytest

from ebbtide.agent.messages import Assistant, Conversation, Message, Text, User
from ebbtide.agent.records import damage, message_rows
from ebbtide.agent.records.message_rows import encode_message
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.rows import encode_snapshot
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.session_rows import MessageRow, SessionRow, SnapshotRow
from ebbtide.store.sessions import SessionStore

ROW = SessionRow("a", "/p", "", "scripted/a", "ask", 1.0, 1.0)
VISIBLE = 20


@pytest.mark.parametrize("count", [50, 500])
async def test_only_what_the_context_shows_is_decoded_and_each_message_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    thread = StoreThread(lambda: SessionStore(tmp_path / "sessions.db"))
    store = await thread.open()
    pairs = [(User((Text(f"ask {number}"),)), Assistant((Text("so"),), "m")) for number in range(count // 2)]
    messages: list[Message] = [message for pair in pairs for message in pair]
    rows = [encode_message(message, position) for position, message in enumerate(messages)]
    snapshot = SnapshotRow(count, encode_snapshot(Conversation(tuple(messages[-VISIBLE:])), count))
    await thread.run(store.create, ROW)
    await thread.run(lambda: store.write(ROW.id, rows, snapshot=snapshot))
    decoded, statements = list[int](), list[str]()

    def decode(row: MessageRow) -> Message:
        decoded.append(row.position)
        return message_rows.decode_message(row)

    monkeypatch.setattr(damage, "decode_message", decode)
    await thread.run(store._db.set_trace_callback, statements.append)
    conversation = await Recorder(thread, store, ROW, is_new=False).load()
    await thread.run(store._db.set_trace_callback, None)
    assert conversation.messages == tuple(messages[-VISIBLE:])
    assert decoded == [*range(count - VISIBLE, count)]
    assert len(statements) < 12
    await thread.close()
