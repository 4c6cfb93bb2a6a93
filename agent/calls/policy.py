"""The permission policy: decides whether a call may run, without accessing files or asking the user.

A rule is `TOOL` or `TOOL(PREFIX)`. TOOL may contain `*`. For tools that work on files, PREFIX is a file or folder,
relative to the working folder. For the shell, it is the first words of a command, as in `bash(git status)`, or one
exact line after `=`, as in `bash(=make test)`. For web requests, it is a host, `example.org`, or all subdomains,
`*.example.org`; `network(HOST)` also covers hosts that commands connect to. `mcp__SERVER` means all tools of a server;
such rules have no PREFIX, because what the calls do is unknown. `outside(PREFIX)` does not grant permission; it only
makes matching commands run outside the sandbox.

Rules apply in this order: deny rules, calls that always need approval, allow rules, the mode. An allow rule covers only
what is visible in the call; a deny rule covers everything that the call might mean.
"""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, TypeAlias

from ebbtide.agent import calls
from ebbtide.agent.calls.network_rules import NETWORK_TOOL, check_destination, matches_destination
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.errors import ConfigError
from ebbtide.tools import commands
from ebbtide.tools.apply_patch import ApplyPatch
from ebbtide.tools.base import Effect, ReadOnlyAccess
from ebbtide.tools.edit import Edit
from ebbtide.tools.files.autorun import autorun_reason, find_autorun_file, normalise_path
from ebbtide.tools.grep import Grep
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.extent import ellipsize, join_limited
from ebbtide.tools.read import Read
from ebbtide.tools.web_fetch import WebFetch
from ebbtide.tools.write import Write

if TYPE_CHECKING:  # imported only for its type, because most runs have no hooks
    from ebbtide.agent.calls.command_rules import Coverage
    from ebbtide.agent.hooks.answers import HookRuling

Verdict: TypeAlias = Literal["allow", "ask", "deny"]

_RULE_PATTERN = regex(r"(?P<tool>[A-Za-z0-9_*.-]+)(\((?P<prefix>.+)\))?", re.DOTALL)
_MCP_TOOL = regex(r"(mcp__.+?)__.")
OUTSIDE_SANDBOX_TOOL = "outside"
_FILE_CHANGING_TOOLS = (Write.name, Edit.name, ApplyPatch.name)
PLAN_MODE_REFUSALS: Mapping[Effect, str] = {
    "write": "plan mode changes nothing",
    "serve": "plan mode changes nothing",
    "run": "plan mode runs only commands that are known to look, such as `ls`, `cat`, `sed -n`, `find`, `rg` or "
    "`git log`, with their usual options, joined by `|`, `&&` or `;`, without files written",
}
_MAX_HOOK_REASON_CHARS = 200
"""Maximum length of a hook's reason as shown to the user, in characters."""
_MAX_LISTED_RULES = 8
"""Maximum number of skill rules that are listed in a reason."""


@dataclass(frozen=True, slots=True)
class Rule:
    tool: str
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.tool}({self.prefix})" if self.prefix else self.tool

    @property
    def exact_line(self) -> str | None:
        """The exact command line that the rule covers; None if it covers a prefix."""
        return self.prefix[1:] if self.prefix[:1] == "=" else None

    @property
    def words(self) -> list[str]:
        """The words of the command prefix or of the exact line."""
        return self.prefix.removeprefix("=").split()


def parse_rule(text: str) -> Rule:
    """Parse a rule. Raises `ConfigError`."""
    match = _RULE_PATTERN.fullmatch(text.strip())
    if match is None or (match["prefix"] or "all").strip() in ("", "="):
        raise ConfigError(f"`{text}` is not a rule; write `TOOL` or `TOOL(PREFIX)`, such as `bash(git status)`")
    rule = Rule(match["tool"], (match["prefix"] or "").removesuffix(":*").strip())
    if rule.tool == NETWORK_TOOL:
        check_destination(rule.prefix)
    return rule


