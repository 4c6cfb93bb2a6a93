"""The part of `ebb import` that handles other agents' models, key commands, rules and servers."""

import argparse
import os
from collections.abc import Callable, Sequence

from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.integrations.imports.agent_folders import AGENT_LABELS, AgentName, find_agent_folders
from ebbtide.agent.integrations.imports.servers import ImportableServer, find_importable_servers
from ebbtide.agent.integrations.imports.settings import (
    ImportableSetting,
    find_importable_settings,
    setting_problem,
    write_setting,
)
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.integrations.imports.servers import print_servers, write_servers
from ebbtide.tui.text.sanitise import sanitise_line

Confirm = Callable[[str], bool]
"""Asks the user a yes-no question and returns the answer."""


class ImportableSettings:
    """Settings and servers of other agents."""

    def __init__(self, config: Config, agents: Sequence[AgentName] | None, kinds: Sequence[str]) -> None:
        """`agents`: the agents to import from; None for all, including those from which only servers can be imported.
        `kinds`: the kinds of data to import."""
        folders = find_agent_folders(os.environ)
        settings, self.problems = find_importable_settings(folders, config.project_folder)
        self._settings = [
            setting for setting in settings if (agents is None or setting.agent in agents) and setting.kind in kinds
        ]
        self._servers: list[ImportableServer] = []
        if "servers" in kinds:
            servers, problems = find_importable_servers(folders, config)
            self._servers = [server for server in servers if agents is None or server.agent in agents]
            self.problems += [problem for problem in problems if problem not in self.problems]
        self._config = config

    def print_all(self) -> None:
        for agent, label in AGENT_LABELS.items():
            agent_settings = [setting for setting in self._settings if setting.agent == agent]
            for source in dict.fromkeys(setting.source for setting in agent_settings):
                print(sanitise_line(f"{label}, from {source}:"))
                for setting in agent_settings:
                    if setting.source == source:
                        print(sanitise_line(f"    {setting.description}"))
        if self._servers:
            print("Servers:")
            print_servers(self._servers)

    def import_with_confirmation(self, options: argparse.Namespace, confirm: Confirm) -> dict[str, object]:
        """Import what the user confirms, one kind at a time. Returns what was written and what was skipped."""
        results: dict[str, object] = {}
        questions = {
            "model": "Use the same model here?",
            "key": "Get the key for Anthropic from the same command?",
            "rules": "Add {} to your permissions?",
        }
        for kind, question in questions.items():
            settings = [setting for setting in self._settings if setting.kind == kind]
            valid_settings = [setting for setting in settings if not setting_problem(setting, self._config)]
            if valid_settings and confirm(question.format(pluralize(len(valid_settings), "rule"))):
                results[kind] = self._write_settings(settings, options)
        valid_servers = [server for server in self._servers if not server.problem]
        if valid_servers and confirm(f"Add {pluralize(len(valid_servers), 'server')}?"):
            written, skipped = write_servers(self._servers, self._config, is_quiet=options.json)
            results["servers"] = {"written": written, "left": skipped}
        return results

    def _write_settings(self, settings: Sequence[ImportableSetting], options: argparse.Namespace) -> dict[str, object]:
        written_settings, skipped = list[str](), dict[str, str]()
        for setting in settings:
            problem = setting_problem(setting, self._config)
            if not problem:
                try:
                    write_setting(setting, self._config)
                except ConfigError as error:
                    problem = str(error)
            if problem:
                skipped[setting.original] = problem
            else:
                written_settings.append(f"{setting.key} {setting.redacted_value}")
            if not options.json and (not problem or not setting.problem):
                print(
                    sanitise_line(
                        f"skipped {setting.original}: {problem}"
                        if problem
                        else f"set {setting.key} {setting.redacted_value}"
                    )
                )
        return {"written": written_settings, "left": skipped}

    def as_json(self) -> dict[str, object]:
        return {
            "settings": [
                {
                    "agent": setting.agent,
                    "said": setting.original,
                    "key": setting.key,
                    "value": setting.redacted_value,
                    "problem": setting.problem,
                }
                for setting in self._settings
            ],
            "servers": [
                {"agent": server.agent, "name": server.name, "problem": server.problem} for server in self._servers
            ],
        }

    @property
    def is_empty(self) -> bool:
        return not self._settings and not self._servers
