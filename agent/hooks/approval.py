"""Approval of hooks: a project's hooks follow the trust in its folder; the user's hooks for another agent are approved
once, for all projects."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from ebbtide.agent.channel import Channel
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.extensions.trust import FolderTrust, Standing, TrustItem, Verdict
from ebbtide.agent.hooks.declarations import AS_YOURS, DeclaredHook, HookFile

LATER, APPROVE, NEVER = "not now", "approve", "never"
OPTIONS = (LATER, APPROVE, NEVER)
"""The safe answer comes first, in case a key is pressed by mistake."""


class HasStanding(Protocol):
    def standing(self, item: TrustItem) -> Standing: ...


class Trust(HasStanding, Protocol):
    def decide(self, item: TrustItem, verdict: Verdict) -> None: ...

    def forget(self, item: TrustItem) -> None: ...


def trust_of_user(config: Config) -> FolderTrust:
    """The user's decisions about hooks configured for another agent. They apply to all projects, as if the file were in
    the home folder."""
    return FolderTrust(replace(config, project=config.folders.home or config.project))


def standing(hook: DeclaredHook, project: "HasStanding", user: FolderTrust) -> Standing:
    """The approval state of a hook; only hooks that are "on" run."""
    if hook.file is None:
        return "on"
    return (project if hook.owner == "project" else user).standing(hook.file.item)


class HookApproval:
    """Hook approval of one session."""

    def __init__(self, config: Config, channel: Channel, project: Trust) -> None:
        self._channel, self._project = channel, project
        self._user = trust_of_user(config)
        self._postponed: set[str] = set()

    def standing(self, hook: DeclaredHook) -> Standing:
        return standing(hook, self._project, self._user)

    def decide(self, hook: DeclaredHook, verdict: Verdict | None) -> None:
        """Store a decision about all hooks in the hook's file; None removes it. Raises `ConfigError` if it could not be
        saved and therefore applies to this session only."""
        if hook.file is None:
            return
        item = hook.file.item
        if hook.owner == "project":
            self._project.forget(item) if verdict is None else self._project.decide(item, verdict)
        elif verdict is not None:
            self._user.decide([item], verdict)
        else:
            self._postponed.discard(item.digest)
            self._user.forget([item.key])

    async def settle(self, files: Sequence[HookFile]) -> None:
        """Ask about each of `files`, the user's hook files for another agent, that has no decision yet."""
        for item in (file.item for file in files):
            standing = self._user.standing(item)
            if standing in ("on", "refused") or item.digest in self._postponed:
                continue
            self._postponed.add(item.digest)
            if not self._channel.is_interactive:
                what = "have changed since you approved them" if standing == "changed" else "are not approved"
                self._channel.notice(
                    f"the hooks of `{item.source}` {what}, so they are left out; start `ebb` in a terminal to decide, "
                    "or give `--trust`"
                )
                continue
            answer = await self._channel.questions.ask_text(
                question(item, standing), OPTIONS, is_lasting=True, takes_words=False
            )
            if answer in (APPROVE, NEVER):
                try:
                    self._user.decide([item], "approved" if answer == APPROVE else "refused")
                except ConfigError as error:
                    self._channel.notice(f"your decision applies to this session only: {error}")


def question(item: TrustItem, standing: Standing) -> str:
    """Build the question whether these hooks may run, listing everything that would be approved."""
    has = "has changed its hooks, which" if standing == "changed" else "has hooks that"
    lines = (
        f"`{item.source}` {has} were written for Claude Code:",
        "",
        *(f"  {line}" for line in item.details),
        "",
        AS_YOURS,
    )
    return "\n".join((*lines, "May they run here as well?"))
