"""What is read from the calls of a conversation: the model's list and its wish for room."""

from ebbtide.agent.control_calls import (
    NOT_RUN_STEP_LIMIT,
    CompactionRequest,
    TodoItem,
    compaction_request,
    format_open_items,
    last_todos,
    skipped_call_outputs,
    submitted_report,
    todo_state,
)
from ebbtide.agent.messages import Assistant, Message, Note, OutputStatus, Text, ToolCall, ToolOutput, User


def called(name: str, status: OutputStatus = "done", **arguments: object) -> tuple[Message, Message]:
    return Assistant((ToolCall("c", name, arguments),)), User((ToolOutput("c", "x", status),))


def todo(text: str, status: OutputStatus = "done") -> tuple[Message, Message]:
    return called("todo", status, items=[{"text": text, "status": "doing"}])


def test_the_last_list_that_was_kept_counts() -> None:
    assert last_todos((*todo("a"), *todo("b"), *todo("c", "failed"))) == (TodoItem("b", "doing"),)


def test_no_list_is_not_an_empty_list() -> None:
    assert last_todos((User((Text("hi"),)), *called("read"))) is None
    assert last_todos(called("todo", items=[])) == ()


def test_a_call_without_output_keeps_no_list() -> None:
    assert last_todos(todo("a")[:1]) is None


def test_a_list_that_is_none_has_no_items() -> None:
    assert last_todos(called("todo", items="nonsense")) == ()
    assert last_todos(called("todo", items=[1, {"text": 2}])) == (TodoItem("2", "pending"),)


def test_a_wish_is_what_the_last_step_asked() -> None:
    assert compaction_request(called("compact_context")) == CompactionRequest(None)
    assert compaction_request(called("compact_context", focus="the parser")) == CompactionRequest("the parser")
    assert compaction_request(called("compact_context", focus=" ")) == CompactionRequest(None)


def test_a_wish_that_was_refused_or_answered_is_none() -> None:
    asked = called("compact_context")
    assert compaction_request(called("compact_context", "denied")) is None
    assert compaction_request((*asked, User((Note("done"),)))) is None
    assert compaction_request((*asked, User((Text("go on"),)))) is None
    assert compaction_request((*asked, *called("read"))) is None
    assert compaction_request(()) is None


def test_notes_stay_until_a_call_brings_others() -> None:
    noted = called("todo", items=[], notes="port 80\n")
    assert todo_state((*noted, *todo("a"), *called("todo", "failed", items=[], notes="no"))).notes == "port 80"
    assert todo_state((*noted, *called("todo", items=[], notes=""))).notes == ""
    assert todo_state(todo("a")).notes is None


def test_only_what_is_open_is_told() -> None:
    items = (TodoItem("look", "done"), TodoItem("fix", "doing"), TodoItem("test", "pending"))
    assert format_open_items(items) == "- [doing] fix\n- [pending] test"


def test_only_a_valid_late_report_is_accepted() -> None:
    valid = ToolCall("a", "final_report", {"report": "done"})
    broken = ToolCall("b", "final_report", {"report": "done"}, problem="not JSON")
    empty = ToolCall("c", "final_report", {})
    reply = Assistant((broken, empty, valid))
    outputs = skipped_call_outputs(reply, NOT_RUN_STEP_LIMIT, plan_ends_turn=False)
    assert [(output.text, output.status) for output in outputs] == [
        (NOT_RUN_STEP_LIMIT, "interrupted"),
        (NOT_RUN_STEP_LIMIT, "interrupted"),
        ("report accepted", "done"),
    ]
    assert submitted_report(reply, outputs, plan_ends_turn=False) == "done"
    assert submitted_report(Assistant((broken, empty)), (), plan_ends_turn=False) is None
