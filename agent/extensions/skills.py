"""Skills: folders with a SKILL.md and supporting files. Finds skills and lists them for the model, but runs none of
their programs."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.discovery import discover_extensions, ignored_hook_notices
from ebbtide.agent.extensions.extension_files import UnusableFileError, hash_folder, read_text_file
from ebbtide.agent.extensions.extension_folders import ExtensionFolder, ExtensionOwner, ExtensionSource
from ebbtide.agent.extensions.front_matter import boolean_value, list_value, one_line_value, split_front_matter
from ebbtide.agent.extensions.trust import ProjectTrust, TrustItem, create_trust_item
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize

MAX_DESCRIPTION_CHARS = 300
"""Maximum length of a description in the list, in characters."""
MAX_LISTED_FILES = 30


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill. It can be used once it is approved."""

    name: str
    description: str
    path: Path
    """The path of the skill's SKILL.md."""
    extension_folder: ExtensionFolder
    argument_hint: str
    """A hint for the user about the arguments."""
    requested_tools: tuple[str, ...]
    """Tools that the skill wants to use without asking."""
    is_listed_for_model: bool
    """Whether the skill is listed for the model."""
    is_user_invocable: bool
    """Whether the user may invoke the skill by name."""
    trust_item: TrustItem
    model: str = ""
    """The model for turns in which the user invokes the skill; empty for the current one."""
    has_hooks: bool = False
    """Whether the file declares hooks, which are not run."""
    argument_names: tuple[str, ...] = ()
    """The names of the skill's arguments, in order."""

    def with_name(self, name: str) -> Self:
        return replace(self, name=name)

    @property
    def plugin_name(self) -> str:
        """The name of the plugin that contains the skill; empty if none does."""
        return self.extension_folder.plugin_name

    @property
    def source(self) -> ExtensionSource:
        return self.extension_folder.source

    @property
    def owner(self) -> ExtensionOwner:
        return self.trust_item.owner

    def is_unchanged(self) -> bool:
        """Whether the skill's files are unchanged since it was approved."""
        if self.owner != "project":
            return True
        try:
            return hash_folder(self.path.parent, self.path.parent)[0] == self.trust_item.digest
        except UnusableFileError:
            return False


def find_skills(config: Config) -> tuple[tuple[Skill, ...], tuple[str, ...]]:
    """Find all skills. Also return one line for each skipped skill."""
    skills, problems = discover_extensions("skill", config, _read_skill)
    return skills, (*problems, *ignored_hook_notices("skill", skills))


def format_skill_list(skills: Sequence[Skill]) -> str:
    """Format the system prompt section that lists skills and explains how to read them; empty if there are no
    skills."""
    lines = [format_skill_line(skill) for skill in skills if skill.is_listed_for_model]
    intro = "# Skills\n\nEach is a file that says how to do something. Read it before you do what it describes."
    return "\n".join([intro, "", *lines]) if lines else ""


def format_skill_line(skill: Skill) -> str:
    return f"- {skill.name}: {ellipsize(skill.description, MAX_DESCRIPTION_CHARS)} ({skill.path})"


def initial_skill_list(config: Config) -> str:
    """Return the section of the system prompt that lists the skills usable at the start of a session."""
    trust = ProjectTrust(config)
    return format_skill_list([skill for skill in find_skills(config)[0] if trust.trust_state(skill.trust_item) == "on"])


def read_skill_body(skill: Skill) -> str:
    """Return the text of a skill with its folder variables replaced. Raises `UnusableFileError` and
    `FrontMatterError`."""
    body = split_front_matter(read_text_file(skill.path, None))[1].replace(
        "${CLAUDE_SKILL_DIR}", str(skill.path.parent)
    )
    return skill.extension_folder.expand_plugin_root(body)


def _read_skill(path: Path, extension_folder: ExtensionFolder) -> Skill:
    folder = path.parent
    if extension_folder.boundary is not None and not Path(os.path.realpath(folder)).is_relative_to(
        extension_folder.boundary
    ):
        raise UnusableFileError("it leads outside the project")
    is_from_project = extension_folder.owner == "project"
    front_matter, body = split_front_matter(read_text_file(path, folder if is_from_project else None))
    name = one_line_value(front_matter, "name") or folder.name
    description = one_line_value(front_matter, "description") or first_sentence(body)
    if not description:
        raise UnusableFileError("it has no description")
    digest, files = hash_folder(folder, folder) if is_from_project else ("", ())
    tools = tuple(map(extension_folder.expand_plugin_root, list_value(front_matter, "allowed-tools") or ()))
    details = [f"description: {description}", f"files: {_file_list(files)}"]
    details += [f"allowed without asking: {', '.join(tools)}"] if tools else []
    model = one_line_value(front_matter, "model")
    details += [f"runs with the model: {model}"] if model else []
    item = create_trust_item(extension_folder, name, folder, digest, details)
    return Skill(
        name.replace(" ", "-"),
        description,
        path,
        extension_folder,
        one_line_value(front_matter, "argument-hint"),
        tools,
        not boolean_value(front_matter, "disable-model-invocation"),
        boolean_value(front_matter, "user-invocable") is not False,
        item,
        model,
        has_hooks=bool(front_matter.get("hooks")),
        argument_names=list_value(front_matter, "arguments") or (),
    )


def first_sentence(body: str) -> str:
    """Return the first sentence after the heading, or the heading if nothing follows it."""
    heading = ""
    paragraph: list[str] = []
    for line in re.sub(r"<!--.*?(?:-->|\Z)", "", body, flags=re.DOTALL).splitlines():
        is_text = re.search(r"\w", line) is not None
        if paragraph and (not is_text or line.startswith("#")):
            break
        if is_text and line.startswith("#"):
            heading = heading or line.strip("# ")
        elif is_text:
            paragraph.append(line.strip())
    return re.split(r"(?<=[.!?])\s|(?<=[。！？])", " ".join(paragraph) or heading, maxsplit=1)[0]


def _file_list(files: Sequence[str]) -> str:
    more = f" and {len(files) - MAX_LISTED_FILES} others" if len(files) > MAX_LISTED_FILES else ""
    return ", ".join(files[:MAX_LISTED_FILES]) + more
