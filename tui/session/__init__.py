"""The session on display: controller, queue, drafts and the session list."""
