"""Registry of the integrations in `ebbtide.agent.integrations`. An integration can be removed by deleting its folder
and its row here."""

from collections.abc import Mapping
from importlib import import_module

EVENT_SINKS: Mapping[str, str] = {
    "telemetry_endpoint": "telemetry:open_telemetry",
}
"""Functions that open event sinks, by the configuration field that enables them; see `channel.EventSink`."""

STREAM_FORMATS: Mapping[str, str] = {
    "claude-stream-json": "claude_code.stream_format:ClaudeFormat",
}
"""Output formats of headless runs that other programs define, by option name; see `headless.run`."""

REPLY_READERS: Mapping[str, str] = {
    "small_models": "small_models.reply_reader:TextReplyReader",
}
"""Readers that find tool calls written as text in a reply; see `request.reply_reader`."""

SMALL_MODEL_SUPPORT: Mapping[str, str] = {
    "small_models": "small_models.small_model_support:SMALL_MODEL_SUPPORT",
}
"""Extra context and reminders for small models; see `request.reply_reader`."""

SEMANTIC_SEARCHES: Mapping[str, str] = {
    "semantic_search": "semantic_search.model_search:SEMANTIC_SEARCH",
}
"""Semantic search of stored sessions; see `archive.semantic_search`."""

LANGUAGE_SERVICES: Mapping[str, str] = {
    "lsp": "lsp.session_language_servers:SessionLanguageServers",
}
"""Language services, which report problems after edits and answer the code tools; see
`compose.optional_parts.create_language_service`."""

MCP_CLIENTS: Mapping[str, str] = {
    "mcp": "mcp.running_servers:RunningServers",
}
"""Clients that run a session's MCP servers; see `compose.optional_parts.create_servers`."""

TRUST_ITEMS: Mapping[str, str] = {
    "mcp": "mcp.approvals:project_trust_items",
    "lsp": "lsp.server_detection:project_trust_items",
}
"""Functions that list more project items that need approval, for `ebb trust`."""

SIGN_INS: Mapping[str, str] = {
    "copilot": "sign_in.token_source:shared_token_source",
    "chatgpt": "sign_in.token_source:shared_token_source",
}
"""Functions that return a subscription's token source, by provider; see `providers.factory`."""

DOCTOR_CHECKS: Mapping[str, str] = {
    "mcp": "mcp.checks:check_servers",
    "lsp": "lsp.checks:check_language_servers",
    "semantic_search": "semantic_search.checks:check_embedding_model",
}
"""Additional checks for `ebb doctor`."""


def load_integration(object_path: str) -> object:
    """Import and return the object at `MODULE:NAME` in the integrations. Raises `ImportError`."""
    module, _, name = object_path.partition(":")
    return getattr(import_module(f"ebbtide.agent.integrations.{module}"), name)
