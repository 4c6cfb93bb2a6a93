"""The transcript that hooks read."""

import json
from collections.abc import Sequence
from pathlib import Path

from ebbtide.agent.hooks.transcript import HookTranscript, UsageByMessage
from ebbtide.agent.messages import Message, Text, User


async def test_after_a_failed_write_the_transcript_is_written_whole(tmp_path: Path) -> None:
    messages = [User((Text("one"),))]

    async def read(start: int) -> tuple[Sequence[Message], int, UsageByMessage]:
        return messages[start:], len(messages), {}

    path, away = tmp_path / "transcript.jsonl", tmp_path / "away"
    transcript = HookTranscript(path, "s", tmp_path, read)
    assert await transcript.write_new_messages() == str(path)
    path.rename(away)
    path.mkdir()
    messages.append(User((Text("two"),)))
    assert (await transcript.write_new_messages(), "cannot be written: Is a directory" in transcript.problem) == (
        "",
        True,
    )

    path.rmdir()
    away.rename(path)
    with path.open("a") as file:
        file.write('{"part of a li')  # as a full disk leaves it
    assert (await transcript.write_new_messages(), transcript.problem) == (str(path), "")
    messages.append(User((Text("three"),)))
    await transcript.write_new_messages()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["message"]["content"] for line in lines] == ["one", "two", "three"]
    assert [line["parentUuid"] for line in lines] == [None, lines[0]["uuid"], lines[1]["uuid"]]
