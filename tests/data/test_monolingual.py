"""Source sentences without a translation: their bound, their batches, a run with them."""

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf import hparams, train
from aevnmt_tf.data import corpus_preparation
from aevnmt_tf.data.batches import without_targets
from aevnmt_tf.data.training_data import load_training_data
from aevnmt_tf.training import train_step
from tests import tiny, tiny_run
from tests.reference import Reference

MONO = 1  # the corpus after the one of pairs


def build(system):
    hp = tiny.settings(system, mono_prefix="sentences", optimizer="sgd")
    model = train_step.build(hp, tiny.VOCAB_X, tiny.VOCAB_Y)
    tiny.randomise(model, seed=0)
    return model


def with_corpora(*corpora):
    return tiny.batch() | {"corpus": tf.constant(corpora)}


@pytest.mark.parametrize("system", ["source_only", "joint", "mixture"])
def test_a_sentence_alone_has_the_bound_on_its_own_probability(system):
    model = build(system)
    batch = with_corpora(0, MONO, MONO, 0, MONO)
    alone = without_targets(batch, corpus=MONO)
    noise = model.noise(alone, 1)
    terms, loss = model.terms_and_loss(alone, noise, 1.0)
    twin = Reference(tiny.weights(model))
    for b, (x, y) in enumerate(tiny.PAIRS):
        expected = twin.loss(x, y, noise["epsilon"][b] if "epsilon" in noise else None)
        if b in (1, 2, 4):
            z = twin.sample(x, y, noise["epsilon"][b]) if twin.has_z else None
            expected -= -twin.log_py(x, y, z)[0]
            assert terms.nll_y[b] == terms.correct_y[b] == 0.0
        np.testing.assert_allclose(loss[b], expected, rtol=1e-5)


def test_a_batch_of_sentences_leaves_the_translation_model_as_it_is():
    model = build("source_only")
    before = {v.path: v.numpy() for v in model.trainable_variables}
    found = model.train_on(with_corpora(*[MONO] * 5))
    assert found["skipped"] == 0 and found["nll_y"] == found["y_tokens"] == 0.0
    assert found["nll_x"] > 0.0 and found["x_tokens"] == sum(len(x) for x, _ in tiny.PAIRS)
    moved = {v.path for v in model.trainable_variables if np.any(v.numpy() != before[v.path])}
    still = {path for path in before if "decoder" in path or "encoder" in path}
    assert moved == before.keys() - still - {model.emb_y.embeddings.path}


def test_batches_of_sentences_come_by_the_ratio(tmp_path):
    prefixes = tiny_run.write_corpus(tmp_path / "corpus", train=8)
    lines = ["red house and tree", "two blue trees", "five", ""]
    (tmp_path / "mono.en").write_text("\n".join(lines) + "\n", encoding="utf-8")
    hp = hparams.load(
        train_prefix=prefixes["train"],
        dev_prefix=prefixes["dev"],
        mono_prefix=str(tmp_path / "mono"),
        mono_real_ratio=2,
        src="en",
        tgt="de",
        subword_option="",
        batch_size=4,
        num_buckets=2,
    )
    prepared = corpus_preparation.ensure_prepared(hp, tmp_path / "run" / "text")
    # Words of theirs are in the vocabulary.
    assert "trees" in (tmp_path / "run" / "text" / "vocab.en").read_text().split()
    tokenizers = {"x_tokenizer": prepared.x_tokenizer, "y_tokenizer": prepared.y_tokenizer}
    data = load_training_data(prepared.hp, **tokenizers, folder=prepared.ids)
    batches = list(data.dataset().take(6))
    is_mono = [set(batch["corpus"][batch["weight"] > 0].numpy()) for batch in batches]
    assert is_mono == [{0}, {MONO}, {MONO}] * 2
    seen = prepared.x_tokenizer.decode(batches[1]["x"]).numpy()
    assert {line.decode() for line in seen} == set(lines)


@pytest.mark.slow
def test_a_run_with_sentences_and_pairs(tmp_path):
    path = tiny_run.write_settings(tmp_path, mono_prefix=str(tmp_path / "corpus" / "dev"))
    assert train.main(["--hparams", str(path)]) == 0
    lines = tiny_run.read_metrics(tmp_path / "run")
    assert lines[-1]["dev_bleu"] >= 0.0


def test_a_missing_file_is_a_sentence(tmp_path, capsys):
    path = tiny_run.write_settings(tmp_path, mono_prefix=str(tmp_path / "none"))
    assert train.main(["--hparams", str(path)]) == 2
    assert "none.en" in capsys.readouterr().err
