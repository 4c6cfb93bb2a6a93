"""Compares the speed of `ebb` with that of other agents, as installed programs that ask one scripted server."""
