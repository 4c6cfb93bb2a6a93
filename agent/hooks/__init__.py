"""Programs of the user, of a project and of plugins that are told what happens in a session and may object: how it is
told, what their answers mean, and how they are run. It knows no call that runs and no model."""
