"""Optional tools, each in a folder with the modules that it needs. They are listed in
`ebbtide.tools.integration_registry` and loaded only on demand."""
