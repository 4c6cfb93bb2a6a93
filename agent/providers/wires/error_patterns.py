"""Patterns for the error messages of many servers. Names of errors, as normalised by
`error_responses.parse_error_body`, must match completely. Messages are searched, ignoring case."""

_NAME = r"(?:[`'\"][^`'\"]*[`'\"]|[^.:,;`'\"])"
"""Part of a sentence: a quoted name, or a single character."""


def any_of(*alternatives: str) -> str:
    """Return a pattern that matches any of the alternatives."""
    return "|".join(alternatives)


CHALLENGE_PAGE = any_of(
    r"just a moment",
    r"checking your browser",
    r"attention required",
    r"you have been blocked",
    r"verify (?:that )?you are (?:a )?human",
    r"enable javascript and cookies",
    r"captcha",
    r"cf-chl",
    r"cloudflare to restrict access",
    r"error code: 1\d{3}\b",
    r"request blocked",
    r"ddos protection",
    r"web application firewall",
    r"incapsula",
    r"akamai",
    r"edgesuite\.net",
    r"human verification",
    r"perimeterx",
)
"""Phrases on challenge pages, which block programs."""

CLOUDFLARE_RATE_TEXT = r"error(?: code)?:? 1015\b"
"""Error of Cloudflare's own rate limit. It is also sent as a web page."""

FILTER_PAGE = any_of(
    r"blocked by",
    r"zscaler",
    r"netskope",
    r"fortiguard",
    r"forcepoint",
    r"web ?filter",
    r"content gateway",
    r"(?:security|company|corporate|acceptable use) policy",
    r"umbrella",
    r"access control configuration prevents",
    r"policy_denied|policy has denied",
)
"""Phrases on pages sent by a network filter."""

QUOTA_KINDS = any_of(
    r"insufficient_(?:quota|balance|credits?|funds)\w*",
    r"billing_\w*",
    r"payment_required\w*",
    r"exceeded_current_quota\w*",
    r"(?:out_of|no|not_enough)_(?:credits?|balance)",
    r"credit_\w*",
    r"arrearage",
    r"account_(?:overdue|arrears)\w*",
    r"token_quota_reached",
    r"allocation_quota\w*",
    r"(?:budget|spend|spending_limit|usage_limit|monthly_limit|credit_limit)_?(?:exceeded|reached)\w*",
    r"quota_exceeded",
)

QUOTA_TEXT = any_of(
    r"credit balance",
    r"billing",
    r"insufficient (?:account )?(?:credits?|balance|funds|quota)",
    r"balance is (?:insufficient|too low)",
    r"(?:out of|no|any|more|enough|purchase|buy|add) (?:\w+ )?credits",
    r"exceeded your (?:current|monthly|daily) quota",
    r"payment required",
    r"in arrears",
    r"overdue",
    r"recharge",
    r"top up",
    r"(?:used up|exhausted) (?:your|all|the)",
    r"free (?:tier|quota|trial|plan)\b[^.]{0,40}(?:exhausted|used up|ended|expired|over)\b",
    r"past invoices",
    r"exceeded your (?:monthly|included|premium)",
    r"premium request allowance",
    r"insufficient_quota",
    r"requires? (?:a )?subscription",
    r"good standing",
    r"余额不足",
    r"欠费",
)
"""Phrases that report used-up credit."""

SPENDING_TEXT = any_of(
    r"(?:spending|spend|usage|budget|cost|key) limits? (?:(?:has|have) been |is |was )?(?:reached|exceeded|hit)",
    r"(?:reached|exceeded|hit|over) (?:your|the|its)(?: \w+){0,3} (?:spending|spend|usage|budget|cost"
    r"|monthly)(?: \w+)? limits?",
    r"budget has been exceeded",
    r"exceeded (?:\w+ )?budget",
    r"regain access on",
    r"hard limit",
)
"""Phrases that report a spending limit set by the user, as opposed to used-up credit."""

RATE_TEXT = any_of(
    r"rate.?limit",
    r"(?:tokens|requests) (?:per|a) (?:min|day|hour)",
    r"too many (?:concurrent )?(?:requests|tokens)",
    r"throttl",
    r"concurrency",
    r"(?:qps|request) limit reached",
    r"slow down",
    r"请求过于频繁",
)

RATE_KINDS = any_of(
    r"(?:\w+_)?rate_?limit\w*",
    r"throttl\w*",
    r"resource_exhausted\w*",
    r"too_many_requests\w*",
    r"limit_requests",
    r"requests?_limit_exceeded",
    r"(?:token|request|service)_quota_exceeded\w*",
    r"queue_exceeded\w*",
    r"tokens",
    r"requests",
)

