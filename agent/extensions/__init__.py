"""What users and projects bring besides settings: skills, commands, agents, hooks, plugins; where it is looked for, how
it is read, whether it is approved."""
