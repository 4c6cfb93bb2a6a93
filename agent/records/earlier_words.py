"""What records of earlier versions say in words alone, read out of those words as they are opened. New ones hold it as
values: nothing else may read back what the program has written for people or for the model."""

from dataclasses import replace

from agent.messages import Note, Ranges, ToolOutput
from tools.lazy import regex

_STORED = regex(r'\[Tool result stored — [\d,]+ bytes?, [\d,]+ lines? from "[^"\n]*"\.\n')
_SEEN = ']\nUse the "read_result" tool with ref_id='
_MATCHES = regex(r"\nmatches: \d+: ")
_CUT = regex(r"\[… [\d,]+ characters? left out: the context window is nearly full; .* …\](?:\n|\Z)")


def output_parted(output: ToolOutput) -> ToolOutput:
    """The output with where the program speaks in it, and with what stands behind all that, which was no value of its
    own in the first versions."""
    text = output.text
    heading, note = _STORED.match(text), _CUT.search(text)
    inserted: Ranges = (note.span(),) if note else ()
    if heading is None:
        return replace(output, inserted=inserted)
    inserted = (heading.span(), *inserted)
    start = text.rfind(_SEEN)
    if start < 0:  # a preview that was cut itself says nothing more of it
        return replace(output, inserted=inserted)
    found = [match.start() for match in _MATCHES.finditer(text, heading.end(), start)]
    end = text.find("\n", start + len(_SEEN))
    end = len(text) if end < 0 else end
    matches = [(found[-1], start)] if found else []
    ranges = (*(one for one in inserted if one[1] <= start), *matches, (start, end))
    return replace(output, inserted=ranges, frame=output.frame or text[end + 1 :])


_BROUGHT = regex(r"\[The user brings `([^`\n]+)` back into view:\]\n")


def note_of_words(note: Note) -> Note:
    """The note with its kind, and the name of what it brings."""
    if brought := _BROUGHT.match(note.text):
        return replace(note, kind="brought", name=brought[1])
    return note


def title_parted(title: str) -> tuple[str, str]:
    """What a pin is, and its reference."""
    what, _, ref = title.rpartition(" [recall:")
    return what, ref.removesuffix("]")
