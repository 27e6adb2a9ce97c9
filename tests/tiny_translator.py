"""Translators of tiny random models, and runs made of them."""

from aevnmt_tf import text
from aevnmt_tf.storage import run_directory, snapshots
from aevnmt_tf.translator import Graph, Translator
from tests import tiny

WORDS = "<unk> <s> </s> a b c d e f g h".split()
LINES = ["a b c", "d e f g h a b c d e f", "", "h", "a a a a a", "c b", "   ", "zz b", "e"]


def make(system="source_only", *, scale=0.8, seed=0, **changes):
    model_changes = {k: v for k, v in changes.items() if k in ("decoder_style",)}
    model = tiny.build(
        system, vocab_x=len(WORDS), vocab_y=len(WORDS), scale=scale, seed=seed, **model_changes
    )
    # </s> must not come at once.
    if model.decoder.out_y.bias is not None:
        bias = model.decoder.out_y.bias.numpy()
        bias[text.EOS] -= 2.0
        model.decoder.out_y.bias.assign(bias)
    hp = tiny.settings(system, **{"infer_batch_size": 4, "beam_width": 3, **changes})
    tokenizer = text.VocabularyTokenizer(WORDS)
    return Translator(Graph(model, tokenizer, tokenizer, hp))


def save_run(folder, **changes):
    t = make(src="en", tgt="de", **changes)
    folder.mkdir()
    t.hp.save(folder / run_directory.HPARAMS)
    for lang in ("en", "de"):
        t.x_tokenizer.save(folder / run_directory.TEXT, lang)
    for seed, place in ((3, "best"), (4, "checkpoints")):
        tiny.randomise(t.model, seed=seed, scale=0.8)
        snapshots.publish(
            folder / place, step=seed, write=lambda f: run_directory.save_weights(t.model, f)
        )
    return folder
