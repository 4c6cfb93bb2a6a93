"""The topics of the help, each with its commands and keys."""

TOPICS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Writing", ("Enter", "\\ Enter", "Ctrl-J", "Alt-Enter", "Up, Down", "/", "@", "!", "#", "Ctrl-R", "Ctrl-G", "Tab",
                 "Ctrl-V", "history", "later", "shell", "remember", "vim", "editor")),
    ("Turn", ("Esc", "F3", "Shift-Tab", "todos", "plan", "mode", "tasks", "agents", "status")),
    ("Reading", ("PgUp", "PgDn", "Home", "End", "Ctrl-Up", "Ctrl-Down", "Ctrl-F", "Ctrl-O", "Ctrl-T", "F4", "F2",
                 "diff", "print", "copy", "export", "thinking")),
    ("Context", ("Ctrl-X", "context", "compact", "archive", "why", "bring")),
    ("Sessions", ("resume", "sessions", "clear", "rewind", "undo", "redo", "fork", "rename", "files", "add-dir",
                  "sandbox")),
    ("Extensions", ("init", "memory", "review", "skills", "hooks", "trust", "mcp")),
    ("Settings", ("Ctrl-P", "F5", "model", "key", "effort", "settings", "theme", "commands", "panel", "F1", "Ctrl-Z",
                  "Ctrl-C", "Ctrl-D", "help", "doctor", "quit")),
)  # fmt: skip
"""Each topic with its command names and key labels. A key is named by its full label or by the first key in it."""

OTHER_TOPIC = "Other"

EVERYDAY_TASKS: tuple[tuple[str, str], ...] = (
    ("Enter", "send what you typed; while it works, with its next step"),
    ("Esc", "stop it; what it has written so far stays"),
    ("@", "attach a file, a folder or an image"),
    ("!", "run a command yourself and show its output to the model"),
    ("Shift-Tab", "ask before each change, change files without asking, plan only, or just work"),
    ("/diff", "see what the last turn changed"),
    ("/undo", "take back what the last turn changed"),
    ("/rewind", "go back to one of your messages and try another way"),
    ("/resume", "find an earlier session and continue it"),
    ("/clear", "start a new session"),
    ("/model", "use another model"),
    ("/context", "see what fills the window, and free space"),
    ("/compact", "summarise the conversation to free space"),
    ("/settings permissions", "allow calls, such as all tests of a project, or deny them"),
    ("/mcp", "see, add and restart MCP servers"),
    ("/key", "replace an API key"),
    ("/quit", "leave"),
)
"""What people do most, and how."""


def topic_of_command(name: str) -> str:
    return next((topic for topic, names in TOPICS if name in names), OTHER_TOPIC)


def topic_of_key(label: str) -> str:
    first_key = label.split(",")[0].strip()
    return next((topic for topic, names in TOPICS if label in names or first_key in names), OTHER_TOPIC)
