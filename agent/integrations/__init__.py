"""Optional parts of the program, one folder each. The parts that sessions use are registered in
`ebbtide.agent.integration_rows`. Nothing else imports them, so that each folder can be deleted."""
