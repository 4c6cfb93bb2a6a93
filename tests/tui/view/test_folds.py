import pytest

from ebbtide.tui.view.block_groups import LookupGroup, group_blocks, lookup_summary
from ebbtide.tui.view.blocks import AnswerText, Block, Call, CallStatus, ReasoningBlock, UserText


def read(path: str, status: CallStatus = "done") -> Call:
    return Call(path, "read", {"path": path}, status)


def todo(id: str, status: CallStatus = "done") -> Call:
    return Call(id, "todo", {"items": [{"text": id, "status": "doing"}]}, status)


A, B, C = read("a.py"), read("b.py"), Call("c", "grep", {"pattern": "def f"}, "running")
RAN = Call("r", "bash", {"command": "make"}, "done")


def test_reads_and_searches_in_a_row_are_one_line() -> None:
    assert group_blocks((A, B, C, RAN, A)) == [LookupGroup((A, B, C)), None, None, RAN, A]
    assert group_blocks((UserText("x"), A, B)) == [UserText("x"), LookupGroup((A, B)), None]


def test_thoughts_between_them_are_in_the_line_and_those_behind_it_are_not() -> None:
    first, last = ReasoningBlock("b may matter"), ReasoningBlock("now I know")
    assert group_blocks((A, first, B, last)) == [LookupGroup((A, B)), None, None, last]
    assert group_blocks((A, first, B), lambda at: at == 1) == [A, first, B]
    assert group_blocks((A, first, RAN)) == [A, first, RAN]


@pytest.mark.parametrize("between", [AnswerText("so"), RAN, read("gone", "failed"), read("secret", "asking")])
def test_what_is_to_be_seen_ends_the_row(between: Block) -> None:
    assert group_blocks((A, between, B)) == [A, between, B]


def test_what_was_opened_stands_by_itself() -> None:
    blocks = (A, B, C, A, B)
    assert group_blocks(blocks, lambda at: at == 2) == [LookupGroup((A, B)), None, C, LookupGroup((A, B)), None]


def test_a_line_says_how_many_and_which_and_counts_nothing_twice() -> None:
    part = Call("p", "read", {"path": "a.py", "offset": 7}, "done")
    recalled = Call("q", "recall", {"ref_id": "r1"}, "done")
    lookups = LookupGroup((A, part, B, C, recalled))
    assert lookup_summary(lookups) == (
        "Read 2 files, searched 1 pattern, looked up 1 stored output",
        "a.py, b.py, def f, r1",
    )


def test_a_list_stands_once_as_it_was_left_last() -> None:
    first, second, third = todo("1"), todo("2"), todo("3", "running")
    assert group_blocks((first, RAN, second, third)) == [second, RAN, None, None]
    assert group_blocks((first, UserText("and"), second)) == [first, UserText("and"), second]
    assert group_blocks((first, todo("x", "failed"))) == [first, todo("x", "failed")]
