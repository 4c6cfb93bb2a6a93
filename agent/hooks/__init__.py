"""Hooks: programs of the user, a project or a plugin that run on session events and can veto them. Covers their input,
the meaning of their answers, and how they are run; does not depend on the call loop or on models."""
