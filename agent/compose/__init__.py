"""The composition root: opens the sessions of a project, and creates and connects the parts of each one."""
