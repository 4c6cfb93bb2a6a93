"""Which changes of a plan can be refused one by one, and what is left of it."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.tools.base import ChangeSelection, ToolError
from ebbtide.tools.files.change import Change, PlannedChanges
from ebbtide.tools.files.change_selection import count_selectable_changes, select_changes

ROOT = Path("/w")
OLD = b"one\ntwo\nthree\nfour\nfive\n"
NEW = b"ONE\ntwo\nthree\nFOUR\nfive\nsix\n"


def file(old: bytes | None, new: bytes | None, name: str = "a.txt") -> Change:
    return Change(ROOT / name, old, new)


def without(changes: Sequence[Change], *refused: int) -> PlannedChanges:
    planned = PlannedChanges(tuple(changes), "done")
    return select_changes(planned, ChangeSelection(planned.preview(ROOT), frozenset(refused)), ROOT)


@pytest.mark.parametrize(
    ("refused", "content"),
    [
        ((0,), b"one\ntwo\nthree\nFOUR\nfive\nsix\n"),
        ((1,), b"ONE\ntwo\nthree\nfour\nfive\nsix\n"),
        ((0, 2), b"one\ntwo\nthree\nFOUR\nfive\n"),
    ],
)
def test_what_is_refused_stays_as_it_was(refused: tuple[int, ...], content: bytes) -> None:
    assert count_selectable_changes((file(OLD, NEW),)) == 3
    assert without((file(OLD, NEW),), *refused).changes == (file(OLD, content),)


def test_the_model_is_told_which_were_refused() -> None:
    assert without((file(OLD, NEW),), 1).message == (
        "changed `a.txt`. The user accepted 2 of 3 changes. The refused ones were not made; do not make them again "
        "unless the user asks:\n--- a/a.txt\n+++ b/a.txt\n@@ -1,6 +1,6 @@\n ONE\n two\n three\n-four\n+FOUR\n five\n "
        "six"
    )


def test_a_new_or_deleted_file_is_one_change_and_one_that_is_refused_is_left_alone() -> None:
    changes = (file(None, b"new\n", "b.txt"), file(OLD, NEW))
    assert count_selectable_changes(changes) == 4
    assert without(changes, 0).changes == changes[1:]
    assert without(changes, 1, 2, 3).changes == changes[:1]
    deleted = (file(b"gone\n", None, "c.txt"), file(OLD, NEW))
    assert without(deleted, 0, 1).changes == (file(OLD, b"one\ntwo\nthree\nFOUR\nfive\nsix\n"),)


@pytest.mark.parametrize(
    "changes",
    [
        (file(b"a\n", b"b\n"),),
        (file(b"a\nb\n", b"A\r\nb\r\n"), file(OLD, NEW)),
        (file(b"\0", b"\0\0"), file(OLD, NEW)),
        (file(None, b"moved\n", "b.txt"), file(b"moved\n", None), file(OLD, NEW, "c.txt")),
        (file(None, b""), file(OLD, NEW, "c.txt")),
    ],
    ids=["only one", "other line endings", "binary", "moved", "empty"],
)
def test_changes_that_cannot_be_told_apart_are_not_offered(changes: tuple[Change, ...]) -> None:
    assert count_selectable_changes(changes) == 0


def test_nothing_is_done_if_the_plan_is_no_longer_what_the_user_saw() -> None:
    planned = PlannedChanges((file(OLD, NEW),), "done")
    for selection in (ChangeSelection("", frozenset((1,))), ChangeSelection(planned.preview(ROOT), frozenset((3,)))):
        with pytest.raises(ToolError, match="nothing was changed: read it again"):
            select_changes(planned, selection, ROOT)


def test_line_endings_and_encodings_are_kept() -> None:
    old, new = "\ufeffé\r\nb\r\nc".encode("utf-16-le"), "\ufeffÉ\r\nb\r\nC\r\n".encode("utf-16-le")
    assert without((file(old, new),), 0).changes == (file(old, "\ufeffé\r\nb\r\nC\r\n".encode("utf-16-le")),)


lines = st.lists(st.sampled_from(["a", "b", "", "c\t"]), max_size=9).map(lambda texts: "\n".join(texts).encode())


@given(lines, lines, st.data())
def test_each_change_is_made_or_not_on_its_own(old: bytes, new: bytes, data: st.DataObject) -> None:
    count = count_selectable_changes((file(old, new),))
    if not count:
        return
    refused = data.draw(st.sets(st.integers(0, count - 1), max_size=count - 1))
    (change,) = without((file(old, new),), *refused).changes if refused else (file(old, new),)
    assert count_selectable_changes((change,)) in (0, count - len(refused))
    rest = file(change.new_content, new)
    assert count_selectable_changes((rest,)) in (0, len(refused))
