"""A run's directory to a translator."""

from pathlib import Path

from aevnmt_tf import hparams, run_directory, text
from aevnmt_tf import model as models
from aevnmt_tf.translator.ensemble import Ensemble
from aevnmt_tf.translator.lines import Translator


def load(run, *, checkpoint=None, **overrides) -> Translator:
    """The translator of a run's directory.

    Args:
        run: the out_dir of a training run; a list of several makes an Ensemble.
        checkpoint: "best", "last" or "average"; None: as run_directory.find_weights.
        overrides: settings to change, such as beam_width.
    """
    if isinstance(run, list | tuple):
        members = [load(one, checkpoint=checkpoint, **overrides) for one in run]
        return members[0] if len(members) == 1 else Ensemble(members, names=run)
    hp = hparams.load(run_directory.settings_file(run), **overrides)
    weights = run_directory.find_weights(run, checkpoint=checkpoint)
    folder = Path(run) / run_directory.TEXT
    marks = {"sos": hp.sos, "eos": hp.eos}
    x_tokenizer = text.load(folder, hp.src, **marks)
    y_tokenizer = x_tokenizer if hp.share_vocab else text.load(folder, hp.tgt, **marks)
    model = models.build(hp, x_tokenizer.vocab_size, y_tokenizer.vocab_size)
    run_directory.load_weights(model, weights)
    pipelines = {}
    if hp.text_pipeline == "moses":
        from aevnmt_tf.data import text_folder  # slow to import, and few need it

        found = text_folder.load_pipelines(hp, folder)
        pipelines = {"x_moses": found[hp.src], "y_moses": found[hp.tgt]}
    return Translator(model, x_tokenizer, y_tokenizer, hp, is_final=True, **pipelines)
