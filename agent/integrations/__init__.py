"""Optional features of the program, one folder each. Those that sessions use are registered in
`ebbtide.agent.integration_registry`. Nothing else imports them, so each folder can be deleted."""
