"""Support for small models and for servers that do not parse calls: finds calls that are written as text or only shown
as code, attaches relevant files, and sends reminders."""
