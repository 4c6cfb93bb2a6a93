"""Which files a command line edits in place (`sed -i`, `perl -pi`), judged by its text."""

import posixpath

from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.named_files import IN_PLACE, entered_folder, is_in_place
from ebbtide.tools.commands.nested import behind_assignments, program_of, wrapped_at


def edited_in_place(text: str) -> tuple[str, ...]:
    """Return the words that may name files edited in place, without duplicates and relative to the folder the line
    changes to. Empty if a pattern is among them or the line cannot be parsed."""
    line = parse_command_line(text)
    found, place = dict[str, None](), ""
    for command in line.commands if not line.is_broken else ():
        words = command.words[behind_assignments(command.texts) :]
        inner = wrapped_at([word.text for word in words])
        words = words[inner:] if inner is not None else words
        texts = [word.text for word in words]
        if program_of(texts) in IN_PLACE and any(map(is_in_place, texts[1:])):
            if any(word.is_bare and not word.is_plain for word in words[1:]):
                return ()
            found |= {posixpath.join(place, each): None for each in texts[1:] if not each.startswith("-")}
        place = entered_folder(command, place)
    return tuple(found)
