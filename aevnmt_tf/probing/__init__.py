"""What a linear model can read off z: features, Bayesian linear models, scores."""
