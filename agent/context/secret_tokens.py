"""Replace secrets with tokens `⟦secret:NAME#N⟧` in requests, and restore them where a tool changes a file. Stored
content is never changed, so every byte can be restored.

A token is derived from its value and a key of this machine. It is the same in every request, whether its text was read,
recalled or summarised, and does not help to guess the value.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import TypeVar, cast

from ebbtide.agent.messages import Assistant, Message, Note, Ranges, Text, ToolCall, ToolOutput, User
from ebbtide.tools.lazy import regex
from ebbtide.tools.secrets.key_formats import forms_of, known_secrets, may_go_on, secrets_in

_TOKEN = regex(r"⟦secret:[^⟦⟧\s]{1,200}#[0-9A-Fa-f]{1,12}⟧")
"""Also matches malformed tokens."""
_ODD = regex(r"[^A-Za-z0-9_.-]+")
_MOST_REMEMBERED = 100_000
"""Maximum number of cached messages and parts."""
_MOST_SYSTEMS = 3

P = TypeVar("P")


class UnknownToken(Exception):
    """A token without a known secret; the message is the token."""


class SecretTokens:
    """Secrets and their tokens in one run of the program."""

    def __init__(self, environment: Mapping[str, str] | None = None, key: Callable[[], bytes] = bytes) -> None:
        """`key` returns the key for token numbers; it is called when the first secret is found."""
        self._key = cache(key)
        self._known: dict[str, str] = {}
        self._values: dict[str, str] = {}
        """Secrets already shown, by token."""
        self._looked_at: dict[int, tuple[object, object]] = {}
        """By the identity of a message or part: the object, and its form without secrets."""
        self._systems: dict[str, str] = {}
        self.learn_all(environment or {})

    def learn_all(self, environment: Mapping[str, str]) -> None:
        """Treat the values of variables with secret-like names as secrets, in any encoding, from now on."""
        for value, name in known_secrets(environment).items():
            self.learn(name, value)

    def learn(self, name: str, value: str) -> None:
        """Treat the value as a secret, in any encoding, from now on."""
        self._known.update({form: name for form in forms_of(value)})
        self._looked_at.clear()
        self._systems.clear()

    def learn_new(self, values: Mapping[str, str]) -> None:
        """Learn the values, with their names, that are not yet known."""
        for value, name in values.items():
            if value not in self._known:
                self.learn(name, value)

    def hide(self, text: str) -> str:
        """Return the text with its secrets replaced by tokens."""
        found = secrets_in(text, self._known)
        if not found:
            return text
        pieces: list[str] = []
        at = 0
        for one in found:
            pieces += [text[at : one.start], self._token(one.name, text[one.start : one.end])]
            at = one.end
        return "".join([*pieces, text[at:]])

    def hide_in(self, text: str, ranges: Ranges) -> tuple[str, Ranges]:
        """Return the text without its secrets, and the ranges adjusted to it."""
        if self.hide(text) is text:
            return text, ranges
        shown, moved, at = "", [], 0
        for start, end in ranges:
            shown += self.hide(text[at:start])
            begin = len(shown)
            shown += self.hide(text[start:end])
            moved.append((begin, len(shown)))
            at = end
        return shown + self.hide(text[at:]), tuple(moved)

    def stream(self) -> Callable[[str], str]:
        """Return a function that hides secrets in streamed text: it takes each chunk and returns what may be shown so
        far. A possible beginning of a secret is held back until more text arrives."""
        held = ""

        def take(piece: str) -> str:
            nonlocal held
            text = held + piece
            end = may_go_on(text, self._known)
            end = min([end, *(one.start for one in secrets_in(text, self._known) if one.start < end < one.end)])
            held = text[end:]
            return self.hide(text[:end])

        return take

    def reveal(self, value: object) -> object:
        """Return the arguments with tokens replaced by their secrets. Raises `UnknownToken`."""
        match value:
            case str():
                return _TOKEN.sub(lambda found: self._value(found[0]), value) if "⟦secret:" in value else value
            case Mapping():
                return {key: self.reveal(inner) for key, inner in value.items()}
            case list() | tuple():
                return [self.reveal(inner) for inner in value]
            case _:
                return value

    def system(self, text: str) -> str:
        """Hide secrets in a text that is sent with every request (cached)."""
        if text not in self._systems:
            self._systems = {**dict(list(self._systems.items())[-_MOST_SYSTEMS:]), text: self.hide(text)}
        return self._systems[text]

    def messages(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages without secrets; the same object if nothing is hidden."""
        shown = [self._message(message) for message in messages]
        return messages if all(map(_is, shown, messages)) else tuple(shown)

    def _token(self, name: str, value: str) -> str:
        name = _ODD.sub("_", name)
        given = value.encode("utf-8", "surrogatepass")
        number = hashlib.blake2s(given, key=self._key(), person=b"ebbtoken").hexdigest()[:6]
        token = f"⟦secret:{name}#{number}⟧"
        while self._values.setdefault(token, value) != value:  # rare: two values with the same number
            number = f"{int(number, 16) + 1 & 0xFFFFFF:06x}"
            token = f"⟦secret:{name}#{number}⟧"
        return token

    def _value(self, token: str) -> str:
        if token not in self._values:
            raise UnknownToken(token)
        return self._values[token]

    def _message(self, message: Message) -> Message:
        known = self._looked_at.get(id(message))
        if known is not None and known[0] is message:
            return cast(Message, known[1])
        shown: Message = message
        match message:
            case User(parts=said):
                mine = tuple([self._part(part) for part in said])
                shown = message if all(map(_is, mine, said)) else replace(message, parts=mine)
            case Assistant(parts=told):
                its = tuple([self._part(part) for part in told])
                shown = message if all(map(_is, its, told)) else replace(message, parts=its)
        self._remember(message, shown)
        return shown

    def _part(self, part: P) -> P:
        known = self._looked_at.get(id(part))
        if known is not None and known[0] is part:
            return cast(P, known[1])
        shown: object = part
        match part:
            case ToolOutput(text=text, inserted=inserted):
                hidden, moved = self.hide_in(text, inserted)
                shown = part if hidden is text else replace(part, text=hidden, inserted=moved)
            case Text(native=None, text=text) | Note(text=text):
                hidden = self.hide(text)
                shown = part if hidden is text else replace(part, text=hidden)
            case ToolCall(source=source, arguments=arguments):
                written = self.hide(source)
                given = self._hide_values(arguments)
                if written != source or given != arguments:
                    shown = replace(part, source=written, arguments=cast(Mapping[str, object], given))
            case _:
                pass
        self._remember(part, shown)
        return cast(P, shown)

    def _hide_values(self, value: object) -> object:
        match value:
            case str():
                return self.hide(value)
            case Mapping():
                return {key: self._hide_values(inner) for key, inner in value.items()}
            case list() | tuple():
                return [self._hide_values(inner) for inner in value]
            case _:
                return value

    def _remember(self, one: object, shown: object) -> None:
        if len(self._looked_at) >= _MOST_REMEMBERED:
            self._looked_at.clear()
        self._looked_at[id(one)] = (one, shown)


def has_tokens(value: object) -> bool:
    """Whether the arguments contain a token."""
    match value:
        case str():
            return "⟦secret:" in value and _TOKEN.search(value) is not None
        case Mapping():
            return any(map(has_tokens, value.values()))
        case list() | tuple():
            return any(map(has_tokens, value))
        case _:
            return False


def _is(one: object, other: object) -> bool:
    return one is other
