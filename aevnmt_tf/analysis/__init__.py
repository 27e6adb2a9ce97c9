"""Analysis: metrics, plots and the projector."""
