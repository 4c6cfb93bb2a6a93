"""The permission policy: decides whether a call may run. Pure: it accesses neither files nor the user.

A rule is `TOOL` or `TOOL(PREFIX)`. TOOL may contain `*`. For a tool that works on files, PREFIX is a file or folder,
relative to the working folder. For the shell, it is the beginning of a command, in whole words: `bash(git status)`; or,
after `=`, one exact line: `bash(=make test)`. For web requests, PREFIX is a host, `example.org`, or all subdomains,
`*.example.org`; `network(HOST)` also covers what commands reach. `mcp__SERVER` means all tools of a server; what their
calls do is unknown, so such rules have no PREFIX. `outside(PREFIX)` does not say whether such commands may run, but
that they run outside the sandbox.

Deny rules come first, then what always needs approval, then allow rules, then the mode. An allow rule covers only
what is visible in the call; a deny rule covers everything the call may mean."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from ebbtide.agent.calls.command_rules import (
    Coverage,
    all_readings,
    asked_in_every_mode,
    can_be_read,
    coverage_of,
    holds_words,
    is_within,
    named_files,
    stays_in_workspace,
    uncertain_file,
    uncertain_search,
)
from ebbtide.agent.calls.network_rules import NETWORK, check_place, means_place
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.config.options import Mode
from ebbtide.agent.errors import ConfigError
from ebbtide.tools.base import Effect, ReadOnlyAccess
from ebbtide.tools.commands.nested import has_unread_texts, hides_a_command, hides_the_rest
from ebbtide.tools.files.autorun import first_that_runs_later, normalised_path, runs_later
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.extent import join_limited

Verdict: TypeAlias = Literal["allow", "ask", "deny"]

_RULE = regex(r"(?P<tool>[A-Za-z0-9_*.-]+)(\((?P<prefix>.+)\))?", re.DOTALL)
_MCP_TOOL = regex(r"(mcp__.+?)__.")
OUTSIDE = "outside"
_WRITERS = ("write", "edit", "apply_patch")
IN_PLAN: Mapping[Effect, str] = {
    "write": "plan mode changes nothing",
    "serve": "plan mode changes nothing",
    "run": "plan mode runs only commands that are known to look, such as `ls`, `cat`, `sed -n`, `find`, `rg` or "
    "`git log`, with their usual options, joined by `|`, `&&` or `;`, without variables, loops or files written",
}
_MOST_NAMED = 8
"""Rules of skills that are listed in a reason."""


@dataclass(frozen=True, slots=True)
class Rule:
    tool: str
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.tool}({self.prefix})" if self.prefix else self.tool

    @property
    def line(self) -> str | None:
        """The exact command line that the rule covers; None if it covers a prefix."""
        return self.prefix[1:] if self.prefix[:1] == "=" else None

    @property
    def words(self) -> list[str]:
        """The words of the command prefix or of the exact line."""
        return self.prefix.removeprefix("=").split()


def parse_rule(text: str) -> Rule:
    """Parse a rule. Raises `ConfigError`."""
    match = _RULE.fullmatch(text.strip())
    if match is None or (match["prefix"] or "all").strip() in ("", "="):
        raise ConfigError(f"`{text}` is not a rule; write `TOOL` or `TOOL(PREFIX)`, such as `bash(git status)`")
    rule = Rule(match["tool"], (match["prefix"] or "").removesuffix(":*").strip())
    if rule.tool == NETWORK:
        check_place(rule.prefix)
    return rule


def is_canonical_rule(text: str) -> bool:
    """Whether a rule is read exactly as written: all of its blanks and characters count, it names one tool, and it
    contains nothing invisible."""
    match = _RULE.fullmatch(text)
    if match is None or "*" in match["tool"] or not text.isprintable():
        return False
    return str(parse_rule(text)) == text


@dataclass(frozen=True, slots=True)
class SkillBounds:
    """The tools that an active skill uses: anything else that runs or changes something needs more than the mode."""

    skill: str
    rules: tuple[Rule, ...]
    is_read: bool = False
    """Whether the model read the skill by itself, rather than the user naming it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything that decides about calls, apart from the calls themselves."""

    root: str
    """The working folder, absolute and resolved."""
    mode: Mode = "ask"
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    readable: tuple[str, ...] = ()
    """Folders outside the working folder that may be read without asking, absolute and resolved."""
    no_shell: str = ""
    """Why shell commands may not run at all, if so."""
    roots: tuple[str, ...] = ()
    """Folders that count like the working folder, absolute and resolved."""
    sandboxed: bool = False
    """Whether commands need no approval, since they are sandboxed."""
    sandbox_problem: str = ""
    """Why commands are not sandboxed, unless the user accepts that: none then runs without approval."""
    bounds: tuple[SkillBounds, ...] = ()
    """The bounds of active skills. They narrow what the mode allows, but not what the user's rules allow."""


