"""How many words of a text a model does not know: raw text where it takes tokens has many."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aevnmt_tf.translator.line_translator import TranslatedLine

MANY = 0.1  # the share above which a text looks like another kind than the model takes


class UnknownWords:
    """The unknown words of translated lines."""

    def __init__(self) -> None:
        self._words = self._unknown = 0

    def add(self, line: "TranslatedLine") -> None:
        """Count those of one more line."""
        self._words += line.num_words
        self._unknown += line.num_unknown

    def sentence(self, form: str) -> str:
        """Return what to say to someone whose text should be of a `form`, if anything."""
        if not self._unknown:
            return ""
        counted = f"{self._unknown} of {self._words} source words are unknown to the model"
        if self._unknown <= MANY * self._words:
            return counted
        return f"{counted}, which takes {form}: is this text of that form?"
