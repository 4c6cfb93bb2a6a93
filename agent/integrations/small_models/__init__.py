"""Replies of small models, and of servers that do not parse calls: finds calls that are written as text or only shown
as code."""
