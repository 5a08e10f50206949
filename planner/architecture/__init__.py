"""A model as layers: what config.json says, turned into parameters, cache bytes and work per layer."""
