"""The front ends: full-screen interface, line mode, command line, browser and editor."""
