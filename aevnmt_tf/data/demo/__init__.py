"""The demo corpus: English-German pairs from a grammar of our own, for a first training run.

Every sentence is worked out twice from one meaning, so a translation needs agreement, case
and word order, not only a dictionary. No side of a pair ever occurs in another pair.
"""

from aevnmt_tf.data.demo.corpus import NEWS, TALK, Pair, Splits, generate, splits, write

__all__ = ["NEWS", "TALK", "Pair", "Splits", "generate", "splits", "write"]
