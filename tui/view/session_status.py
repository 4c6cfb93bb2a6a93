"""The state of a session in a dozen rows: cost, contents and changes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ebbtide.agent.messages import Usage
from ebbtide.agent.overview import Overview
from ebbtide.agent.records.usage import RequestUsage
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.numbers import dollars, seconds, tokens
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.panel import Panel, report_panel

_NAMES = 10
_PURPOSES = {"step": "step", "summary": "summary", "keep-alive": "cache kept alive"}


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """Facts about a session beside its context."""

    folder: str
    branch: str
    mode: str
    sandbox: str
    """A `SandboxState`."""
    effort: str
    """The configured reasoning effort; empty if not set."""
    files: tuple[int, int, int]
    """Number of files changed by tools, and lines added and removed."""
    jobs: int
    waiting: int
    """Number of unsent messages."""
    languages: Sequence[tuple[str, str]] = ()
    """The language servers used so far, with their states."""


def status_panel(overview: Overview, facts: SessionFacts) -> Panel:
    """The status panel, with the command for more where there is one."""
    told = tuple(_status_rows(overview, facts))
    head: Line = (("Session  ", "strong"), (sanitised_line(overview.title) or "nothing said yet", "text"))
    said = [f"{name}: {value}" + (f" ({command})" if command else "") for name, value, command in told]
    return report_panel("status", head, [_line(*row) for row in told], said)


def _line(name: str, said: str, command: str) -> Line:
    line: Line = ((f"  {name:<{_NAMES}}", "dim"), (said, "text"))
    return (*line, (f"  {command}", "dim")) if command else line


def _status_rows(overview: Overview, facts: SessionFacts) -> Iterator[tuple[str, str, str]]:
    asked = overview.requests
    usage = sum((one.usage for one in asked), Usage())
    yield "id", overview.session, ""
    effort = f", effort {facts.effort}" if facts.effort else ""
    yield "model", sanitised_line(overview.model) + effort, "/model"
    boxed = (
        f"commands in the sandbox of {facts.sandbox}"
        if facts.sandbox not in ("none", "off")
        else "commands without a sandbox"
    )
    yield "mode", f"{facts.mode}, {boxed}", "/mode"
    yield "folder", sanitised_line(facts.folder) + (f"   {sanitised_line(facts.branch)}" if facts.branch else ""), ""
    share = 100 * overview.used_tokens / max(overview.effective, 1)
    yield "window", f"{tokens(overview.used_tokens)} of {tokens(overview.effective)} ({share:.0f}%)", "/context"
    yield "cost", _cost(asked), ""
    read = f", {100 * usage.cache_read / usage.prompt:.0f}% of it from the cache" if usage.prompt else ""
    yield "tokens", f"{tokens(usage.prompt)} sent{read}, {tokens(usage.output)} written", ""
    if asked:
        took = round(asked[-1].at - asked[0].at)
        yield "requests", _requests(asked) + (f" in {seconds(took)}" if took else ""), ""
    count, added, removed = facts.files
    yield "files", f"{pluralize(count, 'file')} changed  +{added} −{removed}" if count else "none changed", "/files"
    if facts.jobs:
        yield "running", f"{pluralize(facts.jobs, 'command')} in the background", "/tasks"
    if facts.languages:
        yield "languages", ", ".join(sanitised_line(f"{name} {how}") for name, how in facts.languages), ""
    if facts.waiting:
        yield "waiting", f"{pluralize(facts.waiting, 'message')} not sent yet", ""


def _cost(asked: Sequence[RequestUsage]) -> str:
    """The cost of all requests; by model if there were several."""
    models = dict.fromkeys(one.model for one in asked)
    costs = {model: _sum(one.cost for one in asked if one.model == model) for model in models}
    whole = dollars(_sum(costs.values()))
    if None in costs.values():
        unknown = ", ".join(sanitised_line(model) for model, cost in costs.items() if cost is None)
        return f"not known: the price of {unknown} is not"
    if len(costs) < 2:
        return whole
    return f"{whole}: {', '.join(f'{sanitised_line(model)} {dollars(cost)}' for model, cost in costs.items())}"


def _sum(costs: Iterable[float | None]) -> float | None:
    """The sum, or None if one is unknown."""
    whole = 0.0
    for cost in costs:
        if cost is None:
            return None
        whole += cost
    return whole


def _requests(asked: Sequence[RequestUsage]) -> str:
    purposes = Counter(_PURPOSES.get(one.purpose, "other") for one in asked)
    if len(purposes) == 1:
        return pluralize(len(asked), "request")
    return f"{pluralize(len(asked), 'request')} ({', '.join(f'{count} {name}' for name, count in purposes.items())})"
