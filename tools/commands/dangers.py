"""Marks the parts of a command line that may do irreversible harm, for people to see. Parts without a mark are not
necessarily safe."""

import posixpath
import re
from collections.abc import Iterator, Sequence

from ebbtide.tools.commands.command_line import Redirection, SimpleCommand, Word
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.nested import SHELLS, program_of, wrapped_at
from ebbtide.tools.lazy import dataclass, regex

LANGUAGES = {"python", "python3", "perl", "ruby", "node", "php"}
_INTERPRETERS = SHELLS | LANGUAGES
_AS_ROOT = {"sudo", "doas", "su", "pkexec", "runuser"}
_DISK_TOOLS = {
    "fdisk", "sfdisk", "parted", "wipefs", "shred", "blkdiscard", "mkswap", "cryptsetup", "lvremove", "zpool",
}  # fmt: skip
_RUN_PRINTED = _INTERPRETERS | {"eval", "source", "."}
_FETCHED_SCRIPT = regex(r"(?:[<$]\(|`)\s*(?:curl|wget)\b")
_ELSEWHERE = {
    "kubectl": {"delete", "drain"}, "helm": {"uninstall", "delete"}, "terraform": {"destroy"}, "tofu": {"destroy"},
    "pulumi": {"destroy"}, "docker": {"prune"}, "podman": {"prune"}, "gh": {"delete"}, "aws": {"rm", "rb"},
    "gcloud": {"delete"}, "az": {"delete"}, "redis-cli": {"flushall", "flushdb", "FLUSHALL", "FLUSHDB"},
    "npm": {"unpublish"},
}  # fmt: skip
"""Deleting subcommands, by program."""
_PUBLISHING = {name: {"publish"} for name in ("npm", "pnpm", "yarn", "cargo", "poetry", "uv")} | {"twine": {"upload"}}
_DATABASES = {"psql", "mysql", "mariadb", "sqlite3"}
_DROPS = regex(r"(?i)\b(?:drop\s+(?:table|database|schema)|truncate\s+table|delete\s+from)\b")
_MAX_DANGERS = 20
"""Maximum number of marks in a line."""
_MAX_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Danger:
    start: int
    end: int
    """Position in the line."""
    why: str
    """What it does, as the end of a sentence."""


def dangers_in(text: str, root: str) -> tuple[Danger, ...]:
    """Return the dangerous parts of a line in order. `root`: the working folder, absolute."""
    return tuple(sorted(dict.fromkeys(_dangers(text, root, 0)), key=lambda one: (one.start, one.end)))[:_MAX_DANGERS]


def _dangers(text: str, root: str, depth: int) -> Iterator[Danger]:
    line = parse_command_line(text)
    for command in line.commands:
        for why in _reasons(command.texts, is_fed=command.joint in ("|", "|&")):
            yield Danger(command.start, command.end, why)
        if program_of(command.texts) in _RUN_PRINTED and any(map(_is_fetched, command.words)):
            yield Danger(command.start, command.end, "runs downloaded code")
        for file in _written_files(command):
            if _is_outside(file, root):
                yield Danger(command.start, command.end, f"writes outside the working folder, to `{file}`")
        for word in command.words if depth < _MAX_DEPTH and runs_texts(command) else ():
            if not word.is_bare and re.search(r"\s", word.text):
                for danger in _dangers(word.text, root, depth + 1):
                    yield Danger(command.start, command.end, danger.why)
    for one in (*line.redirections, *(each for command in line.commands for each in command.redirections)):
        if _leads_outside(one, root):
            yield Danger(one.start, one.end, f"writes outside the working folder, to `{one.target.text}`")


