"""Whether hooks may run: those of the project as the folder is trusted; those that the user has for another program
once they have said so, for all projects."""

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
"""What a key that is pressed by mistake answers comes first."""


class HasStanding(Protocol):
    def standing(self, item: TrustItem) -> Standing: ...


class Trust(HasStanding, Protocol):
    def decide(self, item: TrustItem, verdict: Verdict) -> None: ...

    def forget(self, item: TrustItem) -> None: ...


def trust_of_user(config: Config) -> FolderTrust:
    """What the user has decided about hooks that they have for another program. A file of theirs is approved for all
    projects: it counts as one that lies in the home folder."""
    return FolderTrust(replace(config, project=config.folders.home or config.project))


def standing(hook: DeclaredHook, project: "HasStanding", user: FolderTrust) -> Standing:
    """Whether it may run: those that are on."""
    if hook.file is None:
        return "on"
    return (project if hook.owner == "project" else user).standing(hook.file.item)


class HookApproval:
    """That of one session."""

    def __init__(self, config: Config, channel: Channel, project: Trust) -> None:
        self._channel, self._project = channel, project
        self._user = trust_of_user(config)
        self._postponed: set[str] = set()

    def standing(self, hook: DeclaredHook) -> Standing:
        return standing(hook, self._project, self._user)

    def decide(self, hook: DeclaredHook, verdict: Verdict | None) -> None:
        """Keeps what the user says of all hooks of its file, without being asked; None takes it back. Raises
        `ConfigError` when it holds for this session only."""
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
        """Asks about those that the user has for another program and has not decided about. `files`: these."""
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
                    self._channel.notice(f"what you decided holds for this session only: {error}")


def question(item: TrustItem, standing: Standing) -> str:
    """May these hooks run here, too? Shows all that would be approved."""
    has = "has changed its hooks, which" if standing == "changed" else "has hooks that"
    lines = (
        f"`{item.source}` {has} were written for Claude Code:",
        "",
        *(f"  {line}" for line in item.details),
        "",
        AS_YOURS,
    )
    return "\n".join((*lines, "May they run here, too?"))