def is_canonical_rule(text: str) -> bool:
    """Whether a rule is in canonical form: it names one tool, contains no invisible characters, and is unchanged by
    parsing."""
    match = _RULE_PATTERN.fullmatch(text)
    if match is None or "*" in match["tool"] or not text.isprintable():
        return False
    return str(parse_rule(text)) == text


@dataclass(frozen=True, slots=True)
class SkillBounds:
    """The tools that an active skill uses. While it is active, the mode alone does not allow any other call that runs
    or changes something."""

    skill: str
    rules: tuple[Rule, ...]
    is_read_by_model: bool = False
    """Whether the model read the skill on its own initiative, rather than the user naming it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules, mode, folders and limits that determine whether calls may run."""

    root: str
    """The working folder, absolute and resolved."""
    mode: PermissionMode = "ask"
    allow_rules: tuple[Rule, ...] = ()
    deny_rules: tuple[Rule, ...] = ()
    readable_folders: tuple[str, ...] = ()
    """Folders outside the working folder that may be read without asking, absolute and resolved."""
    no_shell_reason: str = ""
    """Why no shell command may run; empty if commands may run."""
    added_folders: tuple[str, ...] = ()
    """Folders that count like the working folder, absolute and resolved."""
    allows_sandboxed_commands: bool = False
    """Whether commands need no approval because they are sandboxed."""
    sandbox_problem: str = ""
    """Why commands are not sandboxed; auto mode then asks before commands that might change something. Empty if
    commands are sandboxed, or if the user accepts that they are not."""
    skill_bounds: tuple[SkillBounds, ...] = ()
    """The bounds of active skills. They limit the calls that the mode allows, but not those that the user's rules
    allow."""


@dataclass(frozen=True, slots=True)
class Ruling:
    verdict: Verdict
    decided_by: str
    """The rule or mode that decided, as text."""
    requires_read_only: bool = False
    """Whether the call must be restricted to reading when it runs."""
    reason: str = ""
    """The full reason, for the model; empty if `decided_by` says everything."""


def decide(request: PermissionRequest, policy: Policy) -> Ruling:
    """Decide whether a call may run, and by which rule or mode."""
    for rule in policy.deny_rules:
        if _denies(rule, request, policy.root):
            return Ruling("deny", f"deny rule {rule}")
    if request.effect == "run" and policy.no_shell_reason:
        return Ruling("deny", policy.no_shell_reason)
    if policy.mode == "plan" and request.effect in ("write", "run", "serve"):
        if request.read_only_access is None:
            return Ruling("deny", PLAN_MODE_REFUSALS[request.effect])
        return replace(_decide_like_reading_tool(request.read_only_access, policy), requires_read_only=True)
    possible_deny_rule = next((rule for rule in policy.deny_rules if _may_deny(rule, request, policy.root)), None)
    if possible_deny_rule is not None:
        return Ruling("ask", f"deny rule {possible_deny_rule} may forbid this; the call does not show it")
    for rule in policy.allow_rules:
        if _names_tool(rule, request) and _allows(rule, request, policy):
            return Ruling("allow", f"allow rule {rule}")
    ruling = _decide_by_prefixes(request, policy)
    mode_ruling = _apply_skill_bounds(_decide_by_mode(request, policy), request, policy)
    return mode_ruling if ruling is None or (ruling.verdict == "ask" and mode_ruling.verdict == "allow") else ruling


