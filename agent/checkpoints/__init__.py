"""Checkpoints of files before the agent changes them: scan, store, plan a restore, restore."""
