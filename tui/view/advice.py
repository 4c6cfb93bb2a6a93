"""Advice to the user about errors, by error code. Pure."""

from collections.abc import Mapping

ADVICE: Mapping[str, str] = {
    "error": "",
    "usage": "",
    "crash": "",
    "config": "`/settings` shows every setting and where it comes from; `ebb doctor` checks all of them",
    "undo": "`/undo list` shows all points; what is in the way is named above, so mend that and try again",
    "store": "`ebb doctor` says what is wrong with the store",
    "hook": "say it in another way, or take the hook away",
    "reference": "`/archive` lists what is kept",
    "empty_answer": "send the message again, or choose another model with `/model`",
    "context": "`/compact` makes room, `/context` shows what takes it, `/model` switches to one with a larger window",
    "schema": "",
    "server": "`/mcp` shows the server's state and its log; r starts it again",
    "login": "`/mcp` logs in: press l on the server",
    "provider": "send the message again; `/model` switches to another model meanwhile",
    "auth": "`/key` takes another key and continues with it; `/model` switches to another model",
    "rate_limit": "wait for a while and send the message again, or choose another model with `/model`",
    "quota": "add credit at the provider, or choose another model with `/model`",
    "overloaded": "send the message again in a moment, or choose another model with `/model`",
    "overflow": "`/compact` makes room; `agent.context_window` sets the window that the model really has",
    "timeout": "send the message again; `providers.NAME.timeout` gives the provider more time",
    "network": "check the connection and send the message again",
    "stream_cut": "send the message again",
    "bad_request": "the server says what it refuses; `/model` switches to another model",
    "unknown_model": "`/model` shows the models that are known",
}
"""Every code has an entry, empty if the message itself says what to do or nothing can be done."""


BY_CAUSE: Mapping[str, str] = {
    "not_running": "",
    "proxy": "start again once the proxy is right: `ebb -c` goes on with this session",
    "certificate": "start again once the certificates are right: `ebb -c` goes on with this session",
    "tls": "`providers.NAME.base_url` is where the address is set; `ebb -c` goes on with this session",
    "portal": "log in to the network in a browser, then send the message again",
    "challenge": "another network, or the provider's own address in `base_url`, may be let through",
    "country": "`/model` switches to a model of another provider",
    "organisation": "whoever manages the organisation can change that; `/model` switches to another model meanwhile",
    "access": "the key is right, but not for this: choose another model with `/model`, or change what the key may do",
    "spending_limit": "raise the limit at the provider, or choose another model with `/model`",
    "tools": "`/model` switches to a model that takes tools",
    "retired": "`/model` switches to a model that is still offered",
    "content": "rephrase the message, or choose another model with `/model`",
}
"""Advice by cause, which takes precedence over that by code."""


def advice_for(code: str, message: str, cause: str = "") -> str:
    """Return the advice for an error; empty if the message already contains it."""
    advice = BY_CAUSE[cause] if cause in BY_CAUSE else ADVICE.get(code, "")
    named = [word for word in advice.split("`")[1::2]]
    return "" if any(f"`{word}`" in message for word in named) else advice
