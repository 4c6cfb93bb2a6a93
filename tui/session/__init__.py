"""The session that is shown: controller, queue, drafts, pages of sessions."""