KEY_TEXT = any_of(
    r"(?:api|access|subscription|secret)[ _-]?(?:key|token)s? (?:is |was |has |provided "
    r"|you provided )?(?:not valid|invalid|incorrect|expired|missing|required|revoked|malformed)",
    r"(?:invalid|incorrect|wrong|missing|expired|no|bad) (?:\w+ )?(?:api[ _-]?key|x-api-key|authentication"
    r"|auth token|access token|bearer token|api token|credentials?)\b",
    r"authentication (?:failed|fails|error|required)",
    r"token (?:seems|is|has) (?:invalid|expired)",
    r"bad credentials",
    r"unauthori[sz]ed",
    r"invalid token",
    r"security token .{0,40}(?:invalid|expired)",
    r"login fail",
    r"access token (?:is )?(?:invalid|expired|no longer valid)",
    r"(?:key|token) (?:was|has been) (?:\w+ )?(?:as )?(?:leaked|compromised|revoked|disabled|deleted|deactivated)",
    r"not authenticated",
)

KEY_KINDS = any_of(
    r"(?:\w+_)?authentication_?(?:error|fails?|failed|required)?\w*",
    r"(?:invalid|wrong|incorrect|missing)_api_key\w*",
    r"api_key_(?:invalid|expired)\w*",
    r"unauthenticated",
    r"unauthorized\w*",
    r"invalid_(?:token|credentials)\w*",
    r"expired_token\w*",
    r"unrecognized_client\w*",
    r"token_expired",
    r"account_deactivated",
    r"auth\w*_error",
    r"invalid_?key",
)

ACCESS_TEXT = any_of(
    r"insufficient permissions|missing scopes|lacks the required",
    r"use case details have not been submitted",
)
"""Phrases that report a valid key without the necessary permission."""

MODEL_TEXT = any_of(
    r"""\b(?:model|deployment)\b(?:[`'\"][^`'\"]*[`'\"]|[^.:,;`'\"]){0,90}?(?:does ?n[o']t exist|not found"""
    r"|not exist|not (?:currently )?available|is not supported|isn.t (?:available|supported)|not a valid model"
    r"|is (?:invalid|unavailable|not (?:loaded|deployed|served|known|valid))|is unknown)",
    r"(?:no such|unknown|invalid|unsupported|unrecognized|nonexistent) (?:chat )?model\b"
    r"(?! (?:para|input|output|sett|opt))",
    r"not a valid model",
    r"no models? (?:is |are )?loaded",
    r"try pulling",
    r"no (?:allowed )?(?:endpoints|providers) (?:found|are available)",
    r"no access to model",
    r"not have access to (?:the )?model",
    r"model identifier is invalid",
    r"没有找到模型",
    r"模型不存在",
    r"^model: ",
)

MODEL_KINDS = any_of(
    r"(?:unknown|invalid|unavailable|unsupported)_model\w*",
    r"model_(?:not_found|not_supported|not_available|not_open|not_exist|unavailable|archived|decommissioned"
    r"|deprecated|retired)\w*",
    r"deployment_not_found",
    r"not_?found(?:_error)?",
    r"no_access",
    r"resource_not_found\w*",
    r"resource_does_not_exist",
    r"endpoint_not_found",
)

RETIRED_TEXT = any_of(
    rf"\bmodel\b{_NAME}{{0,80}}?(?:deprecated|decommissioned|retired|discontinued|shut down|sunset|archived"
    r"|end of (?:its |their )?life|end.of.life|no longer (?:available|supported|served))",
)
"""Phrases that report a retired model."""

COUNTRY_TEXT = any_of(
    r"(?:countr(?:y|ies)|region|territor(?:y|ies)|(?:user|your) location)\b.{0,60}?"
    r"(?:n[o']t (?:supported|available|allowed)|unsupported|restricted)",
    r"(?:not|n.t) (?:supported|available|offered|accessible|allowed) (?:in|from|for) (?:your|this) (?:country"
    r"|region|location|area|territory)",
    r"(?:block\w* access from your|banned the) (?:country|region)",
)

CONTENT_TEXT = any_of(
    r"content (?:management|safety) policy",
    r"content.?(?:filter|policy)",
    r"flagged",
    r"moderation",
    r"inappropriate content",
    r"usage polic(?:y|ies)",
    r"safety (?:system|filter|reasons)",
    r"data inspection",
    r"sensitive (?:content|information|words)",
    r"content exists risk",
    r"敏感",
)

CONTENT_KINDS = any_of(
    r"content_(?:filter|policy|moderation)\w*",
    r"responsible_ai\w*",
    r"data_inspection_failed\w*",
    r"moderation\w*",
    r"\w*safety\w*",
    r"\w*content_policy\w*",
    r"prompt_blocked",
    r"blocked_prompt",
)

