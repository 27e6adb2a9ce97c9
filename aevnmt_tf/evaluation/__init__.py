"""Evaluation: metrics, test sets, significance tests, reports, and whether z is in use."""
