"""Creates sessions of any length in a store, and the command lines to open them with `ebb`."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.measure import environment
from ebbtide.agent.messages import Assistant, Conversation, Message, Text, ToolCall, ToolOutput, User
from ebbtide.agent.records.message_rows import encode_message
from ebbtide.agent.records.rows import encode_snapshot, output_rows
from ebbtide.store.session_rows import OutputRow, SessionRow, SnapshotRow
from ebbtide.store.sessions import SessionStore

MODEL = "openai-chat/bench"
SETTINGS = """\
[agent]
model = "openai-chat/bench"
permission_mode = "auto"

[providers.openai-chat]
wire = "http"
base_url = "{url}"

[providers.openai-chat.models.bench]
context_window = 100000000
max_output_tokens = 100000
"""
LAST = "This is where the session ends."
"""The last line of every session."""

COMMON = (
    "the",
    "of",
    "parser",
    "token",
    "reads",
    "and",
    "file",
    "is",
    "line",
    "test",
    "value",
    "so",
    "it",
    "then",
    "none",
)
ANSWER = """\
It **fails** because `parse` never sees the end: see [the notes](https://example.org/notes).

- the lexer drops the last token
- the parser asks for it {count} times

```python
def parse(tokens: list[Token]) -> Node:
    while tokens[-1].kind != "end":  # never comes
        yield tokens.pop()
```

| file | before | after |
|---|---|---|
| parser.py | {count} | 0 |
| lexer.py | 3 | 1 |
"""


def ebb(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ebbtide.tui.cli.main", *arguments]


def home(folder: Path, url: str = "http://127.0.0.1:9") -> dict[str, str]:
    """The environment of a user whose model is served at `url`."""
    (folder / "config").mkdir(parents=True, exist_ok=True)
    (folder / "config" / "config.toml").write_text(SETTINGS.format(url=url))
    return environment(folder, {"OPENAI_API_KEY": "key"})


def store_session(folder: Path, project: Path, id: str, count: int, shown: int | None = None) -> None:
    """Store a session of `count` messages, of which the last `shown`, or all, are in context."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    store = SessionStore(folder / "data" / "sessions.db")
    row = SessionRow(id, str(project.resolve()), "a long session", MODEL, "auto", 1.0, float(count))
    store.create(row)
    messages = tuple(message for _, message in zip(range(count - 1), history(), strict=False))
    messages += (Assistant((Text(f"Done.\n\n{LAST}"),), MODEL),)
    rows = [encode_message(message, position) for position, message in enumerate(messages)]
    view = Conversation(messages[-(shown or count) :])
    outputs = list[OutputRow]()
    for position, message in enumerate(messages):
        if isinstance(message, User) and message.outputs:
            outputs += output_rows(message, position, len(outputs), {message.outputs[0].call_id: "bash"})
    store.write(row.id, rows, [], SnapshotRow(count, encode_snapshot(view, count)), [], outputs=outputs)
    store.close()


def history() -> Iterator[Message]:
    """An endless session: request, steps with one call each, answer."""
    dice = random.Random(7)
    number = 0
    while True:
        yield User((Text(f"please look at the parser: {words(dice, 25)}"),))
        for _ in range(3):
            number += 1
            call = ToolCall(f"c{number}", "bash", {"command": f"pytest -q tests/test_{number}.py"}, "")
            yield Assistant((Text(f"I look at **it** first. {words(dice, 30)}"), call), MODEL)
            yield User((ToolOutput(call.id, "\n".join(words(dice, 8) for _ in range(dice.randrange(30)))),))
        yield Assistant((Text(ANSWER.format(count=number) + "\n" + words(dice, 60)),), MODEL)


def words(dice: random.Random, count: int) -> str:
    return " ".join(dice.choices(COMMON, k=count))
