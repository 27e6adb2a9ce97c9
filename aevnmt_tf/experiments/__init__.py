"""Experiments: a plan of systems, seeds and test sets, its runs, and the tables of them."""
