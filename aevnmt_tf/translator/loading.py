"""A run's directory to a translator."""

from pathlib import Path

from aevnmt_tf import hparams, run_directory, text
from aevnmt_tf import model as models
from aevnmt_tf.errors import UserError
from aevnmt_tf.translator.lines import Translator


def load(run, *, checkpoint=None, **overrides) -> Translator:
    """The translator of a run's directory.

    Args:
        run: the out_dir of a training run.
        checkpoint: "best", "last" or "average"; None: best where there is one, else last.
        overrides: settings to change, such as beam_width.
    """
    run = Path(run)
    if not (run / run_directory.HPARAMS).is_file():
        raise UserError(
            f"{run} is not a run: it has no {run_directory.HPARAMS}; give the out_dir of a "
            "training run"
        )
    hp = hparams.load(run / run_directory.HPARAMS, **overrides)
    weights = run_directory.find_weights(run, checkpoint=checkpoint)
    folder = run / run_directory.TEXT
    marks = {"sos": hp.sos, "eos": hp.eos}
    x_tokenizer = text.load(folder, hp.src, **marks)
    y_tokenizer = x_tokenizer if hp.share_vocab else text.load(folder, hp.tgt, **marks)
    model = models.build(hp, x_tokenizer.vocab_size, y_tokenizer.vocab_size)
    run_directory.load_weights(model, weights)
    pipelines = {}
    if hp.text_pipeline == "moses":
        from aevnmt_tf.text import moses  # slow to import, and few need it

        pipelines = {
            "x_moses": moses.load(folder, hp.src),
            "y_moses": moses.load(folder, hp.tgt),
        }
    return Translator(model, x_tokenizer, y_tokenizer, hp, **pipelines)
