"""Experiments: plans of systems, seeds and test sets; their runs and tables."""
