"""Probing z: features, Bayesian linear models, scores."""
