"""A session as a page, as JSON and as Markdown: everything escaped, nothing fetched, no secret, call beside output."""

import json
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser

import pytest

from ebbtide.agent.integrations.export.readable_export import (
    ReadableFormat,
    readable_session_from_messages,
    render_chunks,
)
from ebbtide.agent.integrations.export.timeline_svg import MAX_COLUMNS, draw_timeline_svg, timeline_columns
from ebbtide.agent.integrations.export.transcript_entries import (
    PositionedMessage,
    Redactor,
    SessionDetails,
    messages_with_outputs,
)
from ebbtide.agent.messages import Assistant, Image, Message, Note, Reasoning, Text, ToolCall, ToolOutput, Usage, User
from ebbtide.agent.records.usage import RequestUsage, Rewrite

NONE: Mapping[str, str] = {}
KEY = "sk-ant-api03-0123456789abcdefghij"
EVIL = "</pre></details><script>alert('x')</script><img src=http://evil.example/p.png onerror=alert(1)>"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
MESSAGES: tuple[Message, ...] = (
    User((Text(f"why? {EVIL} {KEY}"), Note(f"a file {EVIL}", kind="file", name=EVIL))),
    Assistant(
        (
            Reasoning(f"I think {EVIL}", {"signature": "abc"}),
            Text(f"# Look\n\n**it** {EVIL}\n\n![p](http://evil.example/q.png) [j](javascript:alert(1))\n\n"),
            Text(f"```\n{EVIL}\n```"),
            ToolCall("1", "bash", {"command": f"echo {EVIL}"}),
            ToolCall("2", f"mcp{EVIL}", {"password": "hunter22pass", "deep": {"list": [EVIL, KEY]}}),
        ),
        "m/a",
    ),
    User(
        (
            ToolOutput("1", f"\x1b[31mred\x1b[0m \x00\u202e{EVIL}\n{KEY}", "failed"),
            ToolOutput("2", "", "done", (Image("image/png", PIXEL), Image("image/svg+xml", "PHN2Zz4="))),
        )
    ),
    Assistant((Text("Done."),), "m/a"),
)
ABOUT = SessionDetails("4f2a", f"A title {EVIL}", "m/a", f"/p/{EVIL}", 4, None, 1.0, 2.0, ("a", EVIL))
REQUESTS = tuple(RequestUsage("step", "m/a", Usage(10, 100 * n, 20, 5), 0.01, float(n)) for n in range(5))
REWRITES = (Rewrite(f"full {EVIL}", ("mask", EVIL), 500, 100, 0.0, 3.0, 3),)


def written(form: ReadableFormat, environment: Mapping[str, str] = NONE, messages: Sequence[Message] = MESSAGES) -> str:
    return "".join(
        render_chunks(form, readable_session_from_messages(ABOUT, messages, REQUESTS, REWRITES), environment)
    )


