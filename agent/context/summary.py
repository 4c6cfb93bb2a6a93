"""The summary of what left the view: prompting for it, parsing it, checking it against the facts, and showing it.
Pure."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from ebbtide.agent.context.estimate import estimate_text
from ebbtide.agent.messages import (
    Assistant,
    CarriedPart,
    Image,
    Message,
    StopReason,
    Summary,
    Text,
    ToolCall,
    User,
    UserPart,
)
from ebbtide.tools.lazy import dataclass, regex

FRAME = (
    "The earlier part of this session was compacted: what follows stands for it. The work that it calls done is done "
    "and is not to be done again; what it calls open is yours to finish. Go on from here with your tools, as before. "
    "Read a file again before you rely on its exact text. "
    "`recall` brings back all of what a reference such as [r12] or msg-1a2b3c4d names."
)
RETAIN, SUMMARY = "## Kept word for word", "## Summary of the work so far"
LEDGER, REQUEST = "## Facts on record", "## The request you are working on, unchanged"
PINNED_HEADING = "## Pinned by the user, unchanged"
CARRIED_HEADING = "## Files as you last read them"
NAMES = "## Outputs that are no longer shown, with names in them"

NO_ROOM = "There was no room for more than this line."
"""Text of the summary if not even the shortest one fits."""
REQUIRED_FACTS_HEADING = "Not to be forgotten:"
MORE = "- and {} more, which `recall` finds"

_TAGS = regex(r"</?(?:retain|summary)>", re.IGNORECASE)


def summary_messages(summary: Summary) -> tuple[User, ...]:
    """Return the messages that open a compacted view; none if nothing was compacted."""
    if not summary:
        return ()
    parts = [FRAME]
    for heading, text in ((RETAIN, summary.retain), (SUMMARY, summary.summary), (LEDGER, summary.ledger)):
        if text:
            parts.append(f"{heading}\n{text}")
    shown: tuple[UserPart, ...] = (
        *(Text(part) for part in parts),
        *_headed_parts(PINNED_HEADING, summary.kept),
        *_headed_parts(CARRIED_HEADING, summary.carried),
    )
    if summary.names:
        shown = (*shown, Text(f"{NAMES}\n{summary.names}"))
    if summary.request.parts:
        shown = (*shown, Text(REQUEST), *summary.request.parts)
    return (User(shown),)


def non_empty_summary(summary: Summary, left: int) -> Summary:
    """Return a non-empty summary if `left` messages have left the view. Without it the view would open with a reply,
    which providers reject."""
    return summary if summary or not left else replace(summary, summary=NO_ROOM)


def _headed_parts(heading: str, kept: Sequence[CarriedPart]) -> tuple[Text | Image, ...]:
    """Return the parts that stay, each under a title, for the message that opens a compacted view."""
    if not kept:
        return ()
    return (Text(heading), *(part for one in kept for part in (Text(f"### {one.title}"), *one.parts)))


@dataclass(frozen=True, slots=True)
class Wishes:
    """The user's wishes for every summary."""

    summary_prompt: str = ""
    """Replaces the default list of what the summary should contain."""
    summary_directives: tuple[str, ...] = ()
    retain_prompt: str = ""
    retain_directives: tuple[str, ...] = ()


OUTPUT_REFS_PROMPT = (
    "Outputs above by their references; where one will be needed again, write its reference beside what it told:"
)

USUAL_SUMMARY = """\
- the user's goals, and every constraint they stated, in their own words
- what is done, and what is still open, with the very next step
- files read and changed, with what matters about each
- decisions taken and why; what was tried and failed, so that it is not tried again
- commands that matter, their last result, and anything still running in the background"""
USUAL_RETAIN = """\
- what must survive letter by letter: names, paths, commands, error texts, numbers, references such as [recall:r12]"""


def instruction(
    wishes: Wishes,
    focus: str | None = None,
    *,
    retain_tokens: int = 1200,
    summary_tokens: int = 1800,
    outputs: Sequence[str] = (),
) -> str:
    """Return the prompt for a summary of everything above it. `outputs`: lines with the references of outputs above
    that have none."""
    retain = "\n".join([wishes.retain_prompt or USUAL_RETAIN, *(f"- {wish}" for wish in wishes.retain_directives)])
    summary = "\n".join([wishes.summary_prompt or USUAL_SUMMARY, *(f"- {wish}" for wish in wishes.summary_directives)])
    wish = f"\n\nPay most attention to this: {focus}" if focus else ""
    wish += f"\n\n{OUTPUT_REFS_PROMPT}\n" + "\n".join(outputs) if outputs else ""
    return f"""\
The context window is nearly full. Write down what is needed to go on without the messages above; they will no longer \
be visible. Do not go on with the work now, do not answer what was asked, and call no tool. Answer with one `<retain>` \
element of at most {retain_tokens * 3 // 4} words and one `<summary>` element of at most {summary_tokens * 3 // 4} \
words, and nothing else:

<retain>
{retain}
</retain>
<summary>
{summary}
</summary>{wish}"""


