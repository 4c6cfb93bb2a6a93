"""The part of `ebb import` for models, rules and servers of other agents."""

import argparse
import os
from collections.abc import Callable, Sequence

from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.imports.agent_folders import AGENTS, AgentName, agent_folders
from ebbtide.agent.imports.servers import ServerOffer, server_offers
from ebbtide.agent.imports.settings import SettingOffer, setting_offers, why_not_set, write_setting
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.cli.mcp_import import show_servers, write_servers
from ebbtide.tui.text.sanitise import sanitised_line

Ask = Callable[[str], bool]
"""Asks the user a yes/no question."""


class OtherSettings:
    """Settings and servers of other agents."""

    def __init__(self, config: Config, agents: Sequence[AgentName] | None, what: Sequence[str]) -> None:
        """`agents`: import only from these; None: from all programs, some of which have only servers. `what`: kinds
        to look at."""
        folders = agent_folders(os.environ)
        settings, self.problems = setting_offers(folders, config.project)
        self._settings = [one for one in settings if (agents is None or one.agent in agents) and one.what in what]
        self._servers: list[ServerOffer] = []
        if "servers" in what:
            servers, problems = server_offers(folders, config)
            self._servers = [one for one in servers if agents is None or one.agent in agents]
            self.problems += [one for one in problems if one not in self.problems]
        self._config = config

    def show(self) -> None:
        for agent, label in AGENTS.items():
            some = [one for one in self._settings if one.agent == agent]
            for source in dict.fromkeys(one.source for one in some):
                print(sanitised_line(f"{label}, set in {source}:"))
                for one in some:
                    if one.source == source:
                        print(sanitised_line(f"    {one.line}"))
        if self._servers:
            print("Servers:")
            show_servers(self._servers)

    def take(self, options: argparse.Namespace, asked: Ask) -> dict[str, object]:
        """Import what the user confirms, kind by kind; return what was written and what was skipped."""
        done: dict[str, object] = {}
        for what, question in (("model", "Set the model as it is set there?"), ("rules", "Add {} for calls?")):
            some = [one for one in self._settings if one.what == what]
            fit = [one for one in some if not why_not_set(one, self._config)]
            if fit and asked(question.format(pluralize(len(fit), "rule"))):
                done[what] = self._write(some, options)
        usable = [one for one in self._servers if not one.problem]
        if usable and asked(f"Add {pluralize(len(usable), 'server')}?"):
            written, left = write_servers(self._servers, self._config, quiet=options.json)
            done["servers"] = {"written": written, "left": left}
        return done

    def _write(self, some: Sequence[SettingOffer], options: argparse.Namespace) -> dict[str, object]:
        written, left = list[str](), dict[str, str]()
        for one in some:
            why = why_not_set(one, self._config)
            if not why:
                try:
                    write_setting(one, self._config)
                except ConfigError as error:
                    why = str(error)
            if why:
                left[one.original] = why
            else:
                written.append(f"{one.key} {one.value}")
            if not options.json and (not why or not one.problem):
                print(sanitised_line(f"left out {one.original}: {why}" if why else f"set {one.key} {one.value}"))
        return {"written": written, "left": left}

    def as_json(self) -> dict[str, object]:
        return {
            "settings": [
                {"agent": one.agent, "said": one.original, "key": one.key, "value": one.value, "problem": one.problem}
                for one in self._settings
            ],
            "servers": [{"agent": one.agent, "name": one.name, "problem": one.problem} for one in self._servers],
        }

    @property
    def is_empty(self) -> bool:
        return not self._settings and not self._servers
