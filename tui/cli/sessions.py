"""The subcommands: what each takes and prints, or who knows."""

import asyncio
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from agent.archive.library import Library
from agent.archive.tags import tags_named
from agent.calls.project_rules import ProjectRules
from agent.config.options import OPTIONS
from agent.config.schema import config_schema
from agent.config.values import Config, field_of
from agent.context.budget import Window
from agent.headless.json_output import print_json
from agent.messages import Assistant, Message, User
from agent.overview import Overview
from agent.providers.registry import facts_for
from agent.providers.setup import find_setting, find_window, overrides
from agent.records.message_rows import encode_message
from agent.records.session_lookup import SessionInfo
from tools.secrets.redaction import redacted, without_options, without_password
from tui.cli import doctor, keys, plugin, search, session_tags, transfer, undo
from tui.cli.arguments import first_word, open_sessions, parsed, parser_of, read_settings
from tui.text.sanitise import visible, visible_line
from tui.view.context import overview_lines
from tui.view.sessions import deleted_told, hashed

MOST_LISTED = 100
"""Sessions that are listed, without those of their agents."""


def run(name: str, arguments: Sequence[str]) -> int:
    """Runs a subcommand with the arguments around its name; the exit code."""
    return _COMMANDS[name](arguments)


def _sessions(arguments: Sequence[str]) -> int:
    first = first_word(arguments)
    if first is not None and arguments[first] in _OF_SESSIONS:
        return _OF_SESSIONS[arguments[first]]([*arguments[:first], *arguments[first + 1 :]])
    parser = parser_of("sessions", "The stored sessions.")
    parser.add_argument(
        "action", nargs="?", choices=("list", "show", "fork", "rename", "delete", *_OF_SESSIONS), default="list"
    )
    parser.add_argument("id", nargs="?", help="the beginning of a session's id, for all but list")
    parser.add_argument(
        "ref", nargs="?", help="for show: `r12`, `msg-…` or `sum-1`, to see all of it; for rename: the title"
    )
    parser.add_argument("--all", action="store_true", help="the sessions of all projects")
    tagged = "for list: only sessions with this tag; given twice, with both"
    parser.add_argument("--tag", action="append", default=[], metavar="TAG", help=tagged)
    options = parsed(parser, arguments, "JSON lines")
    if options.action != "list" and not options.id:
        parser.error(f"which session? write `ebb sessions {options.action} ID`")
    if options.ref and options.action == "show":
        return search.show(options)
    if options.action == "rename" and not options.ref:
        parser.error("which title? write `ebb sessions rename ID TITLE`")

    async def work() -> None:
        sessions = open_sessions(options, interactive=False)
        try:
            match options.action:
                case "list":
                    library = await sessions.library()
                    tags = tags_named(options.tag)
                    found = await library.page(everywhere=options.all, limit=MOST_LISTED, tags=tags)
                    _list(found, tags, as_json=options.json)
                case "show":
                    log = await sessions.log(options.id)
                    _show(log.messages, as_json=options.json)
                    if log.told:
                        print(f"ebb: {visible_line(log.told)}", file=sys.stderr)
                case action:
                    print(visible(await _changed(await sessions.library(), action, options.id, options.ref or "")))
        finally:
            await sessions.close()

    asyncio.run(work())
    return 0


async def _changed(library: Library, action: str, id: str, title: str) -> str:
    """Forks, renames or deletes a session; what was done."""
    match action:
        case "fork":
            fork = await library.fork(id)
            return f"forked {fork.id}  {fork.title}; `ebb -r {fork.id}` goes on with it"
        case "rename":
            info = await library.rename(id, title)
            return f"renamed {info.id}  {info.title}"
        case _:
            return deleted_told(await library.delete(id))


def _list(found: Sequence[SessionInfo], tags: Sequence[str], *, as_json: bool) -> None:
    for info in found:
        if as_json:
            agents = [
                _fields(agent, "id", "agent", "title", "model", "updated_at", "messages") for agent in info.agents
            ]
            fields = _fields(info, "id", "title", "model", "updated_at", "messages", "project", "tags")
            print_json(sys.stdout, {**fields, **({"agents": agents} if agents else {})})
            continue
        for one in (info, *info.agents):
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.updated_at))
            title = f"└ {one.agent}  {one.title}" if one.agent else one.title
            title += f"  {hashed(one.tags)}" if one.tags else ""
            print(visible_line(f"{one.id}  {when}  {one.messages:>4}  {one.model}  {title}"))
    if not found and tags and not as_json:
        print(f"no session in this project has {hashed(tags)}; `--all` lists those of other projects")
    elif not found and not as_json:
        print("no sessions in this project yet; `ebb` starts one, `--all` lists those of other projects")


