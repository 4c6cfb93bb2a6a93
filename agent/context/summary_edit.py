"""Summaries that a person has edited. Pure."""

from dataclasses import replace

from agent.context.estimate import estimate_text
from agent.context.settings import Caps
from agent.context.summary import RETAIN, SUMMARY, Draft, without_tags


def spacious(caps: Caps, draft: Draft) -> Caps:
    """The caps with room for all of a summary: what a person has written is not cut."""
    retain, summary = estimate_text(draft.retain), estimate_text(draft.summary)
    return replace(caps, retain=max(caps.retain, retain), summary=max(caps.summary, summary))


def as_text(draft: Draft) -> str:
    """Both parts of a summary as one text that can be edited."""
    return "\n".join((RETAIN, draft.retain, "", SUMMARY, draft.summary))


def read_edited(text: str) -> Draft | None:
    """The summary in a text that was edited; without its headings all of it is the account of the work. None when
    nothing is left of it."""
    lines = without_tags(text).splitlines()
    split = next((at for at, line in enumerate(lines) if line.strip() == SUMMARY), None)
    parts = ([], lines) if split is None else (lines[:split], lines[split + 1 :])
    retain, summary = ("\n".join(line for line in part if line.strip() != RETAIN).strip() for part in parts)
    return Draft(retain, summary) if retain or summary else None