def apply_hook_ruling(request: PermissionRequest, policy: Policy, hook_ruling: "HookRuling | None") -> Ruling:
    """Decide about a call, given the hooks' ruling. Approval by hooks counts like an allow rule for the tool. It does
    not allow a call that is denied, that is in doubt, or that always needs approval. Project hooks cannot allow
    anything."""
    ruling = decide(request, policy)
    if ruling.verdict == "deny" or hook_ruling is None:
        return ruling
    visible_reason = ellipsize(" ".join(hook_ruling.reason.split()), _MAX_HOOK_REASON_CHARS)
    short_reason = f": {visible_reason}" if visible_reason else ""
    if hook_ruling.verdict == "deny":
        full_reason = f": {hook_ruling.reason.rstrip('.')}" if hook_ruling.reason else ""
        return Ruling(
            "deny",
            f"{hook_ruling.decided_by} denied it{short_reason}",
            reason=f"{hook_ruling.decided_by} denied it{full_reason}",
        )
    if hook_ruling.verdict == "ask":
        return Ruling("ask", f"{hook_ruling.decided_by} asks for your approval{short_reason}")
    if ruling.verdict == "allow" or not hook_ruling.is_from_user:
        return ruling
    allow_ruling = decide(request, replace(policy, allow_rules=(*policy.allow_rules, Rule(request.tool))))
    return (
        replace(allow_ruling, decided_by=f"your hook allowed it{short_reason}")
        if allow_ruling.verdict == "allow"
        else ruling
    )


def _decide_like_reading_tool(access: ReadOnlyAccess, policy: Policy) -> Ruling:
    """Decide about a read-only command as if it were a call to a reading tool. Files with secrets need approval, unless
    one of the user's rules allows that."""
    request = PermissionRequest(access.tool, "read", access.paths)
    ruling = decide(request, policy)
    if ruling.verdict != "allow" or not access.secret_path:
        return ruling
    is_named = any(_names_tool(rule, request) and _allows(rule, request, policy) for rule in policy.allow_rules)
    return ruling if is_named else Ruling("ask", f"`{access.secret_path}` may hold secrets")


def _decide_by_mode(request: PermissionRequest, policy: Policy) -> Ruling:
    if request.effect == "write":
        autorun_file = find_autorun_file(request.subjects, policy.root)
        if autorun_file is not None:
            path, reason = autorun_file
            return Ruling("ask", f"`{path}` can make other programs run commands: {reason}")
        if request.hard_linked_paths:
            return Ruling("ask", f"`{request.hard_linked_paths[0]}` is a hard link: its other names change with it")
    if request.effect == "none":
        return Ruling("allow", "it has no effect outside the session")
    ask_reason = calls.command_rules.reason_to_always_ask(
        request.subjects if request.effect == "read" else (), request.named_paths, policy.root
    )
    if ask_reason:
        return Ruling("ask", ask_reason)
    if request.tool == NETWORK_TOOL:
        return Ruling("ask", f"no rule allows network access to `{request.subjects[0]}`")
    if policy.mode == "auto" and not (request.effect == "run" and policy.sandbox_problem):
        return Ruling("allow", "auto mode")
    if request.effect == "run":
        return _ruling_on_command(request, policy)
    if request.effect == "serve":
        return Ruling("ask", f"{policy.mode} mode: MCP tools need your OK")
    if request.effect == "fetch":
        return Ruling("ask", f"{policy.mode} mode: web access needs your OK")
    working_folders = (policy.root, *policy.added_folders)
    outside_path = next(
        (path for path in request.subjects if not calls.command_rules.is_within(path, working_folders)), None
    )
    if request.effect == "read":
        if all(
            calls.command_rules.is_within(path, (*working_folders, *policy.readable_folders))
            for path in request.subjects
        ):
            return Ruling("allow", "reading inside the working folder")
        return Ruling("ask", f"`{outside_path}` is outside the working folder")
    if outside_path is not None:
        return Ruling("ask", f"`{outside_path}` is outside the working folder")
    if policy.mode == "accept-edits":
        return Ruling("allow", "accept-edits mode")
    return Ruling("ask", f"{policy.mode} mode: file changes need your OK")


