"""Sign-in to subscriptions: the flows by which users allow it, and the tokens that come of it."""
