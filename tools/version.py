"""The version of the program, defined only here."""

VERSION = "0.1.0"
