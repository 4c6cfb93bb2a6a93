"""The version of the program. It is defined only here."""

VERSION = "0.1.0"
