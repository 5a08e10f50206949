"""Typed facts read from profiles/: models, accelerators, engines, formats, instances and prices, calibrations."""
