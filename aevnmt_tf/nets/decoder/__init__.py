"""The target decoder, P(y|x, z): one file per form."""
