"""Files -> checked pairs -> ids -> batches; preparation of corpora; the demo corpus."""
