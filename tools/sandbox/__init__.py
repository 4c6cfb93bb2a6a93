"""The boundary around commands: what they may write, see and reach, held by the kernel. It decides no permission."""
