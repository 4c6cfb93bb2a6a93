"""What calls that are over show of their work, in each detail."""

import pytest

from ebbtide.tools.process.state import ProgramState
from ebbtide.tui.render.blocks import render_block
from ebbtide.tui.view.blocks import Call, DetailLevel
from tests.tui.render.test_blocks import INKS

PREVIEW = "--- a/a.py\n+++ b/a.py\n@@ -7,3 +7,3 @@\n def f():\n-    return 1\n+    return 2\n # end\n"
ASKED = Call("1", "edit", {"path": "a.py", "old": "1", "new": "2"}, "done", text="edited", diff=PREVIEW)
WIDE = "日本語한" * 40
LINES = "\n".join(map(str, range(9)))


def drawn(call: Call, detail: DetailLevel = "normal", width: int = 60) -> list[str]:
    lines = render_block(call, detail, width, INKS)
    assert all(sum(segment.cell_length for segment in line) <= width for line in lines)
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


def todo(*items: tuple[str, str]) -> Call:
    rows = [{"text": text, "status": status} for text, status in items]
    return Call("1", "todo", {"items": rows}, "done", text="kept")


def test_an_edit_shows_its_lines_with_those_around() -> None:
    assert drawn(ASKED) == [
        "● edit  a.py  +1 −1",
        "  │ 7   def f():",
        "  │ 8 -     return 1",
        "  │ 8 +     return 2",
        "  │ 9   # end",
    ]


def test_a_diff_beyond_a_screenful_is_folded_and_says_how_much_there_is() -> None:
    long = Call("1", "write", {"path": "a.txt", "content": "".join(f"{n}\n" for n in range(10_000))}, "done")
    assert drawn(long) == [
        "● write  a.txt  +10000 −0",
        *(f"  │ + {n}" for n in range(16)),
        "  │ … 9,984 more lines",
    ]
    one_line = Call("1", "write", {"path": "a.txt", "content": "日本" * 500_000}, "done")
    assert len(drawn(one_line)) == 10


def test_a_command_shows_the_last_lines_that_it_printed() -> None:
    ran = Call("1", "bash", {"command": "make"}, "done", text=LINES, program=ProgramState("exit code 0", 0))
    assert drawn(ran) == ["● bash  make  last 5 of 9 lines", *(f"  │ {n}" for n in range(4, 9))]
    assert drawn(ran, "compact") == ["● bash  make  9 lines"]
    assert drawn(ran, "full") == ["● bash  make  9 lines", "  │ make", "  │", *(f"  │ {n}" for n in range(9))]


def test_a_line_that_never_ends_is_cut_at_the_edge_between_characters() -> None:
    title, line = drawn(Call("1", "bash", {"command": "x"}, "done", text=WIDE * 3_000), width=21)
    assert (title, line) == ("● bash  x  1 line", "  │ 日本語한日本語한…")


def test_a_list_is_shown_as_it_stands() -> None:
    call = todo(("read", "done"), ("mend \x1b[2J", "doing"), ("test", "pending"))
    assert drawn(call) == ["● todo  1 of 3 done", "  │ ☑ read", "  │ ■ mend ␛[2J", "  │ ☐ test"]
    many = todo(*((f"item {n}", "done" if n < 50 else "pending") for n in range(200)))
    assert drawn(many) == [
        "● todo  50 of 200 done",
        "  │ … 46 earlier",
        *(f"  │ {'☑' if n < 50 else '☐'} item {n}" for n in range(46, 58)),
        "  │ … 142 more",
    ]
    assert drawn(many, "full")[1:201] == [f"  │ {'☑' if n < 50 else '☐'} item {n}" for n in range(200)]


@pytest.mark.parametrize("items", [None, "x", [1, None], [{"text": 3}], {}])
def test_a_list_that_is_none_breaks_nothing(items: object) -> None:
    assert drawn(Call("1", "todo", {"items": items}, "done"))[0].startswith("● todo")


def test_what_did_not_happen_shows_no_work() -> None:
    edit = {"path": "a.py", "old": "1", "new": "2"}
    assert drawn(Call("1", "edit", edit, "failed", text="not found")) == ["✗ edit  a.py", "  │ not found"]
    assert drawn(Call("1", "edit", edit, "denied")) == ["⊘ edit  a.py  denied"]
    assert drawn(Call("1", "edit", edit, "interrupted")) == ["◌ edit  a.py  interrupted"]
    assert drawn(Call("1", "edit", edit, "running")) == ["○ edit  a.py"]


def test_an_open_call_tells_its_arguments_without_brackets() -> None:
    call = Call("1", "mcp__x__y", {"query": "a", "tags": ["b"]}, "done", text="found")
    assert drawn(call, "full")[1:] == ["  │ query: a", "  │ tags:", "  │   - b", "  │", "  │ found"]


@pytest.mark.parametrize("width", [1, 3, 10, 40])
def test_a_narrow_screen_cuts_and_breaks_nothing(width: int) -> None:
    for call in (ASKED, todo((WIDE, "doing")), Call("1", "bash", {"command": WIDE}, "done", text=WIDE)):
        lines = render_block(call, "normal", width, INKS)
        assert all("\n" not in segment.text for line in lines for segment in line)
