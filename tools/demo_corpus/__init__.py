"""The grammar that made the demo corpus: English-German pairs of two registers.

Every sentence is worked out twice from one meaning, so a translation needs agreement, case
and word order, not only a dictionary. No side of a pair ever occurs in another pair.
"""
