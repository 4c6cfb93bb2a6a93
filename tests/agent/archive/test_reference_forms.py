"""Every form of a reference, as `read_result` and `recall` take it in a session with real searches."""

import base64
from typing import Any

import pytest

from ebbtide.agent.messages import Assistant, Image, Text, ToolCall, ToolOutput, User
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.view.references import message_digits
from tests.kit.session import ID, OTHER, PROJECT, Home, bash, call, calls, first_turn, outputs_of

ASKED = User((Text("fix the parser\nand its tests"),))
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
FOUND = ToolOutput("g", "a.py\n3:one\n9:two\nb.py\n1:three")
SHOWN = ToolOutput("p", "two pictures", images=(Image("image/png", PNG), Image("image/png", PNG)))
REPLY = Assistant((ToolCall("g", "grep", {"pattern": "x"}), ToolCall("p", "bash", {})), "m")
RESULTS = User((FOUND, SHOWN))
MESSAGE, RESULT_MESSAGE = f"msg-{message_digits(ASKED)}", f"msg-{message_digits(RESULTS)}"


async def looked_up(home: Home, ref: str, *extra: dict[str, Any]) -> list[ToolOutput]:
    """What both tools answer to a reference, in a session that ASKED, FOUND and SHOWN belong to."""
    await home.said(ASKED, REPLY, RESULTS)
    looks = calls(*extra, call("read_result", ref_id=ref), call("recall", ref_id=ref))
    session, _ = await first_turn(home.session(ScriptedProvider.from_replies(looks, {"text": "done"}), resume=True))
    return outputs_of(session)[2:]


@pytest.mark.parametrize(
    "scheme",
    [
        "", "ebb://_/current/", "nexora://_/current/", f"ebb://_/{ID[:8]}/", f"ebb://app/{ID}/",
        f"nexora://app/{ID[:8]}/", f"app/{ID[:8]}/", f"{ID[:8]}/", "current/",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("object", "shown"),
    [
        ("r1", "a.py\n3:one\n9:two\nb.py\n1:three"),
        ("r1:L2-3", "3:one\n9:two"),
        ("r1:B5-10", "3:one"),
        ("r1:match-3", "1:three"),
        (MESSAGE, "fix the parser\nand its tests"),
        (MESSAGE[:9], "fix the parser\nand its tests"),
        (f"{MESSAGE}:L2-100", "and its tests"),
        (f"{MESSAGE}:B0-3", "fix"),
        (f"{RESULT_MESSAGE}:match-3", "1:three"),
        (f"{RESULT_MESSAGE}:tool-1", "a.py\n3:one\n9:two\nb.py\n1:three"),
        (f"msg-{message_digits(REPLY)}:tool-1", 'grep({"pattern": "x"})'),
    ],
)  # fmt: skip
async def test_both_tools_take_every_form(home: Home, scheme: str, object: str, shown: str) -> None:
    for output in await looked_up(home, scheme + object):
        assert output.status == "done"
        lines = [line.partition("\t")[2] or line for line in output.text.splitlines()]
        assert lines[: len(shown.splitlines())] == shown.splitlines()
        assert lines[len(shown.splitlines())].startswith(("(", "["))


async def test_a_picture_of_an_output_is_shown(home: Home) -> None:
    for output in await looked_up(home, "r2:tool-2"):
        assert (output.status, len(output.images)) == ("done", 1)


async def test_the_matches_of_each_way_of_searching_can_be_named(home: Home) -> None:
    for name in "ab":
        (home.root / f"{name}.txt").write_text(f"first {name}\nword\nword {name}\n")
    searches = (
        call("grep", pattern="word", path="."),
        call("grep", pattern="word", mode="count"),
        call("glob", pattern="*.txt"),
        bash("grep -rn word *.txt"),
        call("grep", pattern="nothing"),
    )
    wanted = [call("read_result", ref_id=f"r{number}:match-2") for number in range(1, 6)]
    model = ScriptedProvider.from_replies(calls(*searches), calls(*wanted), {"text": "done"})
    session, _ = await first_turn(home.session(model))
    texts = [output.text for output in outputs_of(session)]
    for search, answer in zip(texts[:4], texts[5:9], strict=True):
        second = [line for line in search.splitlines() if not line.endswith(".txt") or search == texts[2]][1]
        assert answer.splitlines()[0].partition("\t")[2] == second
    assert texts[9].endswith("the search output has fewer matches; leave the last part out")


@pytest.mark.parametrize(
    ("ref", "problem"),
    [
        ("ebb://app/aa11/r1", f"is ambiguous: `ebb://app/{ID}/r1`, `ebb://app/{OTHER}/r1`; use a longer form"),
        ("aa11/r1", "is ambiguous: `ebb://app/"),
        ("nexora://app/aa11/msg-1", "is ambiguous: `ebb://app/"),
        ("match-3", "is only a part of something: write `r12:match-3`"),
        ("r1:match-4", "the search output has fewer matches"),
        ("r1:tool-1", "has 0 images and files"),
        ("dead/r1", "there is no session `dead`"),
    ],
)
async def test_a_form_that_leads_nowhere_is_answered_with_why(home: Home, ref: str, problem: str) -> None:
    await home.said(User((Text("other"),)), session=OTHER, project=PROJECT)
    for output in await looked_up(home, ref):
        assert output.status == "failed"
        assert problem in output.text
