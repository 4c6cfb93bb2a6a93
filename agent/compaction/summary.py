"""Summaries of removed messages: building the prompt, parsing the reply, and adding facts that it omits. No I/O."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from ebbtide.agent.eviction.settings import SummaryPreferences
from ebbtide.agent.messages import (
    Assistant,
    Message,
    StopReason,
    Text,
    ToolCall,
    User,
)
from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.agent.view.visible import RETAIN_HEADING, SUMMARY_HEADING
from ebbtide.tools.lazy import dataclass, regex

REQUIRED_FACTS_HEADING = "Not to be forgotten:"
MORE_FACTS_LINE = "- and {} more, which `recall` finds"

_TAGS = regex(r"</?(?:retain|summary)>", re.IGNORECASE)


OUTPUT_REFS_PROMPT = (
    "Outputs above by their references; where one will be needed again, write its reference beside what it told:"
)

DEFAULT_SUMMARY_PROMPT = """\
- the user's goals, and every constraint they stated, in their own words
- what is done, and what is still open, with the very next step
- files read and changed, with what matters about each
- decisions taken and why; what was tried and failed, so that it is not tried again
- commands that matter, their last result, and anything still running in the background"""
DEFAULT_RETAIN_PROMPT = """\
- what must survive letter by letter: names, paths, commands, error texts, numbers, references such as [recall:r12]"""


def build_summary_prompt(
    preferences: SummaryPreferences,
    focus: str | None = None,
    *,
    retain_tokens: int = 1200,
    summary_tokens: int = 1800,
    output_lines: Sequence[str] = (),
) -> str:
    """Build the prompt for a summary of everything above it. `output_lines`: lines that list the references of the
    outputs above, because the outputs do not show their own references."""
    retain = "\n".join(
        [
            preferences.retain_prompt or DEFAULT_RETAIN_PROMPT,
            *(f"- {suffix}" for suffix in preferences.retain_directives),
        ]
    )
    summary = "\n".join(
        [
            preferences.summary_prompt or DEFAULT_SUMMARY_PROMPT,
            *(f"- {suffix}" for suffix in preferences.summary_directives),
        ]
    )
    suffix = f"\n\nPay most attention to this: {focus}" if focus else ""
    suffix += f"\n\n{OUTPUT_REFS_PROMPT}\n" + "\n".join(output_lines) if output_lines else ""
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
</summary>{suffix}"""