def runs_texts(command: SimpleCommand) -> bool:
    """Whether its arguments may be commands. That is true of programs that run others, but not of git's messages."""
    name = program_of(command.texts)
    return name in _INTERPRETERS | _AS_ROOT | {
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


def _reasons(words: Sequence[str], *, is_fed: bool = False) -> Iterator[str]:
    name = program_of(words)
    if not name:
        return
    given = words[list(map(posixpath.basename, words)).index(name) + 1 :]
    if name in _AS_ROOT:
        yield "runs as another user, with all rights"
    is_told = all(word[:1] == "-" for word in given) or (name in SHELLS and any(word == "-s" for word in given[:3]))
    if is_fed and name in _INTERPRETERS and is_told:
        yield "runs the output of the pipe"
    yield from _by_program(name, given)
    inner = wrapped_at(words)
    if inner is not None and inner < len(words):
        yield from _reasons(words[inner:], is_fed=is_fed)
    elif name in _AS_ROOT and given:
        yield from _reasons([word for word in given if word[:1] != "-"])
    if name == "find":
        if "-delete" in given:
            yield "deletes every file that it finds"
        for at, word in enumerate(given):
            if word in ("-exec", "-execdir", "-ok", "-okdir"):
                yield from _reasons(given[at + 1 :])


def _by_program(name: str, given: Sequence[str]) -> Iterator[str]:
    if (name == "rm" and _has(given, "rR", "--recursive")) or name == "rimraf":
        yield "deletes folders and everything in them"
    elif name == "git":
        yield from _of_git([word for word in given if word])
    elif name == "dd" and any(word.startswith("of=") for word in given):
        yield "overwrites a file or a disk"
    elif name in _DISK_TOOLS or name.startswith("mkfs"):
        yield "changes or erases disks"
    elif name in ("chmod", "chown", "chgrp") and _has(given, "R", "--recursive"):
        yield "changes the permissions of everything in a folder"
    elif name in ("shutdown", "reboot", "halt", "poweroff"):
        yield "stops this machine"
    elif name == "crontab" and "-r" in given:
        yield "deletes all your jobs"
    elif name == "kill" and len(given) > 1 and given[-1] == "-1":
        yield "ends all your programs"
    elif not _leading_words(given).isdisjoint(_ELSEWHERE.get(name, ())):
        yield "deletes or replaces data on other systems"
    elif not _leading_words(given).isdisjoint(_PUBLISHING.get(name, ())):
        yield "publishes for everybody"
    elif name in _DATABASES and any(map(_DROPS.search, given)):
        yield "deletes data from a database"
    elif name == "ssh" and (at := next((at for at, word in enumerate(given) if word in _AS_ROOT | {"rm", "dd"}), None)):
        yield from _reasons(given[at:])
    elif name == "truncate" or (name == "rsync" and any(word.startswith("--delete") for word in given)):
        yield "deletes the content of files or folders"


def _leading_words(given: Sequence[str]) -> set[str]:
    """Return the first few words that are not options."""
    return set([word for word in given if word[:1] != "-"][:3])


def _is_fetched(word: Word) -> bool:
    return word.expands and _FETCHED_SCRIPT.search(word.text) is not None


def _written_files(command: SimpleCommand) -> Iterator[str]:
    """Yield the files that a known file-writing command writes."""
    name, files = program_of(command.texts), [word for word in command.texts[1:] if word[:1] != "-"]
    if name == "tee":
        yield from files
    elif name in ("cp", "mv", "ln", "install", "rsync") and len(files) > 1 and ":" not in files[-1]:
        yield files[-1]


def _of_git(given: Sequence[str]) -> Iterator[str]:
    verb = next((word for word in given if word in _GIT_HARM), "")
    rest = given[given.index(verb) + 1 :] if verb else ()
    letters, names, why = _GIT_HARM.get(verb, ("", (), ""))
    if verb in ("checkout", "restore"):
        is_index_alone = verb == "restore" and _has(rest, "S", "--staged") and not _has(rest, "W", "--worktree")
        if (_has(rest, "f", "--force") or not {"--", "."}.isdisjoint(rest) or verb == "restore") and not is_index_alone:
            yield why
        return
    is_refspec = verb == "push" and any(word[:1] in "+:" for word in rest)
    if is_refspec or (verb and (_has(rest, letters, *names) or not (letters or names))):
        yield why


_GIT_HARM: dict[str, tuple[str, tuple[str, ...], str]] = {
    "push": ("fd", ("--force", "--delete", "--mirror", "--prune"), "overwrites or deletes what others have"),
    "reset": ("", ("--hard",), "discards uncommitted changes"),
    "clean": ("f", ("--force",), "deletes files that git does not track"),
    "branch": ("D", ("--delete",), "deletes a branch"),
    "checkout": ("", (), "discards uncommitted changes"),
    "restore": ("", (), "discards uncommitted changes"),
    "switch": ("f", ("--force", "--discard-changes"), "discards uncommitted changes"),
    "tag": ("d", ("--delete",), "deletes a tag"),
    "update-ref": ("d", (), "deletes a branch or a tag"),
    "reflog": ("", ("expire", "delete"), "deletes what is needed to recover commits"),
    "gc": ("", ("--prune=",), "deletes what is needed to recover commits"),
    "worktree": ("f", ("--force",), "deletes a folder with uncommitted changes"),
    "filter-branch": ("", (), "rewrites the history"),
    "filter-repo": ("", (), "rewrites the history"),
    "stash": ("", ("drop", "clear"), "throws away stashed changes"),
}


def _has(given: Sequence[str], letters: str, *names: str) -> bool:
    """Whether a word is one of these letters as a short option, alone or combined, or starts with a long name."""
    return any(
        bool(names) and word.startswith(names)
        if word[:2] == "--" or word[:1] != "-"
        else any(letter in word for letter in letters)
        for word in given
    )


def _leads_outside(one: Redirection, root: str) -> bool:
    return one.sign.startswith((">", "&>")) and one.sign != ">&" and _is_outside(one.target.text, root)


def _is_outside(file: str, root: str) -> bool:
    path = posixpath.normpath(posixpath.join(root, file))
    return file != "/dev/null" and (file[:1] in "~$" or not f"{path}/".startswith(f"{root.rstrip('/')}/"))
