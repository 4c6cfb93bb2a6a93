"""Turns events into blocks, and lists into rows. Pure."""
