"""What blocks say when they are copied, and when words are looked for in them."""

from ebbtide.tui.view.block_texts import block_text, clipboard_text, last_answer
from ebbtide.tui.view.blocks import AnswerText, Call, Failure, UserText

MARKDOWN = "It **works**:\n\n```python\nprint(1)\n```\n"
CALL = Call("1", "bash", {"command": "make check"}, "done", text="built\nfine")
READ = Call("2", "read", {"path": "a.py"}, "done", text="1\tx = 1")
BLOCKS = (
    UserText("do it"),
    CALL,
    READ,
    AnswerText("first"),
    AnswerText(MARKDOWN),
    Failure("x", "No key. Set one."),
)


def test_a_block_is_copied_as_it_was_written() -> None:
    assert [clipboard_text(block) for block in BLOCKS] == [
        "do it",
        "$ make check\nbuilt\nfine",
        "read a.py\n1\tx = 1",
        "first",
        MARKDOWN,
        "No key. Set one.",
    ]
    assert (last_answer(BLOCKS), last_answer(())) == (MARKDOWN, "")


def test_a_block_is_searched_with_all_that_it_shows() -> None:
    assert [block_text(block) for block in BLOCKS] == [
        "do it",
        "bash  make check\nmake check\nbuilt\nfine",
        "read  a.py\npath: a.py\n1\tx = 1",
        "first",
        MARKDOWN,
        "No key. Set one.",
    ]