@dataclass(frozen=True, slots=True)
class Ruling:
    verdict: Verdict
    rule: str
    """What decided: a rule, or the mode in words."""
    is_guarded: bool = False
    """Whether it applies only if the call is restricted to reading when it runs."""
    reason: str = ""
    """The full reason for the model, if there is more to say."""


def decide(asked: PermissionRequest, policy: Policy) -> Ruling:
    """Decide whether the call may run, and what decided it."""
    for rule in policy.deny:
        if _denies(rule, asked, policy.root):
            return Ruling("deny", f"deny rule {rule}")
    if asked.effect == "run" and policy.no_shell:
        return Ruling("deny", policy.no_shell)
    if policy.mode == "plan" and asked.effect in ("write", "run", "serve"):
        if asked.read_only is None:
            return Ruling("deny", IN_PLAN[asked.effect])
        return replace(_decide_as_read(asked.read_only, policy), is_guarded=True)
    unclear = next((rule for rule in policy.deny if _may_deny(rule, asked, policy.root)), None)
    if unclear is not None:
        return Ruling("ask", f"deny rule {unclear} may forbid this; the call does not show it")
    for rule in policy.allow:
        if _names(rule, asked) and _allows(rule, asked, policy):
            return Ruling("allow", f"allow rule {rule}")
    ruling, by_mode = _by_beginnings(asked, policy), _in_bounds(_by_mode(asked, policy), asked, policy)
    return by_mode if ruling is None or (ruling.verdict == "ask" and by_mode.verdict == "allow") else ruling


def _decide_as_read(shown: ReadOnlyAccess, policy: Policy) -> Ruling:
    """Decide about a read-only command: like a reading tool, and it needs approval for files with secrets, unless a
    rule of the user allows exactly that."""
    asked = PermissionRequest(shown.tool, "read", shown.paths)
    ruling = decide(asked, policy)
    if ruling.verdict != "allow" or not shown.secret:
        return ruling
    is_named = any(_names(rule, asked) and _allows(rule, asked, policy) for rule in policy.allow)
    return ruling if is_named else Ruling("ask", f"`{shown.secret}` may hold secrets")


def _by_mode(asked: PermissionRequest, policy: Policy) -> Ruling:
    if asked.effect == "write":
        later = first_that_runs_later(asked.subjects, policy.root)
        if later is not None:
            return Ruling("ask", f"`{later[0]}` can make other programs run commands: {later[1]}")
        if asked.linked:
            return Ruling("ask", f"`{asked.linked[0]}` is a hard link: its other names change with it")
    if asked.effect == "none":
        return Ruling("allow", "it has no effect outside the session")
    doubt = asked_in_every_mode(asked.subjects if asked.effect == "read" else (), asked.named, policy.root)
    if doubt:
        return Ruling("ask", doubt)
    if asked.tool == NETWORK:
        return Ruling("ask", f"no rule allows network access to `{asked.subjects[0]}`")
    if policy.mode == "auto" and not (asked.effect == "run" and policy.sandbox_problem):
        return Ruling("allow", "auto mode")
    if asked.effect == "run":
        return _by_mode_of_command(asked, policy)
    if asked.effect == "serve":
        return Ruling("ask", f"{policy.mode} mode asks before MCP servers act")
    if asked.effect == "fetch":
        return Ruling("ask", f"{policy.mode} mode asks before fetching from the web")
    inside = (policy.root, *policy.roots)
    outside = next((path for path in asked.subjects if not is_within(path, inside)), None)
    if asked.effect == "read":
        if all(is_within(path, (*inside, *policy.readable)) for path in asked.subjects):
            return Ruling("allow", "reading inside the working folder")
        return Ruling("ask", f"`{outside}` is outside the working folder")
    if outside is not None:
        return Ruling("ask", f"`{outside}` is outside the working folder")
    if policy.mode == "accept-edits":
        return Ruling("allow", "accept-edits mode")
    return Ruling("ask", f"{policy.mode} mode asks before files change")


def _by_mode_of_command(asked: PermissionRequest, policy: Policy) -> Ruling:
    """A command proved to be read-only is treated like the reading tools; others need approval."""
    if policy.mode != "auto" and policy.sandboxed and not runs_unsandboxed(asked, policy):
        return Ruling("allow", "it runs in the sandbox")
    if asked.tool != OUTSIDE and asked.read_only is not None and asked.read_only.paths != ("/",):
        return replace(_decide_as_read(asked.read_only, policy), is_guarded=True)
    if policy.mode == "auto":
        why = f"commands are not sandboxed: {policy.sandbox_problem}; `--no-sandbox` runs them anyway"
        return Ruling("ask", why)
    return Ruling("ask", f"{policy.mode} mode: this command needs approval")


