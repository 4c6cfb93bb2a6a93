"""`tool_output_mode`: what is shown of a long output in each mode, in sessions with a real archive."""

from typing import Any

import pytest

from ebbtide.agent.calls.output_reader import LAST_LOOKUP_NOTE, MAX_FINDINGS_CHARS, MAX_LOOKUPS, MAX_PARTS
from ebbtide.agent.events.session import Event, Noticed, ReplyFinished, TurnFinished
from ebbtide.agent.messages import ToolOutput, User
from ebbtide.agent.providers.base import Request
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.view.previews import OffloadLimits, OffloadMode
from ebbtide.tools.read_result import ReadResult
from tests.kit.session import Home, bash, call, calls, first_turn, outputs_of

READ_ALL = 'Use the "read_result" tool with ref_id="r1" to read specific portions.'
LOOKS = "Look up what bears on the purpose"


async def shown(
    home: Home, mode: OffloadMode, command: str, *replies: dict[str, Any], window: int = 160_000
) -> tuple[str, list[Event], ScriptedProvider]:
    """What the model sees of a command's output, all that happened, and the model with its requests."""
    first = {"text": "I look for errors.", **calls(bash(command))}
    model = ScriptedProvider.from_replies(first, *replies, {"text": "done"}, context_window=window)
    session, events = await first_turn(home.session(model, offloading=OffloadLimits(mode=mode)), "what is wrong?")
    assert events[-1] == TurnFinished("answered", "done")
    (output,) = outputs_of(session)
    return output.text, events, model


def part(number: int, text: str) -> dict[str, Any]:
    return {"when": f"Part {number} of the output", "text": text}


def purposes(events: list[Event]) -> list[str]:
    return [event.purpose for event in events if isinstance(event, ReplyFinished)]


def said_to(request: Request) -> str:
    (message,) = request.messages
    assert isinstance(message, User)
    return message.text


@pytest.mark.parametrize(
    ("mode", "first_line", "last_line"),
    [
        ("auto", '[Tool result stored — 23,893 bytes, 5,000 lines from "bash".', READ_ALL),
        ("truncate", "1", '[23,893 bytes, 5,000 lines, cut; `read_result` with ref_id="r1" shows all of it]'),
    ],
)
async def test_without_a_model_the_ends_are_shown(
    home: Home, mode: OffloadMode, first_line: str, last_line: str
) -> None:
    text, events, _ = await shown(home, mode, "seq 5000")
    assert text.splitlines()[0] == first_line
    assert text.splitlines()[-2:] == [last_line, "exit code 0"]
    assert "4999\n5000" in text
    assert (len(text) > 3_800) == (mode == "truncate")
    assert purposes(events) == ["step", "step"]


@pytest.mark.parametrize("mode", ["full-chunked", "read-grep"])
async def test_what_is_not_long_is_shown_whole_in_every_mode(home: Home, mode: OffloadMode) -> None:
    text, events, _ = await shown(home, mode, "seq 900")
    assert text.splitlines() == [*map(str, range(1, 901)), "exit code 0"]
    assert purposes(events) == ["step", "step"]


async def test_each_part_is_read_by_the_model_and_what_it_found_in_each_is_shown(home: Home) -> None:
    text, events, model = await shown(
        home,
        "full-chunked",
        "seq 50000; echo 'error: the disk'",
        part(1, "a warning about the fan in line 7"),
        part(2, "line 50001: error: the disk"),
    )
    assert purposes(events) == ["step", "reading", "reading", "step"]
    _, first, second, _ = model.requests
    assert said_to(first).startswith("Purpose:\nwhat is wrong?\n\nI look for errors.\n\nCall: bash(")
    assert "Part 1 of the output, lines 1-" in said_to(first)
    assert "Found in the parts before:\nLines 1-" in said_to(second)
    assert "-50001:\n" in said_to(second)
    heading, found_first, found_second, *rest = text.splitlines()[1:]
    assert heading == "Read by a model for this call:"
    lines, _, found = found_first.partition(": ")
    assert found == "a warning about the fan in line 7"
    assert f"Part 1 of the output, {lines.replace(',', '').lower()}:" in said_to(first)
    assert found_second.endswith("-50,001: line 50001: error: the disk]")
    assert rest == [READ_ALL, "exit code 0"]


async def test_eight_parts_have_eight_findings(home: Home) -> None:
    found = [part(number, f"fact {number}") for number in range(1, 11)]
    text, events, model = await shown(home, "full-chunked", "seq 16000", *found, window=14_000)
    count = purposes(events).count("reading")
    assert count >= 8
    assert [line.rpartition(": ")[2].rstrip("]") for line in text.splitlines() if "fact" in line] == [
        f"fact {number}" for number in range(1, count + 1)
    ]
    read = [line for request in model.requests[1:-1] for line in said_to(request).splitlines() if line.isdecimal()]
    assert read == [str(number) for number in range(1, 16_001)], "no line is left out or read twice"


