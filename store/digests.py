"""What tells whether the text of a message is still the one that was written."""

from hashlib import blake2b


def message_digest(role: str, body: str) -> str:
    """The same for the same texts, and in all likelihood another one for any others."""
    return blake2b(f"{role}\0{body}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def is_as_written(role: object, body: object, digest: object) -> bool:
    """Whether the texts are those that the digest was made of. Messages of earlier versions have none."""
    if not isinstance(role, str) or not isinstance(body, str):
        return False
    return digest is None or message_digest(role, body) == digest
