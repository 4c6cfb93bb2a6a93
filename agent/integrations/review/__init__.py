"""Findings of a review: how a model reports them, and the formats of CI systems."""
