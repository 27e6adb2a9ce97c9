"""Runs whose text is raw, and what became of them when they were exported."""

import contextlib
import fcntl
import functools
import io
import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from aevnmt_tf import export, text
from aevnmt_tf.storage import run_directory, snapshots
from aevnmt_tf.text import sentencepiece_tokenizer
from aevnmt_tf.translator import Graph, Translator
from tests import tiny, tiny_run

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:9.9.9"
SIGNATURES = "serving_default nbest sample mbr score attention embed".split()


@functools.cache
def tokenizers():
    """SentencePiece for English and German; most of their pieces are bytes."""
    lines = [
        " ".join(pair) for pair in zip(tiny_run.WORDS, reversed(tiny_run.WORDS), strict=True)
    ]
    proto = functools.partial(sentencepiece_tokenizer.train, vocab_size=300)
    sides = (lines, [" ".join(map(tiny_run.WORDS.get, line.split())) for line in lines])
    return tuple(text.SentencePieceTokenizer(proto(side * 5)) for side in sides)


def make(system="source_only", **changes):
    """A translator of raw text with random weights."""
    x_tokenizer, y_tokenizer = tokenizers()
    sizes = {"vocab_x": x_tokenizer.vocab_size, "vocab_y": y_tokenizer.vocab_size}
    model = tiny.build(system, scale=0.8, **sizes)
    adjust(model)
    defaults = {"infer_batch_size": 16, "beam_width": 3, "src_max_len_infer": 12}
    hp = tiny.settings(system, **{**defaults, "src": "en", "tgt": "de", **changes})
    return Translator(Graph(model, x_tokenizer, y_tokenizer, hp))


def adjust(model):
    """Sentences shall end, but not at once, and bytes shall be rare."""
    bias = model.decoder.out_y.bias.numpy()
    bias[text.EOS] += 1.0
    bias[text.EOS + 1 : text.EOS + 257] -= 1.0
    model.decoder.out_y.bias.assign(bias)


def save_run(folder, system="source_only", **changes):
    """A run's directory with the weights of `make` and a record of its training."""
    t = make(system, **changes)
    folder.mkdir(parents=True)
    t.hp.save(folder / run_directory.HPARAMS)
    t.x_tokenizer.save(folder / run_directory.TEXT, "en")
    t.y_tokenizer.save(folder / run_directory.TEXT, "de")
    snapshots.publish(
        folder / "best", step=7, write=lambda f: run_directory.save_weights(t.model, f)
    )
    reports = [
        {"step": 5, "dev_bleu": 9.0},
        {"step": 7, "loss": 1.0},
        {"step": 7, "dev_bleu": 12.5},
        {"step": 7, "dev_bleu": None},  # not finite
    ]
    lines = "".join(json.dumps(report) + "\n" for report in reports)
    (folder / run_directory.METRICS).write_text(lines)
    results = json.dumps({"signatures": {"bleu": SIGNATURE}})
    (folder / run_directory.RESULTS).write_text(results)
    return folder


class Shared(NamedTuple):
    """A run, its export, and what the command has said about it."""

    run: Path
    export_dir: Path
    printed: str


FLAGS = "--n_best 3 --num_samples 4 --mbr_samples 6 --samples 3 --allowed_batch_sizes 1,3"


def shared(tmp_path_factory) -> Shared:
    """The same export for all tests: it is made once, whatever the number of workers."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    made = Shared(folder / "run", folder / "my exports", "")
    with open(folder / "export.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        printed = folder / "printed.txt"
        if not printed.exists():
            save_run(made.run)
            words = ["--model", made.run, "--export_dir", made.export_dir, *FLAGS.split()]
            with contextlib.redirect_stdout(io.StringIO()) as output:
                assert export.main(list(map(str, words))) == 0
            printed.write_text(output.getvalue())
    return made._replace(printed=printed.read_text())


def sentences(count, *, seed=5):
    """Raw lines of all sorts, some of them empty, long, or in no language."""
    rng = np.random.default_rng(seed)
    words = [*tiny_run.WORDS, "Zürich", "日本", "😀", "zz", "\u2028", "  "]
    lines = [" ".join(rng.choice(words, size=rng.integers(0, 9))) for _ in range(count)]
    return lines


def ask(model, name, **inputs):
    """What a loaded SavedModel answers, as arrays; text as str."""
    tensors = {key: tf.constant(value) for key, value in inputs.items()}
    outputs = model.signatures[name](**tensors)
    return {key: _readable(value.numpy()) for key, value in outputs.items()}


def _readable(array):
    if array.dtype != object:
        return array
    return np.vectorize(lambda b: b.decode(), otypes=[object])(array) if array.size else array
