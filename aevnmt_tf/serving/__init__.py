"""The export of a model as a SavedModel that does not need this package, and a server."""