def _in_bounds(ruling: Ruling, asked: PermissionRequest, policy: Policy) -> Ruling:
    """Apply the bounds of active skills. Reading is not bounded. If several skills are active, one that allows the
    call is enough."""
    if ruling.verdict != "allow" or not policy.bounds or asked.effect in ("none", "read"):
        return ruling
    rules = tuple(rule for bounds in policy.bounds for rule in bounds.rules)
    by_skills = Policy(policy.root, "ask", rules, policy.deny, policy.readable, roots=policy.roots)
    allowed = decide(asked, by_skills)
    if allowed.verdict == "allow":
        return replace(ruling, is_guarded=ruling.is_guarded or allowed.is_guarded)
    return Ruling("ask", skill_limits_text(policy.bounds))


def skill_limits_text(bounds: Sequence[SkillBounds]) -> str:
    """The active skills, the tools they use, and who activated them."""
    named = " and ".join(f"`{one.skill}`{', which the model has read,' * one.is_read}" for one in bounds)
    rules = dict.fromkeys(str(rule) for one in bounds for rule in one.rules)
    known = join_limited(list(rules), _MOST_NAMED) or "nothing that runs or changes something"
    in_use = " in use until this turn ends," if named.endswith(",") else ", in use until this turn ends,"
    return f"{named}{in_use} {'works' if len(bounds) == 1 else 'work'} with {known}"


def runs_unsandboxed(asked: PermissionRequest, policy: Policy) -> bool:
    """Whether the user's rules make the whole command run outside the sandbox."""
    return policy.mode != "plan" and decide(*with_resolved_paths(asked, policy)).verdict == "allow"


def with_resolved_paths(asked: PermissionRequest, policy: Policy) -> tuple[PermissionRequest, Policy]:
    """The request and policy that decide where a command runs: outside the sandbox if the policy allows the request."""
    allow, deny = (tuple(rule for rule in rules if rule.tool == OUTSIDE) for rules in (policy.allow, policy.deny))
    named = tuple(rule for rule in allow if rule.prefix)  # a rule for all commands would be a separate setting
    return replace(asked, tool=OUTSIDE), Policy(policy.root, "ask", named, deny, policy.readable)


def concerns(rule: Rule, asked: PermissionRequest, root: str) -> bool:
    """Whether a rule is about a call, whatever else the call does: a tool or server; a command that contains the
    rule's; a file or folder, or anything in it. A trailing `*` matches any continuation."""
    if not _names(rule, asked):
        return False
    if asked.effect == "fetch":
        return means_place(rule.prefix, asked.subjects, any_port=True)
    rule = Rule(rule.tool, rule.prefix.removesuffix("*"))
    if asked.effect == "run":
        wanted = [word.casefold() for word in rule.words]
        readings_of_all = (reading for command in asked.subjects for reading in all_readings(command))
        return not wanted or any(holds_words(reading, wanted) for reading in readings_of_all)
    return not rule.prefix or any(_is_same_or_within(path, _place(rule, root)) for path in asked.subjects)


def _names(rule: Rule, asked: PermissionRequest) -> bool:
    if rule.tool == asked.tool or (rule.tool == NETWORK and asked.effect == "fetch"):
        return True
    return fnmatchcase(asked.tool, rule.tool) or rule.tool == server_of(asked.tool)


def server_of(tool: str) -> str:
    """`mcp__SERVER` for a server's tool; empty for any other."""
    match = _MCP_TOOL.match(tool)
    return match[1] if match else ""


def _denies(rule: Rule, asked: PermissionRequest, root: str) -> bool:
    """Whether a deny rule applies. It examines every word of a command, however it is wrapped, and prefers to deny
    too much."""
    if not _forbids(rule, asked) and not (_hides_content(rule, asked) and asked.subjects):
        return False
    if not rule.prefix:
        return True
    if asked.effect == "fetch":
        return means_place(rule.prefix, asked.subjects, any_port=True)
    if asked.effect != "run":
        place = _place(rule, root)
        is_inside = any(_is_same_or_within(path, place) for path in asked.subjects)
        # Reading a folder lists it: the names in it are not secret, as with glob.
        is_around = asked.tool != "read" and any(_is_same_or_within(place, path) for path in asked.subjects)
        return is_inside or (_forbids(rule, asked) and is_around)
    wanted = [word.casefold() for word in rule.words]
    return any(holds_words(reading, wanted) for command in asked.subjects for reading in all_readings(command))


def _forbids(rule: Rule, asked: PermissionRequest) -> bool:
    """Whether a deny rule is about such a call. What one tool may not change, no tool may, and commands may not
    reach a host that may not be fetched from."""
    if _names(rule, asked) or (rule.tool in _WRITERS and asked.effect == "write"):
        return True
    return rule.tool == "web_fetch" and bool(rule.prefix) and asked.tool == NETWORK


