"""Auto-Encoding Variational Neural Machine Translation (Eikema and Aziz, 2019)."""

__version__ = "0.1.0"


def load(run, **options):
    """The translator of a run: `load("run").translate(["A sentence."])`.

    See aevnmt_tf.translator.load. TensorFlow is imported here, not with the package.
    """
    from aevnmt_tf import translator

    return translator.load(run, **options)
