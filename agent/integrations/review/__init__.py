"""Review findings: how a model reports them, and how they are formatted for CI systems."""
