"""Marks the parts of a command line that may do irreversible harm, for display to the user. An unmarked part is not
necessarily safe."""

import posixpath
import re
from collections.abc import Iterator, Sequence

from ebbtide.tools.commands.command_line import Danger, Redirection, SimpleCommand, Word
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.nested import SHELLS, program_name, wrapped_program_index
from ebbtide.tools.lazy import regex

LANGUAGE_INTERPRETERS = {"python", "python3", "perl", "ruby", "node", "php"}
_INTERPRETERS = SHELLS | LANGUAGE_INTERPRETERS
_USER_SWITCHERS = {"sudo", "doas", "su", "pkexec", "runuser"}
_DISK_TOOLS = {
    "fdisk", "sfdisk", "parted", "wipefs", "shred", "blkdiscard", "mkswap", "cryptsetup", "lvremove", "zpool",
}  # fmt: skip
_CODE_RUNNERS = _INTERPRETERS | {"eval", "source", "."}
_FETCHED_SCRIPT = regex(r"(?:[<$]\(|`)\s*(?:curl|wget)\b")
_REMOTE_DELETIONS = {
    "kubectl": {"delete", "drain"}, "helm": {"uninstall", "delete"}, "terraform": {"destroy"}, "tofu": {"destroy"},
    "pulumi": {"destroy"}, "docker": {"prune"}, "podman": {"prune"}, "gh": {"delete"}, "aws": {"rm", "rb"},
    "gcloud": {"delete"}, "az": {"delete"}, "redis-cli": {"flushall", "flushdb", "FLUSHALL", "FLUSHDB"},
    "npm": {"unpublish"},
}  # fmt: skip
"""Subcommands that delete remote data, by program."""
_PUBLISHING_COMMANDS = {name: {"publish"} for name in ("npm", "pnpm", "yarn", "cargo", "poetry", "uv")} | {
    "twine": {"upload"}
}
_DATABASES = {"psql", "mysql", "mariadb", "sqlite3"}
_DELETING_SQL = regex(r"(?i)\b(?:drop\s+(?:table|database|schema)|truncate\s+table|delete\s+from)\b")
_MAX_MARKS = 20
"""Maximum number of parts marked in a line."""
_MAX_DEPTH = 3


def find_dangers(text: str, root: str) -> tuple[Danger, ...]:
    """Find the dangerous parts of a line, in order. `root`: absolute path of the working folder."""
    return tuple(sorted(dict.fromkeys(_find_dangers(text, root, 0)), key=lambda danger: (danger.start, danger.end)))[
        :_MAX_MARKS
    ]


def _find_dangers(text: str, root: str, depth: int) -> Iterator[Danger]:
    line = parse_command_line(text)
    for command in line.commands:
        for reason in _find_danger_reasons(command.texts, has_input=command.preceding_operator in ("|", "|&")):
            yield Danger(command.start, command.end, reason)
        if program_name(command.texts) in _CODE_RUNNERS and any(map(_is_fetched_script, command.words)):
            yield Danger(command.start, command.end, "runs downloaded code")
        for file in _written_files(command):
            if _is_outside(file, root):
                yield Danger(command.start, command.end, f"writes outside the working folder, to `{file}`")
        for word in command.words if depth < _MAX_DEPTH and may_run_arguments(command) else ():
            if not word.is_unquoted and re.search(r"\s", word.text):
                for danger in _find_dangers(word.text, root, depth + 1):
                    yield Danger(command.start, command.end, danger.why)
    for redirection in (
        *line.redirections,
        *(redirection for command in line.commands for redirection in command.redirections),
    ):
        if _writes_outside(redirection, root):
            yield Danger(
                redirection.start,
                redirection.end,
                f"writes outside the working folder, to `{redirection.target.text}`",
            )


def may_run_arguments(command: SimpleCommand) -> bool:
    """Whether the command's arguments may themselves be commands. True for programs that run other programs. False for
    git, whose arguments may be messages."""
    name = program_name(command.texts)
    return name in _INTERPRETERS | _USER_SWITCHERS | {
        "eval",
        "trap",
        "env",
        "xargs",
        "find",
        "ssh",
        "watch",
        "timeout",
        "parallel",
    }


def _find_danger_reasons(words: Sequence[str], *, has_input: bool = False) -> Iterator[str]:
    name = program_name(words)
    if not name:
        return
    arguments = words[list(map(posixpath.basename, words)).index(name) + 1 :]
    if name in _USER_SWITCHERS:
        yield "runs as another user, with full privileges"
    reads_program_from_stdin = all(word[:1] == "-" for word in arguments) or (
        name in SHELLS and any(word == "-s" for word in arguments[:3])
    )
    if has_input and name in _INTERPRETERS and reads_program_from_stdin:
        yield "runs the output of the pipe"
    yield from _find_reasons_by_program(name, arguments)
    wrapped_index = wrapped_program_index(words)
    if wrapped_index is not None and wrapped_index < len(words):
        yield from _find_danger_reasons(words[wrapped_index:], has_input=has_input)
    elif name in _USER_SWITCHERS and arguments:
        yield from _find_danger_reasons([word for word in arguments if word[:1] != "-"])
    if name == "find":
        if "-delete" in arguments:
            yield "deletes every file that it finds"
        for index, word in enumerate(arguments):
            if word in ("-exec", "-execdir", "-ok", "-okdir"):
                yield from _find_danger_reasons(arguments[index + 1 :])


