"""The model behind a port: what is exported, and the server that answers with it.

export.py writes a SavedModel that needs nothing of this package; signatures.py says what can be
asked of it.
"""