def _may_deny(rule: Rule, asked: PermissionRequest, root: str) -> bool:
    """Whether the rule may apply to this call although that is not visible."""
    if not rule.prefix:
        return False
    if asked.effect == "run":
        program = rule.words[0].casefold() if len(rule.words) > 1 else ""
        return _names(rule, asked) and any(
            hides_a_command(line) or has_unread_texts(line) or (program and hides_the_rest(line, program))
            for line in asked.subjects
        )
    if asked.effect == "serve":
        return _names(rule, asked)
    return _hides_content(rule, asked) and any(_is_same_or_within(_place(rule, root), path) for path in asked.subjects)


def _hides_content(rule: Rule, asked: PermissionRequest) -> bool:
    """Whether the rule forbids reading a file and the call would show lines of files."""
    return rule.tool == "read" and asked.tool == "grep"


def _allows(rule: Rule, asked: PermissionRequest, policy: Policy) -> bool:
    if asked.effect == "fetch":
        return means_place(rule.prefix, asked.subjects)
    if asked.effect != "run":
        place = _place(rule, policy.root)
        if rule.prefix and not (asked.subjects and all(is_within(path, (place,)) for path in asked.subjects)):
            return False
        is_exact = set(asked.subjects) == {place}
        is_about_such = is_exact or (bool(rule.prefix) and not asked.linked and bool(runs_later(place, policy.root)))
        return asked.effect != "write" or is_about_such or not any_runs_later(asked, policy.root)
    if not rule.prefix:
        return not (asked.named.obeyed or asked.named.is_cut)
    if rule.line is not None:
        return all(subject == rule.line and can_be_read(subject, policy.root) for subject in asked.subjects)
    return False  # prefixes are matched together, in `_by_beginnings`


def _by_beginnings(asked: PermissionRequest, policy: Policy) -> Ruling | None:
    """The ruling of prefix rules on a whole line; None if they do not decide."""
    if asked.effect != "run":
        return None
    covered = covered_by_rules(asked, policy)
    prefixes = [one.prefix for one in covered]
    if (
        not any(prefixes)
        or None in prefixes
        or not all(stays_in_workspace(line, policy.root) for line in asked.subjects)
    ):
        return None
    used = " and ".join(f"{asked.tool}({' '.join(prefix)})" for prefix in dict.fromkeys(prefixes) if prefix)
    doubt = uncertain_file(covered, policy.root, policy.readable) or _link_target_reason(asked, covered, policy)
    if asked.read_only is None and not doubt:  # such a line runs unchanged
        doubt = uncertain_search(covered)
        if asked.by_settings and not doubt:
            doubt = f"this repository's settings make git run programs: {asked.by_settings}"
    doubt = doubt or asked_in_every_mode((), asked.named, policy.root, named_files(covered, policy.root))
    if doubt:
        return Ruling("ask", doubt)
    searches = asked.read_only is not None and asked.read_only.tool == "grep"
    return Ruling("allow", f"allow rule {used}", is_guarded=searches)


def _link_target_reason(asked: PermissionRequest, covered: Sequence[Coverage], policy: Policy) -> str:
    """Why a reading tool would ask about a file that links lead to."""
    named, shown = named_files(covered, policy.root), asked.read_only
    others = [path for path in (*asked.named.led, *(shown.paths if shown is not None else ())) if path not in named]
    if (
        shown is not None
        and shown.secret
        and posixpath.normpath(posixpath.join(policy.root, shown.secret)) not in named
    ):
        return f"`{shown.secret}` may hold secrets"
    outside = next((path for path in others if not is_within(path, (policy.root, *policy.readable))), None)
    return f"`{outside}` is outside the working folder" if outside is not None else ""


def covered_by_rules(asked: PermissionRequest, policy: Policy) -> tuple[Coverage, ...]:
    """Which prefix rules cover the commands of a line; empty if the line cannot be parsed."""
    prefixes = [tuple(rule.words) for rule in policy.allow if _names(rule, asked) and rule.prefix and rule.line is None]
    covered = [coverage_of(line, prefixes, asked.trusted, policy.root) for line in asked.subjects]
    return tuple(one for line in covered for one in line) if all(covered) else ()


def _place(rule: Rule, root: str) -> str:
    return posixpath.normpath(posixpath.join(root, rule.prefix))


def _is_same_or_within(path: str, folder: str) -> bool:
    """Like `is_within`, but names that some file system treats as equal are equal: for deny rules."""
    return is_within(normalised_path(path), (normalised_path(folder),))


def any_runs_later(asked: PermissionRequest, root: str) -> bool:
    return bool(asked.linked) or first_that_runs_later(asked.subjects, root) is not None
