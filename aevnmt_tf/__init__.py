"""Auto-Encoding Variational Neural Machine Translation (Eikema and Aziz, 2019)."""

__version__ = "0.1.0"