def _ruling_on_command(request: PermissionRequest, policy: Policy) -> Ruling:
    """Decide about a command that no rule covers. A command that can only read is treated like the reading tools;
    others need approval."""
    if policy.mode != "auto" and policy.allows_sandboxed_commands and not runs_unsandboxed(request, policy):
        return Ruling("allow", "it runs in the sandbox")
    if (
        request.tool != OUTSIDE_SANDBOX_TOOL
        and request.read_only_access is not None
        and request.read_only_access.paths != ("/",)
    ):
        ruling = _decide_like_reading_tool(request.read_only_access, policy)
        if not request.runs_in_read_only_sandbox:
            return replace(ruling, requires_read_only=True)
        if not runs_unsandboxed(request, policy):
            return replace(ruling, requires_read_only=ruling.verdict == "allow")  # approved commands run unrestricted
    if policy.mode == "auto":
        reason = f"commands are not sandboxed: {policy.sandbox_problem}; `--no-sandbox` runs them anyway"
        return Ruling("ask", reason)
    return Ruling("ask", f"{policy.mode} mode: commands need your OK")


def _apply_skill_bounds(ruling: Ruling, request: PermissionRequest, policy: Policy) -> Ruling:
    """Apply the bounds of active skills to what the mode allowed. They do not restrict reading. If several skills are
    active, one skill that allows the call is enough."""
    if ruling.verdict != "allow" or not policy.skill_bounds or request.effect in ("none", "read"):
        return ruling
    rules = tuple(rule for bounds in policy.skill_bounds for rule in bounds.rules)
    skill_policy = Policy(
        policy.root, "ask", rules, policy.deny_rules, policy.readable_folders, added_folders=policy.added_folders
    )
    skill_ruling = decide(request, skill_policy)
    if skill_ruling.verdict == "allow":
        return replace(ruling, requires_read_only=ruling.requires_read_only or skill_ruling.requires_read_only)
    return Ruling("ask", skill_bounds_text(policy.skill_bounds))


def skill_bounds_text(bounds: Sequence[SkillBounds]) -> str:
    """Describe the active skills, their tools, and whether the model activated them."""
    skills_text = " and ".join(
        f"`{skill.skill}`{', which the model has read,' * skill.is_read_by_model}" for skill in bounds
    )
    rules = dict.fromkeys(str(rule) for skill in bounds for rule in skill.rules)
    rules_text = join_limited(list(rules), _MAX_LISTED_RULES) or "nothing that runs or changes something"
    in_use = " in use until this turn ends," if skills_text.endswith(",") else ", in use until this turn ends,"
    return f"{skills_text}{in_use} {'works' if len(bounds) == 1 else 'work'} with {rules_text}"


def runs_unsandboxed(request: PermissionRequest, policy: Policy) -> bool:
    """Whether the user's rules make the whole command run outside the sandbox."""
    return policy.mode != "plan" and decide(*unsandboxed_variant(request, policy)).verdict == "allow"


def unsandboxed_variant(request: PermissionRequest, policy: Policy) -> tuple[PermissionRequest, Policy]:
    """Return a variant of the request and policy in which `outside` rules count as allow rules. If that policy allows
    the request, the command runs outside the sandbox."""
    allow, deny = (
        tuple(rule for rule in rules if rule.tool == OUTSIDE_SANDBOX_TOOL)
        for rules in (policy.allow_rules, policy.deny_rules)
    )
    prefix_rules = tuple(rule for rule in allow if rule.prefix)  # without a prefix, it would disable the sandbox
    return replace(request, tool=OUTSIDE_SANDBOX_TOOL), Policy(
        policy.root, "ask", prefix_rules, deny, policy.readable_folders
    )


def rule_matches_call(rule: Rule, request: PermissionRequest, root: str) -> bool:
    """Whether a rule names something that the call involves: its tool or server, a command of the line, a file, or a
    folder that contains the file. A trailing `*` matches any continuation."""
    if not _names_tool(rule, request):
        return False
    if request.effect == "fetch":
        return matches_destination(rule.prefix, request.subjects, matches_any_port=True)
    rule = Rule(rule.tool, rule.prefix.removesuffix("*"))
    if request.effect == "run":
        rule_words = [word.casefold() for word in rule.words]
        interpretations = (
            interpretation
            for command in request.subjects
            for interpretation in calls.command_rules.shell_interpretations(command)
        )
        return not rule_words or any(
            calls.command_rules.matches_deny_rule(interpretation, rule_words) for interpretation in interpretations
        )
    return not rule.prefix or any(_matches_folder(path, _rule_path(rule, root)) for path in request.subjects)


