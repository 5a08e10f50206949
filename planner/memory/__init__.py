"""Weight bytes by format, the engine's memory budget, the verdict, and the largest context or batch that fits."""
