"""Optional features of the program, one folder each. The features that sessions use are registered in
`ebbtide.agent.integration_registry`. Nothing else imports them, so each folder can be deleted."""
