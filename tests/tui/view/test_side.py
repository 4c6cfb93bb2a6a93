"""What stands beside the conversation: told by what calls have done, and cut to its width."""

from ebbtide.tui.view.blocks import Block, Call, SessionView, UserText
from ebbtide.tui.view.side_panel import (
    CallEffects,
    FileLineCounts,
    ServerEntry,
    build_side_panel_state,
    collect_call_effects,
    file_at_line,
    merge_effects,
    side_panel_lines,
)
from tests.kit.plain_lines import plain


def edit(call_id: str, name: str, old: str, new: str) -> Call:
    return Call(call_id, "edit", {"path": name, "old": old, "new": new}, "done", changed_files=(name,))


LIST = Call("9", "todo", {"items": [{"text": "read", "status": "done"}, {"text": "mend", "status": "doing"}]}, "done")
BEFORE: tuple[Block, ...] = (UserText("go"), edit("1", "src/a.py", "x = 1", "x = 2\ny = 3"), LIST)
NOW: tuple[Block, ...] = (
    edit("2", "src/a.py", "y = 3", "y = 4"),
    Call("3", "bash", {}, "done", changed_files=("b", "c")),
)


def test_calls_leave_files_with_what_each_of_them_did_and_the_last_list() -> None:
    done = merge_effects(collect_call_effects(BEFORE), collect_call_effects(NOW))
    assert done.files == (FileLineCounts("src/a.py", 3, 2), FileLineCounts("b"), FileLineCounts("c"))
    assert done.todos is not None
    assert [item.status for item in done.todos] == ["done", "doing"]
    assert merge_effects(collect_call_effects(BEFORE), CallEffects(())).todos == ()


def test_each_thing_that_there_is_has_a_head_and_no_line_is_too_wide() -> None:
    done = merge_effects(collect_call_effects(BEFORE), collect_call_effects(NOW))
    view = SessionView(used_tokens=24_100, available_tokens=180_000)
    side = build_side_panel_state(view, done, (ServerEntry("forge", "ready", 12), ServerEntry("chat", "failed", 0)), 2)
    lines = side_panel_lines(side, 30)
    assert [plain(line).rstrip() for line in lines] == [
        "Context",
        "━───────── 13%  24.1k of 180k",
        "",
        "To do  1 of 2 done",
        "☑ read",
        "■ mend",
        "",
        "Files  +3 −2",
        "c",
        "b",
        "src/a.py                 +3 −2",
        "",
        "MCP servers",
        "● forge               12 tools",
        "✗ chat                  failed",
        "",
        "Queued  2 messages",
    ]
    found = [(at, name) for at in range(len(lines)) if (name := file_at_line(side, lines, at)) is not None]
    assert found == [(7, ""), (8, "c"), (9, "b"), (10, "src/a.py")]
    assert [
        plain(line) for line in side_panel_lines(build_side_panel_state(SessionView(), CallEffects(), (), 0), 30)
    ] == [
        "Context",
        "not measured yet",
    ]


def test_of_a_long_name_the_end_is_kept() -> None:
    done = CallEffects((), (FileLineCounts("a/very/long/way/to/some/file.py", 1, 0),))
    assert (
        plain(side_panel_lines(build_side_panel_state(SessionView(), done, (), 0), 26)[-1])
        == "…/to/some/file.py    +1 −0"
    )
