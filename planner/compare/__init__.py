"""One scenario over many accelerators in a vectorised pass: ranking, differences, Pareto front."""
