"""Skills: folders with instructions in a SKILL.md and supporting files. Finds them and lists them for the model; runs
nothing."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.discovery import discover, ignored_hook_notices
from ebbtide.agent.extensions.extension_files import UnusableFile, digest_of, text_of
from ebbtide.agent.extensions.extension_folders import ExtensionFolder, Owner, Source
from ebbtide.agent.extensions.front_matter import flag_at, list_at, split, text_at
from ebbtide.agent.extensions.trust import FolderTrust, TrustItem, item_in
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize

MAX_DESCRIPTION_CHARS = 300
"""Maximum length of a description in the list, in characters."""
MAX_LISTED_FILES = 30


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill; usable once approved."""

    name: str
    description: str
    path: Path
    """Its SKILL.md."""
    place: ExtensionFolder
    hint: str
    """What may follow the name, for people."""
    tools: tuple[str, ...]
    """Tools that the skill asks to use without permission."""
    for_model: bool
    """Whether the model may use it."""
    for_user: bool
    """Whether the user may invoke it."""
    item: TrustItem
    model: str = ""
    """The model for turns in which the user invokes it."""
    has_hooks: bool = False
    """Whether the file declares hooks, which are not run."""
    arguments: tuple[str, ...] = ()
    """The names of its arguments, in order."""

    def with_name(self, name: str) -> Self:
        return replace(self, name=name)

    @property
    def plugin(self) -> str:
        """The name of the plugin that contains it."""
        return self.place.plugin

    @property
    def source(self) -> Source:
        return self.place.source

    @property
    def owner(self) -> Owner:
        return self.item.owner

    def is_as_it_was(self) -> bool:
        """Whether it is unchanged since it was approved."""
        if self.owner != "project":
            return True
        try:
            return digest_of(self.path.parent, self.path.parent)[0] == self.item.digest
        except UnusableFile:
            return False


def find_skills(config: Config) -> tuple[tuple[Skill, ...], tuple[str, ...]]:
    """Return all skills, and one line for each that was left out."""
    found, problems = discover("skill", config, _read_skill)
    return found, (*problems, *ignored_hook_notices("skill", found))


def skills_prompt(skills: Sequence[Skill]) -> str:
    """The list of skills for the system text, with instructions on how to read them."""
    lines = [line_of(skill) for skill in skills if skill.for_model]
    intro = "# Skills\n\nEach is a file that says how to do something. Read it before you do what it describes."
    return "\n".join([intro, "", *lines]) if lines else ""


def line_of(skill: Skill) -> str:
    return f"- {skill.name}: {ellipsize(skill.description, MAX_DESCRIPTION_CHARS)} ({skill.path})"


def initial_skills_prompt(config: Config) -> str:
    """The list of skills usable at the start of a session."""
    trust = FolderTrust(config)
    return skills_prompt([skill for skill in find_skills(config)[0] if trust.standing(skill.item) == "on"])


def body_of(skill: Skill) -> str:
    """Return the text of a skill with its folder filled in. Raises `UnusableFile` and `BrokenFrontMatter`."""
    body = split(text_of(skill.path, None))[1].replace("${CLAUDE_SKILL_DIR}", str(skill.path.parent))
    return skill.place.with_folder(body)


def _read_skill(path: Path, place: ExtensionFolder) -> Skill:
    folder = path.parent
    if place.boundary is not None and not Path(os.path.realpath(folder)).is_relative_to(place.boundary):
        raise UnusableFile("it leads outside the project")
    is_of_project = place.owner == "project"
    head, body = split(text_of(path, folder if is_of_project else None))
    name, description = text_at(head, "name") or folder.name, text_at(head, "description") or first_sentence(body)
    if not description:
        raise UnusableFile("it has no description")
    digest, files = digest_of(folder, folder) if is_of_project else ("", ())
    tools = tuple(map(place.with_folder, list_at(head, "allowed-tools") or ()))
    shown = [f"description: {description}", f"files: {_file_list(files)}"]
    shown += [f"allowed without asking: {', '.join(tools)}"] if tools else []
    model = text_at(head, "model")
    shown += [f"runs with the model: {model}"] if model else []
    item = item_in(place, name, folder, digest, shown)
    return Skill(
        name.replace(" ", "-"),
        description,
        path,
        place,
        text_at(head, "argument-hint"),
        tools,
        not flag_at(head, "disable-model-invocation"),
        flag_at(head, "user-invocable") is not False,
        item,
        model,
        has_hooks=bool(head.get("hooks")),
        arguments=list_at(head, "arguments") or (),
    )


def first_sentence(body: str) -> str:
    """The first sentence of a text after its heading, or the heading if nothing follows."""
    heading, paragraph = "", list[str]()
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
