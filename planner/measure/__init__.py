"""Measurements against the model: predictions of published runs, fits of its constants, and how far they hold."""
