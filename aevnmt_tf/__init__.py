"""Auto-Encoding Variational Neural Machine Translation (Eikema and Aziz, 2019)."""

from typing import TYPE_CHECKING, Any

from aevnmt_tf.cli import interrupts, quiet

if TYPE_CHECKING:
    from aevnmt_tf.translator import Translator

__version__ = "0.2.0"

interrupts.end_quietly_from_now_on()


def load(run: Any, *, checkpoint: str | None = None, **overrides: Any) -> "Translator":
    """Load a trained model.

    The first call imports TensorFlow; `import aevnmt_tf` does not.

    Args:
        run: The out_dir of a training run. A list of runs with identical vocabularies makes an
            ensemble.
        checkpoint: The weights to load: "best", "last" or "average". By default, best or
            average, whichever has the higher dev BLEU, and last if neither exists.
        **overrides: Settings to change, such as `beam_width=5` or `infer_batch_size=16`.

    Returns:
        A Translator with the methods translate, n_best, score, sample, interpolate and embed.

    Raises:
        aevnmt_tf.cli.errors.UserError: The run, its weights or a setting is invalid.

    Example:
        >>> model = aevnmt_tf.load("runs/demo")
        >>> model.translate(["I like the cake."])
        ['Der Kuchen schmeckt mir.']
    """
    quiet.quiet_import()
    from aevnmt_tf import translator

    return translator.load(run, checkpoint=checkpoint, **overrides)