def _fields(info: SessionInfo, *names: str) -> dict[str, object]:
    return {name: getattr(info, name) for name in names}


def _show(messages: Sequence[Message], *, as_json: bool) -> None:
    for position, message in enumerate(messages):
        if as_json:
            row = encode_message(message, position)
            print_json(sys.stdout, {"role": row.role, **json.loads(row.body)})
            continue
        match message:
            case User() as user:
                for output in user.outputs:
                    print(f"  [{output.status}] {visible(output.text)}\n")
                if user.text:
                    print(f"> {visible(user.text)}\n")
            case Assistant() as reply:
                if reply.text:
                    print(f"{visible(reply.text)}\n")
                for call in reply.calls:
                    print(visible(f"  {call.name} {json.dumps(call.arguments, ensure_ascii=False)}"))


def _context(arguments: Sequence[str]) -> int:
    parser = parser_of("context", "What a session's context holds and what it has cost.")
    parser.add_argument("id", nargs="?", default="", help="the beginning of a session's id; the newest without it")
    options = parsed(parser, arguments, "one JSON object")

    async def work() -> Overview:
        sessions = open_sessions(options, interactive=False)
        try:
            return await sessions.overview(options.id)
        finally:
            await sessions.close()

    overview = asyncio.run(work())
    if options.json:
        print_json(sys.stdout, {**asdict(overview), "used": overview.used})
        return 0
    for line in overview_lines(overview, shutil.get_terminal_size().columns):
        print("".join(words for words, _ in line))
    return 0


def _config(arguments: Sequence[str]) -> int:
    parser = parser_of("config", "Every setting, its value and where it comes from.")
    told = "`schema` prints the JSON Schema of the configuration file, for your editor"
    parser.add_argument("action", nargs="?", choices=("show", "schema"), default="show", help=told)
    options = parsed(parser, arguments, "one JSON object")
    if options.action == "schema":
        print(json.dumps(config_schema(), indent=2, ensure_ascii=False))
        return 0
    root, config = read_settings(options)
    rows = {
        option.key: (getattr(config, field_of(option.key)), config.sources[option.key], option.help)
        for option in OPTIONS
    }
    for key in config.sources:
        if key not in rows:
            value = _server_value if key.startswith("mcp.") else _provider_value
            rows[key] = (value(config, key), config.sources[key], "")
    if config.threshold_ratio is not None:
        window = _window(config)
        share = round(window.compact_trigger, 4) if window else None
        rows["agent.compact_trigger"] = (share, *rows["agent.compact_trigger"][1:])
    if options.json:
        print(
            json.dumps(
                {key: {"value": value, "source": source} for key, (value, source, _) in rows.items()}, default=asdict
            )
        )
        return 0
    print(visible_line(f"# {config.folders.config / 'config.toml'}, then {config.project / '.ebb' / 'config.toml'}"))
    for key, (value, source, text) in rows.items():
        print(visible_line(f"{key} = {_toml(value)}    # {source}{'; ' + text if text else ''}"))
    for line in (*config.notices, *_numbers(config), *_kept_rules(root, config)):
        print(visible_line(f"# {line}"))
    return 0


def _kept_rules(root: Path, config: Config) -> list[str]:
    """The rules that the user keeps for the folder, and where they can be removed."""
    rules = ProjectRules(config.folders.config, root.resolve())
    kept = rules.read()
    lines = [f"allowed in this folder: {rule}    # {rules.place}" for rule in kept.allow]
    return [*lines, *([kept.problem] if kept.problem else [])]


def _provider_value(config: Config, key: str) -> object:
    _, name, field = key.split(".", 2)
    if not field.startswith("models."):
        value = getattr(config.provider(name), field)
        return without_password(value) if field == "base_url" else value
    model, _, fact = field.removeprefix("models.").rpartition(".")
    return config.provider(name).models[model][fact]


