"""Sign-in to subscriptions: the sign-in flows, and the tokens that they return."""
