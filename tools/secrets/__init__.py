"""Detects secrets in text by format and value, redacts them, and recognises files that contain secrets."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools.secrets import git_passwords as git_passwords
    from ebbtide.tools.secrets import key_formats as key_formats
    from ebbtide.tools.secrets import redaction as redaction
    from ebbtide.tools.secrets import registry_settings as registry_settings
else:
    __getattr__ = lazy_submodules(__name__)