def without_open_calls(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages so that a model can be asked about them: a final reply with unanswered calls is reduced to
    its text, or dropped if it has none."""
    last = messages[-1] if messages else User(())
    if not isinstance(last, Assistant) or not last.calls:
        return tuple(messages)
    said = tuple(part for part in last.parts if isinstance(part, Text) and part.text)
    return (*messages[:-1], replace(last, parts=said)) if said else tuple(messages[:-1])


@dataclass(frozen=True, slots=True)
class Draft:
    """A summary written by a model."""

    retain: str
    summary: str


@dataclass(frozen=True, slots=True)
class RefusedSummary:
    """Why a model's reply is not a summary."""

    why: str


SummaryReading: TypeAlias = Draft | RefusedSummary

# A string: `re` compiles it when the first summary is read, which never happens in most runs.
_NOTHING = (
    r"(?is)^\W*(?:\(?\s*)?(?:n/?a|none|nothing|empty|null|todo|tbd|\.{3}|…"
    r"|(?:there (?:is|was) )?no (?:\w+ ){0,3}"
    r"(?:summary|content|conversation|history|messages?|information|context)\b.{0,60}"
    r"|(?:i(?:'m| am) )?(?:sorry|unable|afraid)\b.{0,120}"
    r"|i (?:cannot|can't|can not|could not|couldn't)\b.{0,120}"
    r"|(?:summary|content) (?:is )?(?:not available|unavailable|omitted|goes here)\b.{0,40}"
    r"|(?:your|the) (?:summary|retained facts?) (?:goes |go )?here.{0,40})\W*$"
)


def read_reply(text: str, calls: Sequence[ToolCall], stop: StopReason) -> SummaryReading:
    """Return the summary in a reply, or why there is none."""
    if calls:
        return RefusedSummary("it calls a tool instead")
    if stop in ("max_tokens", "overflow", "refusal", "interrupted", "repetition"):
        return RefusedSummary("it was cut off" if stop != "refusal" else "the model declined")
    if not text.strip():
        return RefusedSummary("it is empty")
    summary, retain = _element("summary", text), _element("retain", text)
    if summary is None:
        is_open = "<summary>" in text.lower()
        return RefusedSummary("it was cut off" if is_open else "it lacks the `<summary>` element")
    if not summary or re.match(_NOTHING, summary):
        return RefusedSummary("it says nothing")
    return Draft("" if retain is None or re.match(_NOTHING, retain) else retain, summary)


def _element(name: str, text: str) -> str | None:
    """Return the content of the last complete element of that name, without tags; None if there is none."""
    begins: list[int] = []
    whole: tuple[int, int] | None = None
    for tag in re.finditer(f"</?{name}>", text, re.IGNORECASE):
        if not tag[0].startswith("</"):
            begins.append(tag.end())
        elif begins:
            start = begins.pop()
            whole = (start, tag.start())
    return None if whole is None else without_tags(text[slice(*whole)]).strip()


def without_tags(text: str) -> str:
    """Return the text without the tags that replies use; a view never contains them."""
    while (cleaned := _TAGS.sub("", text)) != text:
        text = cleaned
    return text


def with_facts(text: str, facts: Sequence[str], tokens: int | None = None) -> str:
    """Return the text with omitted facts appended: all of them, or as many as fit into `tokens`."""
    if not facts:
        return text
    shown = "\n".join(facts) if tokens is None else truncate_lines("\n".join(facts), tokens)
    left = len(facts) - len(shown.splitlines())
    return "\n".join((text, "", REQUIRED_FACTS_HEADING, shown, *([MORE.format(left)] if left > 0 else ())))


def truncate_lines(text: str, tokens: int) -> str:
    """Return the leading whole lines that fit into `tokens`; a first line that does not fit is cut."""
    if estimate_text(text) <= tokens:
        return text
    kept: list[str] = []
    room = tokens
    for line in text.splitlines():
        room -= estimate_text(line + "\n")
        if room < 0:
            break
        kept.append(line)
    return "\n".join(kept) if kept else text[: tokens * 2 // 3]


def as_text(draft: Draft) -> str:
    """Return both parts of a summary as one editable text."""
    return "\n".join((RETAIN, draft.retain, "", SUMMARY, draft.summary))


def read_edited(text: str) -> Draft | None:
    """Parse an edited summary. Without headings all of it is the account of the work. None if it is empty."""
    lines = without_tags(text).splitlines()
    split = next((at for at, line in enumerate(lines) if line.strip() == SUMMARY), None)
    parts = ([], lines) if split is None else (lines[:split], lines[split + 1 :])
    retain, summary = ("\n".join(line for line in part if line.strip() != RETAIN).strip() for part in parts)
    return Draft(retain, summary) if retain or summary else None
