"""When a text says the same again and again, and when it only looks like it."""

from pathlib import Path

import pytest

from ebbtide.agent.providers.repetition import (
    CHECK_INTERVAL_CHARS,
    MIN_SYMBOL_REPETITION_CHARS,
    Repetition,
    RepetitionDetector,
    trailing_repetition,
)

ROOT = Path(__file__).parents[3]
SORRY = "I am sorry, I cannot do this. "
LOOP = "for name in names:\n    print(name)\n"


def stopped_at(text: str, size: int = 7) -> tuple[str, int] | None:
    """What is kept of a text that comes in pieces, and after how many characters; None where all of it is let pass."""
    watch = RepetitionDetector()
    for at in range(0, len(text), size):
        if (found := watch.add(text[at : at + size])) is not None:
            return text[: found.first_piece_end], at + size
    return None


@pytest.mark.parametrize(
    ("before", "piece", "after"),
    [
        ("Let me see.\n", SORRY, 6_000),
        ("", LOOP, 6_000),
        ("Here is the file:\n\n```python\n", LOOP * 3 + "print(total)\n\n", 6_000),
        ("Thus:", "\n\n", 6_000),
        ("Sure", "!", MIN_SYMBOL_REPETITION_CHARS),
        ("The bytes: ", "0x00, ", MIN_SYMBOL_REPETITION_CHARS),
        ("", "\n".join(f"Step {n}: write the function number {n} once more." for n in range(40)) + "\n", 14_000),
    ],
    ids=["a sentence", "code", "a block", "empty lines", "a sign", "zeros", "a whole answer"],
)
def test_what_goes_on_without_end_is_said_once(before: str, piece: str, after: int) -> None:
    found = stopped_at(before + piece * (60_000 // len(piece)))
    assert found is not None
    text, read = found
    assert (text.startswith(before), len(text) <= len(before) + len(piece)) == (True, True)
    assert after <= read <= after + len(before) + CHECK_INTERVAL_CHARS * 4


def test_the_first_of_it_ends_where_the_second_begins() -> None:
    assert trailing_repetition("So:\n" + SORRY * 300) == Repetition(4, len(SORRY), 300)


@pytest.mark.parametrize(
    "text",
    [
        "static const uint8_t table[4096] = {\n" + "0x00, 0x00, 0x00, 0x00,\n" * 900 + "};\n",
        "a,b\n" + "0,0\n" * 5_000,
        "A" * 20_000 + "=",
        "-" * 10_000 + "\n",
        "".join(f"INSERT INTO t VALUES ({n}, 'a name', NULL);\n" for n in range(2_000)),
        "I will not talk in class again.\n" * 150,
        (LOOP * 7 + "\n" + "total = 0\n") * 7,
    ],
    ids=["zeros in C", "a table", "a picture in base64", "a ruler", "rows with numbers", "lines", "blocks"],
)
def test_tables_and_lines_that_are_meant_are_let_pass(text: str) -> None:
    assert stopped_at(text, 50) is None


def test_no_file_of_this_program_is_taken_for_a_repetition() -> None:
    files = [
        path for folder in ("agent", "tools", "tui", "store", "tests", "docs") for path in (ROOT / folder).rglob("*")
    ]
    texts = [path for path in files if path.suffix in (".py", ".md", ".txt", ".json", ".tcss") and path.is_file()]
    assert [path.name for path in texts if stopped_at(path.read_text("utf-8", "replace"), 5_000)] == []