def _names_tool(rule: Rule, request: PermissionRequest) -> bool:
    if rule.tool == request.tool or (rule.tool == NETWORK_TOOL and request.effect == "fetch"):
        return True
    return fnmatchcase(request.tool, rule.tool) or rule.tool == server_prefix(request.tool)


def server_prefix(tool: str) -> str:
    """Return `mcp__SERVER` for a tool of an MCP server; empty for any other tool."""
    match = _MCP_TOOL.match(tool)
    return match[1] if match else ""


def _denies(rule: Rule, request: PermissionRequest, root: str) -> bool:
    """Whether a deny rule applies. Every word of a command is examined, even inside wrappers such as `sudo`. In doubt,
    the rule applies."""
    if not _applies_to_tool(rule, request) and not (_searches_forbidden_content(rule, request) and request.subjects):
        return False
    if not rule.prefix:
        return True
    if request.effect == "fetch":
        return matches_destination(rule.prefix, request.subjects, matches_any_port=True)
    if request.effect != "run":
        denied_path = _rule_path(rule, root)
        is_in_denied_path = any(_matches_folder(path, denied_path) for path in request.subjects)
        # Reading a folder only lists file names, and `glob` lists them as well.
        contains_denied_path = request.tool != Read.name and any(
            _matches_folder(denied_path, path) for path in request.subjects
        )
        return is_in_denied_path or (_applies_to_tool(rule, request) and contains_denied_path)
    rule_words = [word.casefold() for word in rule.words]
    return any(
        calls.command_rules.matches_deny_rule(interpretation, rule_words)
        for command in request.subjects
        for interpretation in calls.command_rules.shell_interpretations(command)
    )


def _applies_to_tool(rule: Rule, request: PermissionRequest) -> bool:
    """Whether a deny rule applies to the tool of a call. A rule against one tool that changes files applies to all such
    tools, and a rule against fetching from a host applies to commands that connect to it."""
    if _names_tool(rule, request) or (rule.tool in _FILE_CHANGING_TOOLS and request.effect == "write"):
        return True
    return rule.tool == WebFetch.name and bool(rule.prefix) and request.tool == NETWORK_TOOL


def _may_deny(rule: Rule, request: PermissionRequest, root: str) -> bool:
    """Whether a deny rule might apply to something that the call does not show."""
    if not rule.prefix:
        return False
    if request.effect == "run":
        program = rule.words[0].casefold() if len(rule.words) > 1 else ""
        return _names_tool(rule, request) and any(
            commands.nested.has_hidden_program(line)
            or commands.nested.has_unparsed_strings(line)
            or (program and commands.nested.has_hidden_arguments(line, program))
            for line in request.subjects
        )
    if request.effect == "serve":
        return _names_tool(rule, request)
    return _searches_forbidden_content(rule, request) and any(
        _matches_folder(_rule_path(rule, root), path) for path in request.subjects
    )


def _searches_forbidden_content(rule: Rule, request: PermissionRequest) -> bool:
    """Whether the rule forbids `read` and the call is a `grep`, which also shows file contents."""
    return rule.tool == Read.name and request.tool == Grep.name


def _allows(rule: Rule, request: PermissionRequest, policy: Policy) -> bool:
    if request.effect == "fetch":
        return matches_destination(rule.prefix, request.subjects)
    if request.effect != "run":
        rule_path = _rule_path(rule, policy.root)
        if rule.prefix and not (
            request.subjects and all(calls.command_rules.is_within(path, (rule_path,)) for path in request.subjects)
        ):
            return False
        is_exact = set(request.subjects) == {rule_path}
        names_autorun_file = is_exact or (
            bool(rule.prefix) and not request.hard_linked_paths and bool(autorun_reason(rule_path, policy.root))
        )
        return request.effect != "write" or names_autorun_file or not changes_autorun_file(request, policy.root)
    if not rule.prefix:
        return not (request.named_paths.autorun_files or request.named_paths.is_incomplete)
    if rule.exact_line is not None:
        return all(
            subject == rule.exact_line and calls.command_rules.is_fully_visible(subject, policy.root)
            for subject in request.subjects
        )
    return False  # prefixes are matched together, in `_decide_by_prefixes`


