"""Edits as models get them wrong: a file, what was meant to become of it, and the call with its slips."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

Lines = list[str]


@dataclass(frozen=True)
class SlippedEdit:
    before: bytes
    after: bytes
    """What the file was meant to become."""
    old: str
    new: str
    slips: tuple[str, ...]
    first: int
    """The index of the line where the old text begins."""
    names_another: bool
    """The slips made of `old` what stands, to the letter and once, at another place."""
    is_lossy: bool
    """What the new lines hold besides words and indentation cannot be told from the call."""


NAMES = ("total", "items", "path", "value", "count", "left", "right", "name", "found", "size")
CALLS = ("load", "save", "check", "emit", "parse", "close", "fetch", "merge")
OPENERS = (
    "if {a}:",
    "for {a} in {b}:",
    "while {a} < {b}:",
    "def {c}_{n}({a}):",
    "with {c}({a}) as {b}:",
    "try:",
    "class {C}{n}:",
)


def statement(random: Random) -> str:
    a, b, c, n = random.choice(NAMES), random.choice(NAMES), random.choice(CALLS), random.randrange(9)
    return random.choice(
        (
            f"{a} = {b} + {n}", f"{c}({a}, {b})", f"return {a}", f"{a} += {n}", f'{c}("{a} {b}")', f"# {a} of {b}",
            f"print('{a}\\n', {b})", f"{a}  =  {n}   # {b}", "pass", "return None",
            f'{a} = "\u201c{b}\u201d \u2013 it\u2019s {n}"',
            f"{a} = {{'{b}': [{n}]}}", f"log(\"it's {a}\")", f"{c}_{n} = lambda {a}: {b}",
        )
    )  # fmt: skip


def opener(random: Random) -> str:
    return random.choice(OPENERS).format(
        a=random.choice(NAMES), b=random.choice(NAMES), c=random.choice(CALLS), C=random.choice(CALLS).title(),
        n=random.randrange(9),
    )  # fmt: skip


def block(random: Random, level: int, most: int) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    for _ in range(random.randint(1, most)):
        if level < 4 and random.random() < 0.3:
            lines.append((level, opener(random)))
            lines += block(random, level + 1, 3)
        elif random.random() < 0.12:
            lines.append((0, ""))
        else:
            lines.append((level, statement(random)))
    return lines if any(text for _, text in lines) else [*lines, (level, "pass")]


def source(random: Random, unit: str) -> Lines:
    lines = block(random, 0, 8)
    if random.random() < 0.5:  # a block that is there twice, at the same level or another
        start = random.choice([at for at, (_, text) in enumerate(lines) if text])
        copied = lines[start : start + 1]
        for level, text in lines[start + 1 : start + 6]:
            if text and level < copied[0][0]:
                break
            copied.append((level, text))
        while not copied[-1][1] or copied[-1][1].endswith(":"):
            copied.pop()
            if not copied:
                copied = [(lines[start][0], "pass")]
        at = random.choice([at for at, (_, text) in enumerate(lines) if text])
        deeper = lines[at][0] - copied[0][0]
        lines[at:at] = [(level + deeper if text else 0, text) for level, text in copied]
    found = [unit * level + text if text else "" for level, text in lines]
    blanks = random.random()
    if blanks < 0.3:
        found = [line + random.choice(("", "", "  ", "\t")) for line in found]
    return found


def level_of(line: str, unit: str) -> int:
    return (len(line) - len(line.lstrip(" \t"))) // len(unit)


def changed(random: Random, lines: Lines, unit: str) -> tuple[Lines, list[int]]:
    """Other lines in place of these, and the indices of those that are new in them."""
    lines = list(lines)
    at = random.choice([at for at, line in enumerate(lines) if line.strip()])
    level = level_of(lines[at], unit)
    match random.choice(("replace", "replace", "insert", "insert", "delete", "wrap", "unwrap", "block", "rename")):
        case "replace":
            lines[at] = unit * level + statement(random)
            return lines, [at]
        case "rename" if lines[at].strip():
            words = lines[at].split(" ")
            spot = random.choice([i for i, word in enumerate(words) if word.strip()])
            words[spot] += "_x"
            lines[at] = " ".join(words)
            return lines, [at]
        case "insert":
            count = random.randint(1, 3)
            lines[at:at] = [unit * level + statement(random) for _ in range(count)]
            return lines, list(range(at, at + count))
        case "delete":
            del lines[at : at + random.randint(1, 2)]
            return lines, []
        case "wrap":
            end = min(len(lines), at + random.randint(1, 3))
            inner = [unit + line if line.strip() else line for line in lines[at:end]]
            lines[at:end] = [unit * level + opener(random), *inner]
            return lines, list(range(at, at + 1 + len(inner)))
        case "unwrap" if all(line.startswith(unit) or not line.strip() for line in lines):
            return [line.removeprefix(unit) for line in lines], list(range(len(lines)))
        case _:
            lines[at:at] = [unit * level + opener(random), unit * (level + 1) + statement(random)]
            return lines, [at, at + 1]


def slip_table(random: Random, unit: str, first: int) -> dict[str, Callable[[Lines, Lines], tuple[Lines, Lines]]]:
    def both(each: Callable[[str], str]) -> Callable[[Lines, Lines], tuple[Lines, Lines]]:
        return lambda old, new: ([each(line) for line in old], [each(line) for line in new])

    def split(line: str) -> tuple[str, str]:
        body = line.lstrip(" \t")
        return line[: len(line) - len(body)], body

    def dedented(old: Lines, new: Lines) -> tuple[Lines, Lines]:
        texts = [split(line)[0] for line in (*old, *new) if line.strip()]
        least = min(map(len, texts), default=0)
        return [line[least:] if line.strip() else line for line in old], [
            line[least:] if line.strip() else line for line in new
        ]

    def rescaled(other: str) -> Callable[[str], str]:
        def each(line: str) -> str:
            indent, body = split(line)
            if not body:
                return line  # blanks alone are no level
            return other * (len(indent) // len(unit)) + " " * (len(indent) % len(unit)) + body

        return each

    def numbered(form: str) -> Callable[[Lines, Lines], tuple[Lines, Lines]]:
        def table(lines: Lines) -> Lines:
            return [form.format(at) + line for at, line in enumerate(lines, first)]

        return lambda old, new: (table(old), table(new) if random.random() < 0.5 else new)

    def elided(old: Lines, new: Lines) -> tuple[Lines, Lines]:
        mark = random.choice(("# ... existing code ...", "...", "# ... rest of the code", "    # (unchanged) ..."))
        which = random.randrange(3)

        def cut(lines: Lines) -> Lines:
            return [*lines[:1], mark, *lines[2:]] if len(lines) > 2 else [*lines, mark]

        return cut(old) if which != 1 else old, cut(new) if which != 0 else new

    def stripped(old: Lines, new: Lines) -> tuple[Lines, Lines]:
        if not all(lines and lines[0].strip() and lines[-1].strip() for lines in (old, new)):
            return old, new
        return "\n".join(old).strip().split("\n"), "\n".join(new).strip().split("\n")

    def flattened(old: Lines, new: Lines) -> tuple[Lines, Lines]:
        levels, new_levels = ({level_of(line, unit) for line in lines if line.strip()} for lines in (old, new))
        if len(levels) == 1 and not new_levels <= levels:
            return old, new  # nothing in the call could tell
        return [line.lstrip(" \t") for line in old], [line.lstrip(" \t") for line in new]

    extra = random.choice(("    ", "  ", "\t", " "))
    other = random.choice(("  ", "    ", "\t", "   ", "        "))
    plain = str.maketrans("\u201c\u201d\u2013\u2019", '""-\'')
    curly = str.maketrans("\"'-", "\u201d\u2019\u2013")
    return {
        "dedented": dedented,
        "deeper": both(lambda line: extra + line if line.strip() else line),
        "rescaled": both(rescaled(other)),
        "flat": flattened,
        "stripped": stripped,
        "without ends": both(lambda line: line.rstrip()),
        "with ends": both(lambda line: line + "  "),
        "plain signs": both(lambda line: line.translate(plain)),
        "curly signs": both(lambda line: line.translate(curly)),
        "numbered": numbered(random.choice(("{}\t", "{:>6}\u2192", "{} | ", "{}:", "{:>4}\t"))),
        "escaped": both(lambda line: line.replace("\\", "\\\\").replace('"', '\\"').replace("'", "\\'")),
        "escaped quotes": both(lambda line: line.replace('"', '\\"')),
        "elided": elided,
        "narrow": both(lambda line: split(line)[0] + " ".join(split(line)[1].split(" "))),
        "narrower": both(lambda line: split(line)[0] + " ".join(split(line)[1].split())),
        "first indent": lambda old, new: ([old[0].lstrip(), *old[1:]], [new[0].lstrip(), *new[1:]] if new else new),
    }


LOSSY = {"without ends", "with ends", "plain signs", "curly signs", "narrower", "stripped"}


def slipped_edit(random: Random) -> SlippedEdit:
    unit = random.choice(("    ", "    ", "  ", "\t", "   "))
    lines = source(random, unit)
    start = random.choice([at for at, line in enumerate(lines) if line.strip()])
    region = lines[start : start + random.randint(1, 5)]
    put, _ = changed(random, region, unit)
    above = min(start, random.choice((0, 0, 1, 2, 3)))
    below = random.choice((0, 0, 1, 2, 3))
    end = start + len(region)
    after = [*lines[:start], *put, *lines[end:]]
    old = lines[start - above : end + below]
    new = [*lines[start - above : start], *put, *lines[end : end + below]]
    table = slip_table(random, unit, start - above + 1)
    slips = tuple(random.sample(sorted(table), random.choice((0, 1, 1, 1, 2, 2))))
    meant = old, new
    slips = tuple(sorted(slips, key="numbered".__eq__))
    for slip in slips:
        slipped = table[slip](old, new)
        if slipped[0] != old:
            old, new = slipped
    old_lines, ends = [line.rstrip() for line in old], {"with ends", "without ends"}
    if old == meant[0] or (
        old_lines == [line.rstrip() for line in meant[0]] and not set(slips) <= ends
    ):  # a slip that shows only in the new text is what was asked for
        old, new = meant
    old_text, new_text = "\n".join(old), "\n".join(new)
    tail = random.randrange(6)
    if tail in (0, 1) and new_text:
        old_text, new_text = old_text + "\n", new_text + "\n"
        slips += ("line end",)
    elif tail == 2 and random.random() < 0.3 and meant[0][-1].strip() and meant[1] and meant[1][-1].strip():
        old_text += "\n"
        slips += ("line end of old",)
    if random.random() < 0.1 and "\n" in old_text:
        old_text, new_text = (text.replace("\n", "\\n") for text in (old_text, new_text))
        slips += ("escaped lines",)
    if random.random() < 0.1:
        old_text = old_text.replace("\n", "\r\n")
        new_text = new_text.replace("\n", "\r\n") if random.random() < 0.5 else new_text
        slips += ("CRLF",)
    text = "\n".join(lines) + "\n"
    plain_old = old_text.replace("\r\n", "\n")
    position = text.find(plain_old)
    at = text.count("\n", 0, position) if position >= 0 else start - above
    names_another = at != start - above and text.find(plain_old, position + 1) < 0
    before, now = _files(random, lines, after)
    if not new_text and (new or not old[-1]):  # an empty line, or none: the call does not tell
        now = before
    return SlippedEdit(before, now, old_text, new_text, slips, start - above, names_another, bool(LOSSY & set(slips)))


def _files(random: Random, *versions: Sequence[str]) -> tuple[bytes, ...]:
    newline = random.choice(("\n", "\n", "\n", "\r\n")) if all(len(lines) > 1 for lines in versions) else "\n"
    has_end = random.random() >= 0.15 or not all(lines and lines[-1].strip() for lines in versions)
    final = newline if has_end else ""  # behind an empty line it would be no other file
    bom = "\ufeff" if random.random() < 0.05 else ""
    codec = "utf-16-le" if bom and random.random() < 0.3 else "utf-8"
    return tuple((bom + newline.join(lines) + (final if lines else "")).encode(codec) for lines in versions)
