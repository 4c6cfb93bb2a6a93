"""Marks for tests that need a program which a machine may lack."""

import shutil

import pytest

needs_ripgrep = pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