def without_unanswered_calls(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Prepare messages so that a question can follow. If the last message is a reply with unanswered calls, it is
    reduced to its text, or dropped if it has none."""
    last = messages[-1] if messages else User(())
    if not isinstance(last, Assistant) or not last.calls:
        return tuple(messages)
    texts = tuple(part for part in last.parts if isinstance(part, Text) and part.text)
    return (*messages[:-1], replace(last, parts=texts)) if texts else tuple(messages[:-1])


@dataclass(frozen=True, slots=True)
class Draft:
    """A summary written by a model."""

    retain: str
    summary: str


@dataclass(frozen=True, slots=True)
class UnusableSummary:
    """The reason why a model's reply is not a summary."""

    reason: str


SummaryResult: TypeAlias = Draft | UnusableSummary

# Kept as a string, so that the pattern is compiled only when a summary is read. Most runs never read a summary.
_EMPTY_SUMMARY = (
    r"(?is)^\W*(?:\(?\s*)?(?:n/?a|none|nothing|empty|null|todo|tbd|\.{3}|…"
    r"|(?:there (?:is|was) )?no (?:\w+ ){0,3}"
    r"(?:summary|content|conversation|history|messages?|information|context)\b.{0,60}"
    r"|(?:i(?:'m| am) )?(?:sorry|unable|afraid)\b.{0,120}"
    r"|i (?:cannot|can't|can not|could not|couldn't)\b.{0,120}"
    r"|(?:summary|content) (?:is )?(?:not available|unavailable|omitted|goes here)\b.{0,40}"
    r"|(?:your|the) (?:summary|retained facts?) (?:goes |go )?here.{0,40})\W*$"
)


def parse_summary(text: str, calls: Sequence[ToolCall], stop_reason: StopReason) -> SummaryResult:
    """Parse the summary in a reply. If there is none, return the reason."""
    if calls:
        return UnusableSummary("it calls a tool instead")
    if stop_reason in ("max_tokens", "overflow", "refusal", "interrupted", "repetition"):
        return UnusableSummary("it was cut off" if stop_reason != "refusal" else "the model declined")
    if not text.strip():
        return UnusableSummary("it is empty")
    summary, retain = _last_element_content("summary", text), _last_element_content("retain", text)
    if summary is None:
        is_open = "<summary>" in text.lower()
        return UnusableSummary("it was cut off" if is_open else "it lacks the `<summary>` element")
    if not summary or re.match(_EMPTY_SUMMARY, summary):
        return UnusableSummary("it says nothing")
    return Draft("" if retain is None or re.match(_EMPTY_SUMMARY, retain) else retain, summary)


def _last_element_content(name: str, text: str) -> str | None:
    """Return the content of the last complete element of that name, without tags; None if there is none."""
    open_starts: list[int] = []
    span: tuple[int, int] | None = None
    for tag in re.finditer(f"</?{name}>", text, re.IGNORECASE):
        if not tag[0].startswith("</"):
            open_starts.append(tag.end())
        elif open_starts:
            start = open_starts.pop()
            span = (start, tag.start())
    return None if span is None else without_tags(text[slice(*span)]).strip()


def without_tags(text: str) -> str:
    """Remove `<retain>` and `<summary>` tags from text, because they must not get into a view."""
    while (cleaned := _TAGS.sub("", text)) != text:
        text = cleaned
    return text


def with_facts(text: str, facts: Sequence[str], max_tokens: int | None = None) -> str:
    """Append facts to the text: all of them if `max_tokens` is None, otherwise as many as fit."""
    if not facts:
        return text
    facts_text = "\n".join(facts) if max_tokens is None else truncate_lines("\n".join(facts), max_tokens)
    omitted_count = len(facts) - len(facts_text.splitlines())
    return "\n".join(
        (
            text,
            "",
            REQUIRED_FACTS_HEADING,
            facts_text,
            *([MORE_FACTS_LINE.format(omitted_count)] if omitted_count > 0 else ()),
        )
    )


def truncate_lines(text: str, max_tokens: int) -> str:
    """Return as many whole lines from the beginning as fit into `max_tokens`. If the first line alone is too long, it
    is cut."""
    if estimate_text(text) <= max_tokens:
        return text
    retained_lines: list[str] = []
    remaining_tokens = max_tokens
    for line in text.splitlines():
        remaining_tokens -= estimate_text(line + "\n")
        if remaining_tokens < 0:
            break
        retained_lines.append(line)
    return "\n".join(retained_lines) if retained_lines else text[: max_tokens * 2 // 3]


def draft_text(draft: Draft) -> str:
    """Join both parts of a summary into one text that the user can edit."""
    return "\n".join((RETAIN_HEADING, draft.retain, "", SUMMARY_HEADING, draft.summary))


def parse_edited_summary(text: str) -> Draft | None:
    """Parse an edited summary. If it has no summary heading, all of it is the summary, and nothing is retained word for
    word. None if the text is empty."""
    lines = without_tags(text).splitlines()
    heading_index = next((index for index, line in enumerate(lines) if line.strip() == SUMMARY_HEADING), None)
    sections = ([], lines) if heading_index is None else (lines[:heading_index], lines[heading_index + 1 :])
    retain, summary = (
        "\n".join(line for line in section if line.strip() != RETAIN_HEADING).strip() for section in sections
    )
    return Draft(retain, summary) if retain or summary else None