def _server_value(config: Config, key: str) -> object:
    """What is said of a server, without what may be a secret."""
    name, _, said = key.removeprefix("mcp.servers.").rpartition(".")
    value = config.servers[name][said]
    if said == "client_secret":
        return "…"
    if isinstance(value, Mapping):
        return dict.fromkeys(value, "…")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [redacted(word, {}) for word in without_options([str(word) for word in value])]
    return redacted(without_password(value) if said == "url" else value, {}) if isinstance(value, str) else value


def _numbers(config: Config) -> list[str]:
    """The window of the configured model with the source of each number, as far as it is known without asking it."""
    window = _window(config)
    if window is None:
        return []
    values = {
        "context_window": window.size,
        "max_output_tokens": window.output,
        "context_window_buffer_tokens": window.buffer,
        "max_input_tokens": window.max_input,
        "price_tier": window.price_tier,
    }
    lines = [f"{key} {values[key]:,} ({source})" for key, source in window.sources]
    name, _, model = (config.model or "").partition("/")
    named = ((key, find_setting(config, name, model, key)) for key in ("tokenizer", "reasoning_effort"))
    lines += [f"{key} {found.value} ({found.source})" for key, found in named if found is not None]
    triggers = f"compact at {window.compact_trigger * window.effective:,.0f}"
    triggers += f", no request above {window.hard_block * window.effective:,.0f}"
    return [f"{config.model}: {', '.join(lines)}; usable {window.effective:,}; {triggers}", *window.notices]


def _window(config: Config) -> Window | None:
    """The window of the configured model, as far as it is known without asking it."""
    name, _, model = (config.model or "").partition("/")
    if name in ("", "scripted") or not model:
        return None
    return find_window(facts_for(name, model, overrides(config, config.provider(name), name, model)), config)


def _toml(value: object) -> str:
    return "(not set)" if value is None else json.dumps(value, ensure_ascii=False, default=asdict)


def _mcp(arguments: Sequence[str]) -> int:
    from tui.cli import mcp  # noqa: PLC0415  # deferred: only this command needs it

    return mcp.run(arguments)


def _hooks(arguments: Sequence[str]) -> int:
    from tui.cli import hooks  # noqa: PLC0415  # deferred: only this command needs it

    return hooks.run(arguments)


def _permissions(arguments: Sequence[str]) -> int:
    from tui.cli import permissions  # noqa: PLC0415  # deferred: only this command needs it

    return permissions.run(arguments)


def _demo(arguments: Sequence[str]) -> int:
    parser = parser_of(
        "demo",
        "A scripted model repairs a real bug with the real tools: in the terminal, or printed where there is none. No "
        "key and no network are needed.",
    )
    parser.add_argument("--print", action="store_true", help="print it, also in a terminal")
    parser.add_argument("--keep", metavar="DIR", help="leave the repaired project in this new folder")
    options = parser.parse_args(arguments)
    from tui.session.demo import print_demo, show_demo  # noqa: PLC0415  # deferred: only this command needs it

    is_seen = sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()
    return (show_demo if is_seen and not options.print else print_demo)(options.keep)


_OF_SESSIONS: dict[str, Callable[[Sequence[str]], int]] = {
    "search": search.search,
    "tag": session_tags.tag,
    "untag": session_tags.untag,
    "export": transfer.export,
    "import": transfer.bring_in,
}
"""What `ebb sessions` does besides listing, showing and deleting; each has arguments of its own."""


def _import(arguments: Sequence[str]) -> int:
    from tui.cli import imports  # noqa: PLC0415  # deferred: it reads what other programs have, once

    return imports.run(arguments)


def _batch(arguments: Sequence[str]) -> int:
    from tui.cli import batch  # noqa: PLC0415  # deferred: only this command needs it

    return batch.run(arguments)


def _trust(arguments: Sequence[str]) -> int:
    from tui.cli import trust  # noqa: PLC0415  # deferred: it looks for all that a project may bring

    return trust.run(arguments)


_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "sessions": _sessions,
    "context": _context,
    "config": _config,
    "import": _import,
    "batch": _batch,
    "mcp": _mcp,
    "doctor": doctor.doctor,
    "key": keys.run,
    "plugin": plugin.run,
    "hooks": _hooks,
    "trust": _trust,
    "undo": undo.undo,
    "demo": _demo,
    "permissions": _permissions,
}
