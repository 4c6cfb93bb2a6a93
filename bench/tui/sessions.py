"""Creates sessions of any length in a store, and the command lines to open them with `ebb`."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.measure import minimal_environment
from ebbtide.agent.messages import Assistant, Conversation, Message, Text, ToolCall, ToolOutput, User
from ebbtide.agent.records.message_rows import encode_message
from ebbtide.agent.records.rows import encode_snapshot, output_rows
from ebbtide.store.session_rows import OutputRow, SessionRow, SnapshotRow
from ebbtide.store.sessions import SessionStore

MODEL = "openai-chat/bench"
SETTINGS_TEMPLATE = """\
[agent]
model = "openai-chat/bench"
permission_mode = "auto"

[providers.openai-chat]
base_url = "{url}"

[providers.openai-chat.models.bench]
context_window = 100000000
max_output_tokens = 100000
"""
LAST_LINE = "This is where the session ends."
"""The last line of every session."""

COMMON_WORDS = (
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
ANSWER_TEMPLATE = """\
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


def ebb_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ebbtide.tui.cli.main", *arguments]


def create_home(folder: Path, url: str = "http://127.0.0.1:9") -> dict[str, str]:
    """Create a home folder for a user whose model is served at `url`, and return the user's environment."""
    (folder / "config").mkdir(parents=True, exist_ok=True)
    (folder / "config" / "config.toml").write_text(SETTINGS_TEMPLATE.format(url=url))
    return minimal_environment(folder, {"OPENAI_API_KEY": "key"})


def store_session(folder: Path, project: Path, id: str, count: int, visible: int | None = None) -> None:
    """Store a session of `count` messages. The last `visible` of them, or all, are in context."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    store = SessionStore(folder / "data" / "sessions.db")
    row = SessionRow(id, str(project.resolve()), "a long session", MODEL, "auto", 1.0, float(count))
    store.create(row)
    messages = tuple(message for _, message in zip(range(count - 1), endless_history(), strict=False))
    messages += (Assistant((Text(f"Done.\n\n{LAST_LINE}"),), MODEL),)
    rows = [encode_message(message, position) for position, message in enumerate(messages)]
    view = Conversation(messages[-(visible or count) :])
    outputs = list[OutputRow]()
    for position, message in enumerate(messages):
        if isinstance(message, User) and message.outputs:
            outputs += output_rows(message, position, len(outputs), {message.outputs[0].call_id: "bash"})
    store.write(row.id, rows, [], SnapshotRow(count, encode_snapshot(view, count)), [], outputs=outputs)
    store.close()


def endless_history() -> Iterator[Message]:
    """Yield the messages of an endless session: a request, steps with one call each, an answer."""
    dice = random.Random(7)
    number = 0
    while True:
        yield User((Text(f"please look at the parser: {random_words(dice, 25)}"),))
        for _ in range(3):
            number += 1
            call = ToolCall(f"c{number}", "bash", {"command": f"pytest -q tests/test_{number}.py"}, "")
            yield Assistant((Text(f"I look at **it** first. {random_words(dice, 30)}"), call), MODEL)
            yield User((ToolOutput(call.id, "\n".join(random_words(dice, 8) for _ in range(dice.randrange(30)))),))
        yield Assistant((Text(ANSWER_TEMPLATE.format(count=number) + "\n" + random_words(dice, 60)),), MODEL)


def random_words(dice: random.Random, count: int) -> str:
    return " ".join(dice.choices(COMMON_WORDS, k=count))
