"""`ebb plugin`: lists, adds and removes plugins. A plugin's contents are shown before it is added."""

import sys
from collections.abc import Sequence
from pathlib import Path

from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.plugin_contents import PluginContents, describe_plugin
from ebbtide.agent.extensions.plugin_source import copy_plugin
from ebbtide.agent.extensions.plugins import Plugin, PluginStore
from ebbtide.agent.headless.printing import print_json
from ebbtide.tui.cli.arguments import confirm, create_subcommand_parser, parse_subcommand_args, read_settings
from ebbtide.tui.text.sanitise import sanitise_line

_TRUST_NOTE = (
    "The model reads skills, commands and agents. Hooks and servers run as you, outside the sandbox: hooks on events, "
    "servers in every session."
)


def run(arguments: Sequence[str]) -> int:
    """Run `ebb plugin add|list|remove`; return the exit code. Raises `AgentError`."""
    parser = create_subcommand_parser(
        "plugin",
        "Manage plugins: folders with skills, commands, agents, hooks and MCP servers, laid out as for Claude Code. "
        "`add` shows the contents first. The plugin is copied: to update it, add it again.",
    )
    parser.add_argument("action", nargs="?", choices=("list", "add", "remove"), default="list")
    parser.add_argument("source", nargs="?", metavar="PATH|GIT-URL|NAME", help="plugin to add or remove")
    parser.add_argument("--plugin", metavar="NAME", default="", help="choose one plugin of a repository")
    parser.add_argument("--ref", default="", help="fetch this branch, tag or commit")
    parser.add_argument("--yes", action="store_true", help="add without asking")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    if options.action != "list" and not options.source:
        parser.error(
            f"no plugin named; write `ebb plugin {options.action} {'PATH' if options.action == 'add' else 'NAME'}`"
        )
    folder, config = read_settings(options)
    store = PluginStore(config)
    match options.action:
        case "add":
            location = options.source
            local_path = Path(folder, Path(location).expanduser())
            source = str(local_path) if local_path.is_dir() else location
            return _add(
                store, source, options.plugin, options.ref, skips_confirmation=options.yes, as_json=options.json
            )
        case "remove":
            return _remove(store, options.source, as_json=options.json)
        case _:
            return _list(store, config, as_json=options.json)


def _add(store: PluginStore, source: str, name: str, ref: str, *, skips_confirmation: bool, as_json: bool) -> int:
    with copy_plugin(source, store.folder, name, ref) as plugin:
        contents = describe_plugin(plugin)
        previous = next(
            (installed for installed, _ in store.list_with_problems() if installed.name == plugin.name), None
        )
        if not as_json:
            _print_contents(plugin, contents, previous)
        is_confirmed = skips_confirmation or confirm("Add it?", as_json=as_json)
        if is_confirmed:
            store.add(plugin)
        if as_json:
            row = {
                **_json_row(plugin, ""),
                "holds": contents.lines,
                "problems": contents.problems,
                "added": is_confirmed,
            }
            print_json(sys.stdout, row)
        elif is_confirmed:
            print(f"added `{plugin.name}` for new sessions; remove it with `ebb plugin remove {plugin.name}`")
        else:
            print("nothing added; `--yes` adds it without asking")
    return 0


def _print_contents(plugin: Plugin, contents: PluginContents, previous: Plugin | None) -> None:
    version = f" {plugin.version}" if plugin.version else ""
    print(sanitise_line(f"{plugin.name}{version}{f': {plugin.description}' if plugin.description else ''}"))
    print(sanitise_line(f"  from {plugin.source}{f' at commit {plugin.commit}' if plugin.commit else ''}"))
    if previous is not None:
        comparison = "same files" if previous.digest == plugin.digest else "different files"
        previous_commit = f" at commit {previous.commit}" if previous.commit else ""
        print(sanitise_line(f"  replaces the one from {previous.source}{previous_commit} ({comparison})"))
    for line in contents.lines:
        print(sanitise_line(line))
    for problem in contents.problems:
        print(f"ebb: {sanitise_line(problem)}", file=sys.stderr)
    print(_TRUST_NOTE)


def _remove(store: PluginStore, name: str, *, as_json: bool) -> int:
    was_removed = store.remove(name)
    if as_json:
        print_json(sys.stdout, {"plugin": name, "removed": was_removed})
    else:
        print(sanitise_line(f"removed `{name}`" if was_removed else f"no plugin `{name}`"))
    return 0


def _list(store: PluginStore, config: Config, *, as_json: bool) -> int:
    plugins = store.list_with_problems()
    if as_json:
        print_json(sys.stdout, {"plugins": [_json_row(plugin, problem) for plugin, problem in plugins]})
        return 0
    for plugin, problem in plugins:
        details = f"unusable: {problem}" if problem else plugin.description
        commit = f"@{plugin.commit[:12]}" if plugin.commit else ""
        print(
            sanitise_line(f"{plugin.name:<20}  {plugin.version or '-':<8}  {plugin.source}{commit}  {details}".rstrip())
        )
    if not plugins:
        print("no plugins yet; add one with `ebb plugin add PATH|GIT-URL`")
    return 0


def _json_row(plugin: Plugin, problem: str) -> dict[str, object]:
    return {
        "name": plugin.name,
        "version": plugin.version,
        "description": plugin.description,
        "source": plugin.source,
        "commit": plugin.commit,
        "digest": plugin.digest,
        "problem": problem,
    }
