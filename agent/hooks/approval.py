"""Whether hooks may run: those of the project as the folder is trusted; those that the user has for another program
once they have said so, for all projects."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from agent.channel import Channel
from agent.config.values import Config
from agent.errors import ConfigError
from agent.extensions.trust import FolderTrust, Item, Standing
from agent.hooks.declared import AS_YOURS, Hook, HookFile

LATER, APPROVE, NEVER = "not now", "approve", "never"
OPTIONS = (LATER, APPROVE, NEVER)
"""What a key that is pressed by mistake answers comes first."""


class Trust(Protocol):
    def standing(self, item: Item) -> Standing: ...


class HookApproval:
    """That of one session."""

    def __init__(self, config: Config, channel: Channel, project: Trust) -> None:
        self._channel, self._project = channel, project
        # A file of the user's is approved for all projects: it counts as one that lies in the home folder.
        home = config.folders.home or config.project
        self._user = FolderTrust(replace(config, project=home))
        self._postponed: set[str] = set()

    def standing(self, hook: Hook) -> Standing:
        """Whether it may run: those that are on."""
        if hook.file is None:
            return "on"
        return (self._project if hook.owner == "project" else self._user).standing(hook.file.item)

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
            answer = await self._channel.questions.words(
                question(item, standing), OPTIONS, is_lasting=True, takes_words=False
            )
            if answer in (APPROVE, NEVER):
                try:
                    self._user.decide([item], "approved" if answer == APPROVE else "refused")
                except ConfigError as error:
                    self._channel.notice(f"what you decided holds for this session only: {error}")


def question(item: Item, standing: Standing) -> str:
    """May these hooks run here, too? Shows all that would be approved."""
    has = "has changed its hooks, which" if standing == "changed" else "has hooks that"
    lines = (
        f"`{item.source}` {has} were written for Claude Code:",
        "",
        *(f"  {line}" for line in item.shown),
        "",
        AS_YOURS,
    )
    return "\n".join((*lines, "May they run here, too?"))