class Page(HTMLParser):
    """What a browser makes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.open = dict[str, int](), list[tuple[str, str, str]](), list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in ("meta", "img", "br", "hr", "line", "rect", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("line", "rect", "path"):
            assert self.open.pop() == tag


def test_a_page_runs_nothing_fetches_nothing_and_is_whole() -> None:
    page = Page(written("html"))
    assert page.open == []
    assert {"script", "link", "iframe", "object", "form", "base"} & page.tags.keys() == set()
    assert [value for tag, name, value in page.attributes if name == "src"] == [f"data:image/png;base64,{PIXEL}"]
    assert [one for one in page.attributes if one[1].startswith("on") or "javascript:" in one[2].lower()] == []
    policy = next(value for _, name, value in page.attributes if name == "content" and "default-src" in value)
    assert policy.startswith("default-src 'none'; ")
    assert page.tags["article"] == 3, "a message that only brings outputs is in its calls"
    assert page.tags["details"] == 4
    assert not any(name == "open" for _, name, _ in page.attributes), "what is long is folded"
    assert page.tags["svg"] == 1


def test_a_page_knows_light_and_dark_and_says_what_it_hides() -> None:
    text = written("html")
    assert "color-scheme: light dark" in text
    assert "@media (prefers-color-scheme: dark)" in text
    assert "Recognised keys and passwords were removed." in text
    raw = "".join(render_chunks("html", readable_session_from_messages(ABOUT, MESSAGES, REQUESTS, REWRITES), None))
    assert ("Secrets were not removed." in raw, KEY in raw) == (True, True)


@pytest.mark.parametrize("form", ["html", "json", "md"])
def test_no_form_holds_a_secret(form: ReadableFormat) -> None:
    text = written(form, {"DEPLOY_TOKEN": "correct horse battery", "HOME": "/home/me"}, (
        *MESSAGES, User((Text("it is correct horse battery"),)),
    ))  # fmt: skip
    assert [secret for secret in (KEY, "correct horse battery", "hunter22pass") if secret in text] == []


@pytest.mark.parametrize("form", ["html", "md"])
def test_what_people_read_steers_nothing(form: ReadableFormat) -> None:
    text = written(form)
    if form == "html":
        assert [sign for sign in ("\x1b", "\x00", "\u202e") if sign in text] == []


def test_json_is_one_object_with_a_line_for_each_message() -> None:
    text = written("json")
    whole = json.loads(text)
    assert (whole["format"], whole["version"]) == ("ebbtide-session", 1)
    assert [message["role"] for message in whole["messages"]] == ["user", "assistant", "user", "assistant"]
    reply = whole["messages"][1]
    assert [part["type"] for part in reply["parts"]] == ["reasoning", "text", "text", "call", "call"]
    assert reply["parts"][4]["arguments"] == {"password": "***", "deep": {"list": [EVIL, "***"]}}
    failed, done = whole["messages"][2]["parts"]
    assert (failed["call_id"], failed["status"], done["images"]) == ("1", "failed", ["image/png", "image/svg+xml"])
    assert "signature" not in text
    assert whole["requests"][4] == {
        "at": 4.0, "model": "m/a", "purpose": "step", "input": 10, "cache_read": 400, "cache_write": 20, "output": 5,
        "cost": 0.01,
    }  # fmt: skip
    assert (len(whole["rewrites"]), whole["session"]["cost"], whole["session"]["messages"]) == (1, None, 4)
    assert len([line for line in text.splitlines() if line.startswith('{"position":')]) == 4


def test_half_a_character_is_written_all_the_same() -> None:
    messages = (User((Text("caf\udce9"),)),)
    assert json.loads(written("json", messages=messages))["messages"][0]["parts"][0]["text"] == "caf\udce9"
    written("html", messages=messages).encode()


def test_outputs_stand_with_the_calls_that_they_answer() -> None:
    messages: Sequence[Message] = (
        User((ToolOutput("9", "nobody asked"),)),
        Assistant((ToolCall("1", "bash", {}), ToolCall("2", "bash", {}))),
        User((ToolOutput("1", "one"), ToolOutput("8", "astray"))),
        Assistant((ToolCall("3", "bash", {}),)),
    )
    found = [
        [*one.outputs]
        for one in messages_with_outputs(PositionedMessage(place, message) for place, message in enumerate(messages))
    ]
    assert found == [["9"], ["1"], ["8"], []]


def test_a_picture_of_many_requests_has_few_columns() -> None:
    requests = [RequestUsage("step", "m", Usage(1, 2, 3, 4), None if n == 7 else 0.5, 0.0) for n in range(10_000)]
    columns = timeline_columns(requests, len(requests))
    assert (len(columns) <= MAX_COLUMNS, sum(column.request_count for column in columns)) == (True, 10_000)
    assert (columns[0].cost, columns[1].cost, columns[0].mean_token_counts) == (None, 21.0, (2, 3, 1, 4))
    picture = draw_timeline_svg(columns, [Rewrite("asked", ("mask",), 9, 4, None, 0.0, 5_000)], 1_000)
    assert picture.count("<rect") == 4 * len(columns)
    assert "before request 5,001: asked, 9 to 4 tokens (mask)" in picture
    assert draw_timeline_svg([], (), None) == ""


def test_values_are_hidden_by_the_name_of_their_field() -> None:
    hide = Redactor({})
    assert hide.redact_value({"api_key": "abc123def456", "port": 5, "words": "plain"}) == {
        "api_key": "***", "port": 5, "words": "plain",
    }  # fmt: skip
    assert Redactor(None).redact_value({"api_key": "abc123def456"}) == {"api_key": "abc123def456"}