def _find_reasons_by_program(name: str, arguments: Sequence[str]) -> Iterator[str]:
    if (name == "rm" and _has_option(arguments, "rR", "--recursive")) or name == "rimraf":
        yield "deletes folders and everything in them"
    elif name == "git":
        yield from _git_reasons([word for word in arguments if word])
    elif name == "dd" and any(word.startswith("of=") for word in arguments):
        yield "overwrites a file or a disk"
    elif name in _DISK_TOOLS or name.startswith("mkfs"):
        yield "changes or erases disks"
    elif name in ("chmod", "chown", "chgrp") and _has_option(arguments, "R", "--recursive"):
        yield "changes the permissions of everything in a folder"
    elif name in ("shutdown", "reboot", "halt", "poweroff"):
        yield "stops this machine"
    elif name == "crontab" and "-r" in arguments:
        yield "deletes all your jobs"
    elif name == "kill" and len(arguments) > 1 and arguments[-1] == "-1":
        yield "ends all of your programs"
    elif not _leading_words(arguments).isdisjoint(_REMOTE_DELETIONS.get(name, ())):
        yield "deletes or replaces data on other systems"
    elif not _leading_words(arguments).isdisjoint(_PUBLISHING_COMMANDS.get(name, ())):
        yield "publishes to everyone"
    elif name in _DATABASES and any(map(_DELETING_SQL.search, arguments)):
        yield "deletes data from a database"
    elif name == "ssh" and (
        index := next((index for index, word in enumerate(arguments) if word in _USER_SWITCHERS | {"rm", "dd"}), None)
    ):
        yield from _find_danger_reasons(arguments[index:])
    elif name == "truncate" or (name == "rsync" and any(word.startswith("--delete") for word in arguments)):
        yield "deletes the content of files or folders"


def _leading_words(arguments: Sequence[str]) -> set[str]:
    """Return the first few words that are not options."""
    return set([word for word in arguments if word[:1] != "-"][:3])


def _is_fetched_script(word: Word) -> bool:
    return word.has_expansion and _FETCHED_SCRIPT.search(word.text) is not None


def _written_files(command: SimpleCommand) -> Iterator[str]:
    """Yield the files that the command would write, if it is known to write files."""
    name, files = program_name(command.texts), [word for word in command.texts[1:] if word[:1] != "-"]
    if name == "tee":
        yield from files
    elif name in ("cp", "mv", "ln", "install", "rsync") and len(files) > 1 and ":" not in files[-1]:
        yield files[-1]


def _git_reasons(arguments: Sequence[str]) -> Iterator[str]:
    subcommand = next((word for word in arguments if word in _HARMFUL_GIT_OPTIONS), "")
    later_words = arguments[arguments.index(subcommand) + 1 :] if subcommand else ()
    letters, names, reason = _HARMFUL_GIT_OPTIONS.get(subcommand, ("", (), ""))
    if subcommand in ("checkout", "restore"):
        only_changes_index = (
            subcommand == "restore"
            and _has_option(later_words, "S", "--staged")
            and not _has_option(later_words, "W", "--worktree")
        )
        if (
            _has_option(later_words, "f", "--force")
            or not {"--", "."}.isdisjoint(later_words)
            or subcommand == "restore"
        ) and not only_changes_index:
            yield reason
        return
    is_refspec = subcommand == "push" and any(word[:1] in "+:" for word in later_words)
    if is_refspec or (subcommand and (_has_option(later_words, letters, *names) or not (letters or names))):
        yield reason


_HARMFUL_GIT_OPTIONS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "push": ("fd", ("--force", "--delete", "--mirror", "--prune"), "overwrites or deletes others' commits"),
    "reset": ("", ("--hard",), "discards uncommitted changes"),
    "clean": ("f", ("--force",), "deletes files that git does not track"),
    "branch": ("D", ("--delete",), "deletes a branch"),
    "checkout": ("", (), "discards uncommitted changes"),
    "restore": ("", (), "discards uncommitted changes"),
    "switch": ("f", ("--force", "--discard-changes"), "discards uncommitted changes"),
    "tag": ("d", ("--delete",), "deletes a tag"),
    "update-ref": ("d", (), "deletes a branch or a tag"),
    "reflog": ("", ("expire", "delete"), "deletes data needed to recover commits"),
    "gc": ("", ("--prune=",), "deletes data needed to recover commits"),
    "worktree": ("f", ("--force",), "deletes a folder with uncommitted changes"),
    "filter-branch": ("", (), "rewrites the history"),
    "filter-repo": ("", (), "rewrites the history"),
    "stash": ("", ("drop", "clear"), "discards stashed changes"),
}


def _has_option(words: Sequence[str], letters: str, *names: str) -> bool:
    """Whether the words contain an option: a short one with one of these letters, alone or combined, or a word that
    starts with one of the long names."""
    return any(
        bool(names) and word.startswith(names)
        if word[:2] == "--" or word[:1] != "-"
        else any(letter in word for letter in letters)
        for word in words
    )


def _writes_outside(redirection: Redirection, root: str) -> bool:
    return (
        redirection.operator.startswith((">", "&>"))
        and redirection.operator != ">&"
        and _is_outside(redirection.target.text, root)
    )


def _is_outside(file: str, root: str) -> bool:
    path = posixpath.normpath(posixpath.join(root, file))
    return file != "/dev/null" and (file[:1] in "~$" or not f"{path}/".startswith(f"{root.rstrip('/')}/"))
