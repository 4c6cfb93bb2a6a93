"""Replaces secrets in requests with tokens such as `⟦secret:NAME#N⟧`, and restores the secrets where a tool changes a
file. Stored content is never changed, so every byte can be restored.

A token is derived from the secret's value and a key stored on this machine. It is the same in every request, but does
not help anyone guess the value.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import TypeVar, cast

from ebbtide.agent.messages import Assistant, Message, Note, Ranges, Text, ToolCall, ToolOutput, User
from ebbtide.tools.lazy import regex
from ebbtide.tools.secrets.key_formats import detect_secrets, find_incomplete_secret, known_secrets, secret_encodings

_TOKEN = regex(r"⟦secret:[^⟦⟧\s]{1,200}#[0-9A-Fa-f]{1,12}⟧")
"""A token, including malformed ones."""
_INVALID_NAME_CHARS = regex(r"[^A-Za-z0-9_.-]+")
_MAX_CACHED_PARTS = 100_000
"""Maximum number of messages and parts that are cached."""
_MAX_CACHED_SYSTEM_TEXTS = 3

PartT = TypeVar("PartT")


class UnknownTokenError(Exception):
    """Raised for a token that does not belong to a known secret. Its message is the token."""


class SecretTokens:
    """The secrets in one run of the program, and their tokens."""

    def __init__(self, environment: Mapping[str, str] | None = None, get_key: Callable[[], bytes] = bytes) -> None:
        """`get_key`: returns the key from which token numbers are derived; called when the first secret is found."""
        self._get_key = cache(get_key)
        self._name_by_secret: dict[str, str] = {}
        self._secret_by_token: dict[str, str] = {}
        """Secrets that were replaced so far, by token."""
        self._hidden_form_cache: dict[int, tuple[object, object]] = {}
        """Cache, by the `id()` of a message or part. Each entry holds the object itself and its form without
        secrets."""
        self._clean_system_texts: dict[str, str] = {}
        self.learn_environment(environment or {})

    def learn_environment(self, environment: Mapping[str, str]) -> None:
        """Treat the values of variables with secret-like names as secrets, in any encoding, from now on."""
        for value, name in known_secrets(environment).items():
            self.learn(name, value)

    def learn(self, name: str, value: str) -> None:
        """Treat the value as a secret, in any encoding, from now on."""
        self._name_by_secret.update({form: name for form in secret_encodings(value)})
        self._hidden_form_cache.clear()
        self._clean_system_texts.clear()

    def learn_new(self, values: Mapping[str, str]) -> None:
        """Learn the secrets that are not known yet. `values` maps each secret to its name."""
        for value, name in values.items():
            if value not in self._name_by_secret:
                self.learn(name, value)

    def hide(self, text: str) -> str:
        """Return the text with its secrets replaced by tokens."""
        secrets = detect_secrets(text, self._name_by_secret)
        if not secrets:
            return text
        clean_pieces: list[str] = []
        offset = 0
        for secret in secrets:
            clean_pieces += [
                text[offset : secret.start],
                self._create_token(secret.name, text[secret.start : secret.end]),
            ]
            offset = secret.end
        return "".join([*clean_pieces, text[offset:]])

    def hide_with_ranges(self, text: str, ranges: Ranges) -> tuple[str, Ranges]:
        """Return the text without its secrets, and the ranges adjusted to the new text."""
        if self.hide(text) is text:
            return text, ranges
        clean, new_ranges, offset = "", [], 0
        for start, end in ranges:
            clean += self.hide(text[offset:start])
            new_start = len(clean)
            clean += self.hide(text[start:end])
            new_ranges.append((new_start, len(clean)))
            offset = end
        return clean + self.hide(text[offset:]), tuple(new_ranges)

    def stream_hider(self) -> Callable[[str], str]:
        """Return a function that hides secrets in streamed text. It takes the next chunk and returns the text that is
        safe to show now. Text that might be the beginning of a secret is held back until more arrives."""
        pending = ""

        def hide_next(chunk: str) -> str:
            nonlocal pending
            text = pending + chunk
            end = find_incomplete_secret(text, self._name_by_secret)
            end = min(
                [
                    end,
                    *(
                        secret.start
                        for secret in detect_secrets(text, self._name_by_secret)
                        if secret.start < end < secret.end
                    ),
                ]
            )
            pending = text[end:]
            return self.hide(text[:end])

        return hide_next

    def reveal(self, value: object) -> object:
        """Return the value, usually a call's arguments, with tokens replaced by their secrets. Raises
        `UnknownTokenError`."""
        match value:
            case str():
                return _TOKEN.sub(lambda match: self._find_secret(match[0]), value) if "⟦secret:" in value else value
            case Mapping():
                return {key: self.reveal(item) for key, item in value.items()}
            case list() | tuple():
                return [self.reveal(item) for item in value]
            case _:
                return value

    def hide_in_system(self, text: str) -> str:
        """Return the system prompt without its secrets. The result is cached, because every request contains it."""
        if text not in self._clean_system_texts:
            self._clean_system_texts = {
                **dict(list(self._clean_system_texts.items())[-_MAX_CACHED_SYSTEM_TEXTS:]),
                text: self.hide(text),
            }
        return self._clean_system_texts[text]

    def hide_in_messages(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages without secrets; the same object if nothing is hidden."""
        clean = [self._hide_in_message(message) for message in messages]
        return messages if all(map(_is_same, clean, messages)) else tuple(clean)

    def _create_token(self, name: str, value: str) -> str:
        name = _INVALID_NAME_CHARS.sub("_", name)
        value_bytes = value.encode("utf-8", "surrogatepass")
        number = hashlib.blake2s(value_bytes, key=self._get_key(), person=b"ebbtoken").hexdigest()[:6]
        token = f"⟦secret:{name}#{number}⟧"
        while self._secret_by_token.setdefault(token, value) != value:  # rare: two values with the same token number
            number = f"{int(number, 16) + 1 & 0xFFFFFF:06x}"
            token = f"⟦secret:{name}#{number}⟧"
        return token

    def _find_secret(self, token: str) -> str:
        if token not in self._secret_by_token:
            raise UnknownTokenError(token)
        return self._secret_by_token[token]

    def _hide_in_message(self, message: Message) -> Message:
        cached_pair = self._hidden_form_cache.get(id(message))
        if cached_pair is not None:
            original, hidden = cached_pair
            if original is message:
                return cast(Message, hidden)
        clean: Message = message
        match message:
            case User(parts=user_parts):
                clean_user_parts = tuple([self._hide_in_part(part) for part in user_parts])
                clean = (
                    message
                    if all(map(_is_same, clean_user_parts, user_parts))
                    else replace(message, parts=clean_user_parts)
                )
            case Assistant(parts=reply_parts):
                clean_reply_parts = tuple([self._hide_in_part(part) for part in reply_parts])
                clean = (
                    message
                    if all(map(_is_same, clean_reply_parts, reply_parts))
                    else replace(message, parts=clean_reply_parts)
                )
        self._cache_result(message, clean)
        return clean

    def _hide_in_part(self, part: PartT) -> PartT:
        cached_pair = self._hidden_form_cache.get(id(part))
        if cached_pair is not None:
            original, hidden = cached_pair
            if original is part:
                return cast(PartT, hidden)
        clean: object = part
        match part:
            case ToolOutput(text=text, inserted=inserted):
                hidden, moved = self.hide_with_ranges(text, inserted)
                clean = part if hidden is text else replace(part, text=hidden, inserted=moved)
            case Text(native=None, text=text) | Note(text=text):
                hidden = self.hide(text)
                clean = part if hidden is text else replace(part, text=hidden)
            case ToolCall(source=source, arguments=arguments):
                clean_source = self.hide(source)
                clean_arguments = self._hide_values(arguments)
                if clean_source != source or clean_arguments != arguments:
                    clean = replace(part, source=clean_source, arguments=cast(Mapping[str, object], clean_arguments))
            case _:
                pass
        self._cache_result(part, clean)
        return cast(PartT, clean)

    def _hide_values(self, value: object) -> object:
        match value:
            case str():
                return self.hide(value)
            case Mapping():
                return {key: self._hide_values(item) for key, item in value.items()}
            case list() | tuple():
                return [self._hide_values(item) for item in value]
            case _:
                return value

    def _cache_result(self, original: object, clean: object) -> None:
        if len(self._hidden_form_cache) >= _MAX_CACHED_PARTS:
            self._hidden_form_cache.clear()
        self._hidden_form_cache[id(original)] = (original, clean)


def has_tokens(value: object) -> bool:
    """Whether a value, usually a call's arguments, contains a token."""
    match value:
        case str():
            return "⟦secret:" in value and _TOKEN.search(value) is not None
        case Mapping():
            return any(map(has_tokens, value.values()))
        case list() | tuple():
            return any(map(has_tokens, value))
        case _:
            return False


def _is_same(first: object, second: object) -> bool:
    return first is second
