"""The real terminal around the app: title, notifications, clipboard, editor, signals and colours."""
