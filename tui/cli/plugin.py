"""`ebb plugin`: lists, adds and removes plugins. Their contents are shown before they are added."""

import sys
from collections.abc import Sequence
from pathlib import Path

from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.plugin_contents import PluginContents, contents_of
from ebbtide.agent.extensions.plugin_source import plugin_copy
from ebbtide.agent.extensions.plugins import Plugin, PluginStore
from ebbtide.agent.headless.json_line import print_json
from ebbtide.tui.cli.arguments import confirm, parse_subcommand_args, parser_of, read_settings
from ebbtide.tui.text.sanitise import sanitised_line

_RUNS = (
    "Skills, commands and agents are read by the model. Hooks and servers run as you, outside of the sandbox, as soon "
    "as what they wait for happens."
)


def run(arguments: Sequence[str]) -> int:
    """Run `ebb plugin add|list|remove`; return the exit code. Raises `AgentError`."""
    parser = parser_of(
        "plugin",
        "Folders that bring skills, commands, agents, hooks and servers, in the layout of Claude Code's plugins. What "
        "one holds is shown before it is added; it stays as it was then until it is added again.",
    )
    parser.add_argument("action", nargs="?", choices=("list", "add", "remove"), default="list")
    parser.add_argument("source", nargs="?", metavar="PATH|GIT-URL|NAME", help="what to add, or which one to remove")
    parser.add_argument("--plugin", metavar="NAME", default="", help="which one, where a repository holds several")
    parser.add_argument("--ref", default="", help="the branch, tag or commit to take of a repository")
    parser.add_argument("--yes", action="store_true", help="add what is shown without a question")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    if options.action != "list" and not options.source:
        parser.error(f"which one? write `ebb plugin {options.action} {'PATH' if options.action == 'add' else 'NAME'}`")
    folder, config = read_settings(options)
    store = PluginStore(config)
    match options.action:
        case "add":
            where = options.source
            local = Path(folder, Path(where).expanduser())
            source = str(local) if local.is_dir() else where
            return _add(store, source, options.plugin, options.ref, is_sure=options.yes, as_json=options.json)
        case "remove":
            return _remove(store, options.source, as_json=options.json)
        case _:
            return _list(store, config, as_json=options.json)


def _add(store: PluginStore, source: str, name: str, ref: str, *, is_sure: bool, as_json: bool) -> int:
    with plugin_copy(source, store.folder, name, ref) as plugin:
        held = contents_of(plugin)
        before = next((known for known, _ in store.all() if known.name == plugin.name), None)
        if not as_json:
            _show(plugin, held, before)
        is_wanted = is_sure or confirm("Add it?", as_json=as_json)
        if is_wanted:
            store.add(plugin)
        if as_json:
            row = {**_row(plugin, ""), "holds": held.lines, "problems": held.problems, "added": is_wanted}
            print_json(sys.stdout, row)
        elif is_wanted:
            print(f"added `{plugin.name}`; new sessions have it, `ebb plugin remove {plugin.name}` takes it away")
        else:
            print("nothing was added; `--yes` adds it without a question")
    return 0


def _show(plugin: Plugin, held: PluginContents, before: Plugin | None) -> None:
    version = f" {plugin.version}" if plugin.version else ""
    print(sanitised_line(f"{plugin.name}{version}{f': {plugin.description}' if plugin.description else ''}"))
    print(sanitised_line(f"  from {plugin.source}{f' at commit {plugin.commit}' if plugin.commit else ''}"))
    if before is not None:
        same = "the same files" if before.digest == plugin.digest else "other files"
        was = f" at commit {before.commit}" if before.commit else ""
        print(sanitised_line(f"  in place of the one from {before.source}{was}, with {same}"))
    for line in held.lines:
        print(sanitised_line(line))
    for problem in held.problems:
        print(f"ebb: {sanitised_line(problem)}", file=sys.stderr)
    print(_RUNS)


def _remove(store: PluginStore, name: str, *, as_json: bool) -> int:
    is_gone = store.remove(name)
    if as_json:
        print_json(sys.stdout, {"plugin": name, "removed": is_gone})
    else:
        print(sanitised_line(f"`{name}` is removed" if is_gone else f"there is no plugin `{name}`"))
    return 0


def _list(store: PluginStore, config: Config, *, as_json: bool) -> int:
    found = store.all()
    if as_json:
        print_json(sys.stdout, {"plugins": [_row(plugin, problem) for plugin, problem in found]})
        return 0
    for plugin, problem in found:
        what = f"not used: {problem}" if problem else plugin.description
        commit = f"@{plugin.commit[:12]}" if plugin.commit else ""
        print(
            sanitised_line(f"{plugin.name:<20}  {plugin.version or '-':<8}  {plugin.source}{commit}  {what}".rstrip())
        )
    if not found:
        print("no plugins; `ebb plugin add PATH|GIT-URL` adds one")
    return 0


def _row(plugin: Plugin, problem: str) -> dict[str, object]:
    return {
        "name": plugin.name,
        "version": plugin.version,
        "description": plugin.description,
        "source": plugin.source,
        "commit": plugin.commit,
        "digest": plugin.digest,
        "problem": problem,
    }
