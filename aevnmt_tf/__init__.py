"""Auto-Encoding Variational Neural Machine Translation (Eikema and Aziz, 2019)."""

from typing import TYPE_CHECKING, Any

from aevnmt_tf.cli import interrupts

if TYPE_CHECKING:
    from aevnmt_tf.translator import Translator

__version__ = "0.2.0"

interrupts.end_quietly_from_now_on()


def load(run: Any, **options: Any) -> "Translator":
    """Return the translator of a run: `load("run").translate(["A sentence."])`.

    See aevnmt_tf.translator.load. TensorFlow is imported here, not with the package.
    """
    from aevnmt_tf import translator

    return translator.load(run, **options)
