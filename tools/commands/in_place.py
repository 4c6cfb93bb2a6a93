"""Finds the files that a command line edits in place (`sed -i`, `perl -pi`), judging by its text alone."""

import posixpath

from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.named_files import IN_PLACE_EDITORS, entered_folder, is_in_place_option
from ebbtide.tools.commands.nested import program_index, program_name, wrapped_program_index


def files_edited_in_place(text: str) -> tuple[str, ...]:
    """Return the words that may name files edited in place, without duplicates, joined to the folder that the line
    changes to. Empty if one of them is a pattern, or if the line cannot be parsed."""
    line = parse_command_line(text)
    paths, folder = dict[str, None](), ""
    for command in line.commands if not line.is_unparsable else ():
        words = command.words[program_index(command.texts) :]
        wrapped_index = wrapped_program_index([word.text for word in words])
        words = words[wrapped_index:] if wrapped_index is not None else words
        texts = [word.text for word in words]
        if program_name(texts) in IN_PLACE_EDITORS and any(map(is_in_place_option, texts[1:])):
            if any(word.is_bare and not word.is_plain for word in words[1:]):
                return ()
            paths |= {posixpath.join(folder, argument): None for argument in texts[1:] if not argument.startswith("-")}
        folder = entered_folder(command, folder)
    return tuple(paths)
