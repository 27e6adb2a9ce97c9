"""What only TF-NMT has: LSTMs, its encoders, attention mechanisms and GNMT's decoders."""
