"""Advice for users about errors, by error code."""

from collections.abc import Mapping

ADVICE_BY_CODE: Mapping[str, str] = {
    "error": "",
    "usage": "",
    "crash": "",
    "config": "`/settings` lists all settings and their sources; `ebb doctor` checks them",
    "undo": "fix the problem named above and try again; `/undo list` shows all undo points",
    "store": "`ebb doctor` finds problems in the store",
    "hook": "rephrase the message, or remove the hook",
    "reference": "`/archive` lists stored outputs and messages",
    "empty_answer": "send the message again, or choose another model with `/model`",
    "context": "`/compact` frees space, `/context` shows what uses it, `/model` switches to a larger window",
    "schema": "",
    "server": "`/mcp` shows the server's state and log; press r there to restart it",
    "login": "open `/mcp` and press l on the server to log in",
    "provider": "send the message again, or choose another model with `/model`",
    "auth": "enter another key with `/key`, or choose another model with `/model`",
    "rate_limit": "wait a while and send the message again, or choose another model with `/model`",
    "quota": "add credit at the provider, or choose another model with `/model`",
    "overloaded": "send the message again in a moment, or choose another model with `/model`",
    "overflow": "`/compact` frees space; `agent.context_window` sets the model's real window size",
    "timeout": "send the message again; `providers.NAME.timeout` sets a longer timeout",
    "network": "check the connection and send the message again",
    "stream_cut": "send the message again",
    "bad_request": "`/model` switches to another model",
    "unknown_model": "`/model` lists the known models",
}
"""Advice by error code. Every code has an entry. It is empty if the message already says what to do, or if nothing can
be done."""


ADVICE_BY_CAUSE: Mapping[str, str] = {
    "not_running": "",
    "proxy": "fix the proxy settings, then resume this session with `ebb -c`",
    "certificate": "fix the certificates, then resume this session with `ebb -c`",
    "tls": "fix `providers.NAME.base_url`, then resume this session with `ebb -c`",
    "portal": "log in to the network in a browser, then send the message again",
    "challenge": "try another network, or set `base_url` to the provider's own address",
    "sign_in": "",
    "plan": "`/model` switches to another model",
    "country": "`/model` switches to a model of another provider",
    "organisation": "an administrator can change that; `/model` switches to another model",
    "access": "choose another model with `/model`, or give the key access to this one",
    "spending_limit": "raise the limit at the provider, or choose another model with `/model`",
    "tools": "`/model` switches to a model that supports tools",
    "retired": "`/model` switches to a current model",
    "content": "rephrase the message, or choose another model with `/model`",
}
"""Advice by cause. It takes precedence over the advice for the code."""


def advice_for(code: str, message: str, cause: str = "") -> str:
    """Get the advice for an error; empty if the message already contains it."""
    advice = ADVICE_BY_CAUSE[cause] if cause in ADVICE_BY_CAUSE else ADVICE_BY_CODE.get(code, "")
    suggested_words = [word for word in advice.split("`")[1::2]]
    return "" if any(f"`{word}`" in message for word in suggested_words) else advice
