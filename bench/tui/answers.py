"""Answers of every kind as the deltas of a stream: text, code, tables, lists, thinking, edits."""

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from bench.tui.sessions import COMMON_WORDS
from bench.tui.streaming import Delta, Reply

_CODE_LINES = (
    "def parse(tokens: list[Token], depth: int = {n}) -> Node:",
    '    """Return the node at `depth`, or raise an error."""',
    "    while tokens[-1].kind != 'end':  # never comes",
    "        yield Node(tokens.pop(), depth + {n})",
    "    if not tokens:",
    "        raise ParseError(f'line {{depth}}: nothing is left')",
    "",
)
EDITED_FILE = "parser.py"
EDITED_TEXT = "".join(f"value_{number} = {number}\n" for number in range(2_000))
_LINES_PER_EDIT = 25


def _sentence(dice: random.Random) -> str:
    return " ".join(dice.choices(COMMON_WORDS, k=dice.randrange(8, 20))).capitalize() + ". "


def plain_text(dice: random.Random) -> Iterator[str]:
    while True:
        yield "".join(_sentence(dice) for _ in range(5)) + "\n\n"


def one_paragraph(dice: random.Random) -> Iterator[str]:
    while True:
        yield _sentence(dice)


def code_blocks(dice: random.Random) -> Iterator[str]:
    while True:
        yield _sentence(dice) + "\n\n```python\n"
        for number in range(200):
            yield _CODE_LINES[number % len(_CODE_LINES)].format(n=number) + "\n"
        yield "```\n\n"


def one_table(dice: random.Random) -> Iterator[str]:
    yield "| file | before | after | what is said about it |\n|---|---:|---:|---|\n"
    while True:
        number = dice.randrange(1000)
        yield f"| `parser_{number}.py` | {number} | {number // 2} | {' '.join(dice.choices(COMMON_WORDS, k=6))} |\n"


def one_list(dice: random.Random) -> Iterator[str]:
    while True:
        yield f"- **{dice.choice(COMMON_WORDS)}** {_sentence(dice)}\n"
        for _ in range(dice.randrange(3)):
            yield f"  - `{dice.choice(COMMON_WORDS)}` {_sentence(dice)}\n"


def split_tokens(pieces: Iterable[str]) -> Iterator[str]:
    """Split text into pieces of the size of tokens: about four characters."""
    for piece in pieces:
        yield from re.findall(r"\s*\w{1,6}|\s*[^\w\s]{1,3}|\s+", piece)


def _limited(deltas: Iterator[Delta], count: int) -> Iterator[Delta]:
    return (delta for _, delta in zip(range(count), deltas, strict=False))


def reply_with(
    write: Callable[[random.Random], Iterator[str]], key: str = "content"
) -> Callable[[int, int], Iterator[Delta]]:
    """Return a reply that streams a text under a key of the message."""

    def reply(count: int, number: int) -> Iterator[Delta]:
        yield from _limited(({key: token} for token in split_tokens(write(random.Random(number)))), count)
        if key != "content":
            yield {"content": "That is all."}

    return reply


def reply_with_edits(count: int, number: int) -> Iterator[Delta]:
    """Stream the arguments of an edit. Once the edits have `count` tokens, answer."""
    lines = [f"value_{place} = {place}" for place in range(number * _LINES_PER_EDIT, (number + 1) * _LINES_PER_EDIT)]
    arguments = json.dumps(
        {"path": EDITED_FILE, "old": "\n".join(lines), "new": "\n".join(line.replace("=", "= 2 *") for line in lines)}
    )
    pieces = list(split_tokens([arguments]))
    if number * len(pieces) >= count:
        yield {"content": "That is all."}
        return
    function = {"name": "edit", "arguments": ""}
    yield {"tool_calls": [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]}
    for piece in pieces:
        yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}


ANSWER_TEXTS: Mapping[str, Callable[[random.Random], Iterator[str]]] = {
    "plain text": plain_text,
    "code blocks": code_blocks,
    "a table": one_table,
    "one paragraph": one_paragraph,
    "a list": one_list,
    "thinking": plain_text,
}
ANSWERS: Mapping[str, Reply] = {
    **{name: reply_with(write, "content") for name, write in ANSWER_TEXTS.items() if name != "thinking"},
    "thinking": reply_with(plain_text, "reasoning_content"),
    "edits": reply_with_edits,
}
