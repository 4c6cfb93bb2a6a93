"""Optional tools, each in a folder with the modules that it needs. `ebbtide.tools.integration_registry` lists them, and
they are loaded only on demand."""
