"""The sandbox of commands: what they may write, see and reach, enforced by the kernel. Permissions are decided
elsewhere."""
