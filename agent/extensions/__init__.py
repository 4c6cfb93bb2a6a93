"""Extensions of users and projects: skills, commands, agents, hooks and plugins. Where they are found, how they are
read, and whether they are approved."""