async def test_long_findings_are_put_together_by_the_model(home: Home) -> None:
    long = "words that were found " * (MAX_FINDINGS_CHARS // 22)
    merged = {"when": "Put what was found", "text": "only the disk is full"}
    text, events, _ = await shown(home, "full-chunked", "seq 50000", part(1, long), part(2, "the disk"), merged)
    assert purposes(events) == ["step", "reading", "reading", "reading", "step"]
    assert text.splitlines()[1:3] == ["Read by a model for this call:", "only the disk is full]"]


async def test_an_output_of_too_many_parts_says_up_to_where_it_was_read(home: Home) -> None:
    found = [part(number, f"fact {number}") for number in range(1, MAX_PARTS + 1)]
    text, events, model = await shown(home, "full-chunked", "seq 90000", *found, window=14_000)
    assert purposes(events).count("reading") == MAX_PARTS
    last = int(said_to(model.requests[MAX_PARTS]).partition(", lines ")[2].partition(":")[0].partition("-")[2])
    assert f"[only the first {MAX_PARTS} parts were read, up to line {last:,}]" in text


async def test_what_was_found_before_a_failure_is_shown(home: Home) -> None:
    failed = {"when": "Part 2 of the output", "error": "bad_request"}
    text, _, _ = await shown(home, "full-chunked", "seq 50000", part(1, "the disk"), failed)
    assert ": the disk\n[from line " in text
    assert " on, nothing was read: " in text


@pytest.mark.parametrize("mode", ["full-chunked", "read-grep"])
async def test_where_no_model_answers_an_output_is_truncated(home: Home, mode: OffloadMode) -> None:
    refused = [{"when": word, "error": "bad_request"} for word in ("Part 1", LOOKS)]
    text, events, _ = await shown(home, mode, "seq 5000", *refused)
    assert any("no model could read the output of `bash`" in e.text for e in events if isinstance(e, Noticed))
    assert text.splitlines()[:2] == ["1", "2"]
    assert text.endswith('5,000 lines, cut; `read_result` with ref_id="r1" shows all of it]\nexit code 0')


async def test_a_model_searches_and_reads_what_it_needs_of_a_stored_output(home: Home) -> None:
    searches = calls(
        call("read_result", ref_id="r1", pattern="error"), call("read_result", ref_id="r1", lines="5-x"), call("bash")
    )
    reads = calls(call("read_result", ref_id="r1", lines="2999-3001"))
    text, events, model = await shown(
        home,
        "read-grep",
        "seq 3000; echo 'error: the disk'; seq 3000",
        {"when": LOOKS, **searches},
        reads,
        {"text": "line 3001: error: the disk"},
    )
    assert purposes(events) == ["step", "reading", "reading", "reading", "step"]
    _, first, second, third, _ = model.requests
    assert [tool.name for tool in first.tools] == [ReadResult.name]
    assert first.tools == second.tools == third.tools
    assert "The output is `r1`, 27,802 bytes in 6,001 lines. An excerpt:\n1\n2\n" in said_to(first)
    outputs = [
        part for request in (second, third) for part in request.messages[-1].parts if isinstance(part, ToolOutput)
    ]
    assert [(output.status, output.text) for output in outputs] == [
        ("done", "3001:error: the disk"),
        ("failed", '`lines` must be written as "10-50", counted from 1'),
        ("failed", "there is only `read_result`"),
        ("done", "2999\t2999\n3000\t3000\n3001\terror: the disk\n(lines 2999-3001 of 6,001)"),
    ]
    assert text == (
        '[Tool result stored — 27,802 bytes, 6,001 lines from "bash".\n'
        f"Looked up by a model for this call:\nline 3001: error: the disk]\n{READ_ALL}\nexit code 0"
    )


async def test_a_model_that_only_looks_up_is_told_to_answer_and_then_left(home: Home) -> None:
    looks = calls(call("read_result", ref_id="r1", lines="1-2000"))
    text, events, model = await shown(
        home, "read-grep", "seq 9000", {"when": LOOKS, **looks}, *[looks] * (MAX_LOOKUPS - 1), window=14_000
    )
    requests = model.requests[1:-1]
    assert purposes(events).count("reading") == len(requests) == MAX_LOOKUPS
    assert [LAST_LOOKUP_NOTE in str(request.messages[-1]) for request in requests] == [
        *[False] * (MAX_LOOKUPS - 1), True,
    ]  # fmt: skip
    assert any(f"still looking after {MAX_LOOKUPS}" in event.text for event in events if isinstance(event, Noticed))
    assert text.startswith("1\n2\n")