ORGANISATION_TEXT = any_of(
    r"(?:organi[sz]ation|workspace|project|account|tenant|team)\b[^.]{0,60}?(?:disabled|restricted|suspended"
    r"|archived|deactivated|must be verified|not allowed|blocked|terminated)",
    r"(?:disabled|blocked|denied|restricted|not (?:allowed|permitted)) by (?:your |an? "
    r"|the )?(?:organi[sz]ation|administrator|admin|workspace|policy|guardrail)",
    r"data policy",
    r"guardrail",
    r"virtual network",
    r"public (?:network )?access is disabled",
    r"(?:blocked|disabled) at the (?:organi[sz]ation|project|account|workspace|team) level",
    r"firewall rules",
    r"service control",
    r"ip (?:address )?\S{0,45} ?(?:is )?not (?:allowed|authori[sz]ed|whitelisted)",
    r"zero data retention",
    r"privacy settings",
)
"""Phrases that report restrictions set by the organisation that owns the key."""

ORGANISATION_KINDS = any_of(
    r"organi[sz]ation_\w*",
    r"ip_not_authorized",
    r"ip_\w*denied",
    r"policy_violation",
    r"service_disabled",
    r"consumer_suspended",
    r"workspace_\w*",
    r"feature_not_enabled",
    r"tool_use_blocked",
    r"unverified_\w*",
)

NO_TOOLS_TEXT = (
    r"does(?: not|n't) support (?:tools?\b|tool (?:use|call)|function.?call)|no endpoints found that support tool use"
)

UNSUPPORTED_FEATURE_TEXT = any_of(
    r"\b(?:images?|audio|video|vision|tools?|tool.?choice|thinking|reasoning|grammar|function)\b[^.]{0,40}?"
    r"\b(?:is|are) (?:not|un)\s?supported",
    r"does(?: not|n't) support (?:images?|audio|video|vision|tools?|tool|thinking|reasoning|function)",
    r"requires? (?:the )?--\w",
    r"requires more system memory|(?:insufficient|too large for) system|unable to load model",
    r"roles must alternate|jinja template|^template: ",
)
"""Phrases in permanent errors that servers report with a server error status. Examples: a local server was started
without a feature, lacks memory, or has a chat template that rejects the messages."""

IMAGE_TEXT = any_of(
    r"\b(?:images?|pictures?)\b[^.]{0,60}?\b(?:exceeds? (?:\d|max allowed size)|too (?:large|big|small|many)"
    r"|could not be|not valid|does not (?:match|represent)|appears to be|unknown format)\b",
    r"(?:could not|cannot|can't|unable to|failed to) (?:process|load|decode|parse|read)\b[^.]{0,20}\bimage",
    r"(?:invalid|unsupported|too many|corrupt(?:ed)?) (?:input |base64 )?(?:image|picture)s?\b",
    r"image: unknown format|maximum of \d+ images",
)
IMAGE_KINDS = r"(?:invalid_image|image_(?:parse|too|file|format))\w*"

OVERLOADED_TEXT = any_of(
    r"overloaded",
    r"(?:at|over|no|out of|insufficient) capacity",
    r"capacity (?:temporarily )?exceeded",
    r"temporarily unavailable",
    r"too busy",
    r"server busy",
    r"high (?:demand|load|traffic)",
    r"engine is currently",
    r"service unavailable",
    r"model has crashed",
    r"unloaded",
    r"is (?:currently )?loading",
    r"loading model",
    r"not ready",
    r"degraded function",
    r"returned an error: internal",
    r"internal (?:server )?error",
)

OVERLOADED_KINDS = any_of(
    r"\w*overloaded\w*",
    r"slow_down",
    r"api_error",
    r"server_error",
    r"internal\w*error\w*",
    r"internal_server\w*",
    r"timeout\w*",
    r"unavailable\w*",
    r"service_unavailable\w*",
    r"model_(?:not_ready|timeout|error|stream_error)\w*",
    r"deadline_exceeded",
    r"internal",
    r"aborted",
    r"generation",
    r"capacity_exceeded",
    r"temporarily_unavailable",
    r"incomplete_generation",
)

OVERFLOW_KINDS = any_of(
    r"\w*context_(?:length|window|size)_?\w*",
    r"exceed_context_size\w*",
    r"request_too_large",
    r"tokens_limit_reached",
    r"model_max_prompt_tokens_exceeded",
    r"prompt_too_long",
    r"input_too_long",
    r"max_tokens_exceeded",
    r"string_above_max_length_of_input",
)

PERMANENT_KINDS = any_of(
    r"(?:invalid|unsupported|bad_request|validation|not_supported|unprocessable)\w*",
    r"\w*(?:image|policy)\w*",
)
"""Names of stream errors that make a retry useless."""

RETIRED_KINDS = r"model_(?:decommissioned|archived|deprecated|retired)\w*"
