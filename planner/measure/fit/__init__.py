"""Fitting calibrations to measured runs: few constants, inside their physical range, held out in folds."""
