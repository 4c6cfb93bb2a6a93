"""Sign-in to subscriptions."""