def _decide_by_prefixes(request: PermissionRequest, policy: Policy) -> Ruling | None:
    """Return the ruling if prefix rules cover every command of the line; None otherwise."""
    if request.effect != "run":
        return None
    coverages = command_coverage(request, policy)
    prefixes = [coverage.prefix for coverage in coverages]
    if (
        not any(prefixes)
        or None in prefixes
        or not all(calls.command_rules.stays_in_workspace(line, policy.root) for line in request.subjects)
    ):
        return None
    rules_text = " and ".join(f"{request.tool}({' '.join(prefix)})" for prefix in dict.fromkeys(prefixes) if prefix)
    ask_reason = calls.command_rules.reason_to_ask_about_files(
        coverages, policy.root, policy.readable_folders
    ) or _link_target_reason(request, coverages, policy)
    if request.proved_access is None and not ask_reason:  # as the line runs unchanged, searches include secrets
        ask_reason = calls.command_rules.reason_to_ask_about_search(coverages)
        if request.git_settings_programs and not ask_reason:
            ask_reason = f"this repository's settings make git run programs: {request.git_settings_programs}"
    ask_reason = ask_reason or calls.command_rules.reason_to_always_ask(
        (), request.named_paths, policy.root, calls.command_rules.rule_paths(coverages, policy.root)
    )
    if ask_reason:
        return Ruling("ask", ask_reason)
    is_search = request.proved_access is not None and request.proved_access.tool == Grep.name
    return Ruling("allow", f"allow rule {rules_text}", requires_read_only=is_search)


def _link_target_reason(request: PermissionRequest, coverages: "Sequence[Coverage]", policy: Policy) -> str:
    """Return why a reading tool would need approval for the file that a link points to; empty if it would not."""
    rule_named_paths, access = calls.command_rules.rule_paths(coverages, policy.root), request.proved_access
    other_paths = [
        path
        for path in (*request.named_paths.link_targets, *(access.paths if access is not None else ()))
        if path not in rule_named_paths
    ]
    if (
        access is not None
        and access.secret_path
        and posixpath.normpath(posixpath.join(policy.root, access.secret_path)) not in rule_named_paths
    ):
        return f"`{access.secret_path}` may hold secrets"
    outside_path = next(
        (
            path
            for path in other_paths
            if not calls.command_rules.is_within(path, (policy.root, *policy.readable_folders))
        ),
        None,
    )
    return f"`{outside_path}` is outside the working folder" if outside_path is not None else ""


def command_coverage(request: PermissionRequest, policy: Policy) -> "tuple[Coverage, ...]":
    """Return each command of the request with the prefix rule that covers it; empty if a line cannot be parsed."""
    prefixes = [
        tuple(rule.words)
        for rule in policy.allow_rules
        if _names_tool(rule, request) and rule.prefix and rule.exact_line is None
    ]
    covered = [
        calls.command_rules.find_coverage(line, prefixes, request.trusted_launches, policy.root)
        for line in request.subjects
    ]
    return tuple(coverage for line in covered for coverage in line) if all(covered) else ()


def _rule_path(rule: Rule, root: str) -> str:
    return posixpath.normpath(posixpath.join(root, rule.prefix))


def _matches_folder(path: str, folder: str) -> bool:
    """Like `is_within`, but also matches names that some file systems treat as equal, such as those that differ in
    case. For deny rules."""
    return calls.command_rules.is_within(normalise_path(path), (normalise_path(folder),))


def changes_autorun_file(request: PermissionRequest, root: str) -> bool:
    return bool(request.hard_linked_paths) or find_autorun_file(request.subjects, root) is not None
