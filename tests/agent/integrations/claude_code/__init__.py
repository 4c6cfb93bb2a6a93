"""Tests of Claude Code's format."""
