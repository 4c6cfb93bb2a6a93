"""Approval of hooks. A project's hooks are approved with its other extensions. Hooks that the user wrote for another
agent are approved once for all projects."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from ebbtide.agent.channel import Channel
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.extensions.trust import ProjectTrust, TrustItem, TrustState, TrustVerdict
from ebbtide.agent.hooks.declarations import UNSANDBOXED_HOOKS_NOTE, DeclaredHook, HookFile

POSTPONE_OPTION, APPROVE_OPTION, REFUSE_OPTION = "not now", "approve", "never"
APPROVAL_OPTIONS = (POSTPONE_OPTION, APPROVE_OPTION, REFUSE_OPTION)
"""Options of the question. The safe option comes first, in case a key is pressed by mistake."""


class TrustReader(Protocol):
    def trust_state(self, item: TrustItem) -> TrustState: ...


class TrustStore(TrustReader, Protocol):
    def decide(self, item: TrustItem, verdict: TrustVerdict) -> None: ...

    def forget(self, item: TrustItem) -> None: ...


def user_hook_trust(config: Config) -> ProjectTrust:
    """Return the user's decisions about hooks configured for another agent. They apply to all projects, so they are
    stored as if the home folder were the project."""
    return ProjectTrust(replace(config, project_folder=config.folders.home or config.project_folder))


def hook_trust_state(hook: DeclaredHook, project_trust: "TrustReader", user_trust: ProjectTrust) -> TrustState:
    """Return the approval state of a hook. Only hooks in the state "on" run."""
    if hook.hook_file is None:
        return "on"
    return (project_trust if hook.owner == "project" else user_trust).trust_state(hook.hook_file.trust_item)


class HookApproval:
    """The decisions about hooks in one session."""

    def __init__(self, config: Config, channel: Channel, project_trust: TrustStore) -> None:
        self._channel, self._project_trust = channel, project_trust
        self._user_trust = user_hook_trust(config)
        self._postponed_digests: set[str] = set()

    def trust_state(self, hook: DeclaredHook) -> TrustState:
        return hook_trust_state(hook, self._project_trust, self._user_trust)

    def decide(self, hook: DeclaredHook, verdict: TrustVerdict | None) -> None:
        """Store a decision about all hooks in the hook's file; None removes the decision. Raises `ConfigError` if
        saving fails; the decision then applies to this session only."""
        if hook.hook_file is None:
            return
        item = hook.hook_file.trust_item
        if hook.owner == "project":
            self._project_trust.forget(item) if verdict is None else self._project_trust.decide(item, verdict)
        elif verdict is not None:
            self._user_trust.decide([item], verdict)
        else:
            self._postponed_digests.discard(item.digest)
            self._user_trust.forget([item.key])

    async def ask_about_files(self, files: Sequence[HookFile]) -> None:
        """Ask about each undecided file among `files`, the user's hook files for another agent. If there is no user to
        ask, these files are skipped with a notice."""
        for item in (file.trust_item for file in files):
            trust_state = self._user_trust.trust_state(item)
            if trust_state in ("on", "refused") or item.digest in self._postponed_digests:
                continue
            self._postponed_digests.add(item.digest)
            if not self._channel.is_interactive:
                description = "have changed since you approved them" if trust_state == "changed" else "are not approved"
                self._channel.show_notice(
                    f"the hooks of `{item.source}` {description}, so they are skipped; start `ebb` in a terminal to "
                    "decide, or give `--trust`"
                )
                continue
            answer = await self._channel.questions.ask_text(
                approval_question(item, trust_state), APPROVAL_OPTIONS, is_lasting=True, accepts_text=False
            )
            if answer in (APPROVE_OPTION, REFUSE_OPTION):
                try:
                    self._user_trust.decide([item], "approved" if answer == APPROVE_OPTION else "refused")
                except ConfigError as error:
                    self._channel.show_notice(f"your decision applies to this session only: {error}")


def approval_question(item: TrustItem, state: TrustState) -> str:
    """Build the question that asks whether these hooks may run. The question lists everything that would be
    approved."""
    introduction = "has changed its hooks, which" if state == "changed" else "has hooks that"
    lines = (
        f"`{item.source}` {introduction} were written for Claude Code:",
        "",
        *(f"  {line}" for line in item.details),
        "",
        UNSANDBOXED_HOOKS_NOTE,
    )
    return "\n".join((*lines, "May they run here as well?"))
