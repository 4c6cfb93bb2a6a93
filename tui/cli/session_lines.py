"""Formats a stored session for `ebb sessions`: as one line, or as JSON fields."""

import time

from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.view.sessions import tags_text


def session_line(info: SessionInfo) -> str:
    time_text = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.updated_at))
    title = f"└ {info.agent}  {info.title}" if info.agent else info.title
    title += f"  {tags_text(info.tags)}" if info.tags else ""
    return sanitise_line(f"{info.id}  {time_text}  {info.messages:>4}  {info.model}  {title}")


def json_fields(info: SessionInfo) -> dict[str, object]:
    """Build the JSON fields of a session, including its sub-agent sessions, if any."""
    agents = [_fields(agent, "id", "agent", "title", "model", "updated_at", "messages") for agent in info.agents]
    fields = _fields(info, "id", "title", "model", "updated_at", "messages", "project", "tags")
    return {**fields, **({"agents": agents} if agents else {})}


def _fields(info: SessionInfo, *names: str) -> dict[str, object]:
    return {name: getattr(info, name) for name in names}
