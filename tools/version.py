"""Which version of the program this is: the one place where it stands."""

VERSION = "0.1.0"
