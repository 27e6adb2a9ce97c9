"""Plots, and files for TensorBoard's projector."""
