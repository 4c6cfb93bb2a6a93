"""The front ends: the terminal on a screen and in lines, the command line, the browser."""
