"""Every system can be exported, with the signatures that it can give."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import aevnmt_tf
from aevnmt_tf.serving import batching_file, saved_model, signatures
from aevnmt_tf.storage import run_directory
from aevnmt_tf.text import moses
from aevnmt_tf.translator import Decoding
from aevnmt_tf.translator.loading import ensemble
from tests import tiny_export, tiny_translator

LINES = tiny_translator.LINES
ALL = set(tiny_export.SIGNATURES)
SCORES = {
    "cond": ["log_py"],
    "joint": ["elbo", "log_px", "log_py"],
    **dict.fromkeys(("source_only", "KLq", "l2"), list(signatures.SCORES)),
}


@pytest.fixture
def few(monkeypatch):
    """Only those signatures are exported that are asked: the others cost time."""
    make, names = signatures.make, {"serving_default"}

    def make_few(*args):
        return {name: one for name, one in make(*args).items() if name in names}

    monkeypatch.setattr(signatures, "make", make_few)
    return names


def exported(t, folder, **options):
    """The SavedModel of a translator."""
    options = {"num_samples": 2, "score_samples": 2, **options}
    choices = signatures.Choices.of(t, **options)
    batching = batching_file.Batching(max_batch_size=1)
    return saved_model.export(t, folder, choices=choices, batching=batching).folder


def make(system, **changes):
    return tiny_translator.make(
        system, **{"src": "en", "tgt": "de", "beam_width": 2, **changes}
    )


def compare(t, served, *, decoding=None, lines=LINES):
    """Translations and scores, each line alone offline: what is drawn depends on its number.

    Returns the translations.
    """
    decoding = decoding or Decoding.of(t.hp)
    found = tiny_export.ask(served, "serving_default", source=lines)
    for row, line in enumerate(lines):
        (result,) = t.stream([line], decoding=decoding)
        assert found["translation"][row] == result.translations[0].text
        np.testing.assert_allclose(found["score"][row], result.translations[0].score, atol=1e-4)
    return found["translation"].tolist()


@pytest.mark.parametrize(
    "form",
    [
        {"unit_type": "lstm", "attention": "scaled_luong"},
        {
            "unit_type": "lstm",
            "encoder_type": "gnmt",
            "attention": "normed_bahdanau",
            "attention_architecture": "gnmt_v2",
            "num_layers": 3,
            "residual": True,
        },
        {"unit_type": "layer_norm_lstm", "attention": ""},
    ],
    ids=["iwslt15", "gnmt_v2", "no attention"],
)
def test_forms_of_tf_nmt_are_exported(few, tmp_path, form):
    t = make("cond", **{"num_layers": 2, "pass_hidden_state": True, **form})
    compare(t, tf.saved_model.load(str(exported(t, tmp_path))))


@pytest.mark.parametrize("system", SCORES)
def test_signatures_that_a_system_cannot_give_are_absent(system):
    t = make(system)
    made = signatures.make(t, signatures.Choices.of(t))
    assert set(made) == ALL - ({"embed"} if system in ("cond", "joint") else set())
    assert list(made["score"].outputs) == SCORES[system]


def test_an_ensemble_only_translates():
    t = ensemble([make("cond"), make("source_only", seed=1)])
    choices = signatures.Choices.of(t)
    assert set(signatures.make(t, choices)) == ALL - {"score", "embed"}
    assert choices.sample.z == "sample"  # one of them has a z


@pytest.mark.slow
@pytest.mark.parametrize(
    "system, changes",
    [
        ("cond", {}),
        ("joint", {"decoder_style": "tf_nmt"}),
        ("KLq", {}),
        ("l2", {}),
    ],
)
def test_a_system(system, changes, tmp_path, few):
    few |= {"score", "embed"}
    t = make(system, **{"beam_width": 0, **changes})
    served = tf.saved_model.load(str(exported(t, tmp_path)))
    compare(t, served)
    scores = tiny_export.ask(served, "score", source=LINES, target=LINES[::-1])
    assert sorted(scores) == sorted(SCORES[system])
    for row, (x, y) in enumerate(zip(LINES, LINES[::-1], strict=True)):
        expected = t.score([x], [y], samples=2)
        for name, values in scores.items():
            np.testing.assert_allclose(values[row], expected[name][0], rtol=1e-4, atol=1e-4)
    if "embed" in served.signatures:
        found = tiny_export.ask(served, "embed", source=LINES)
        for name, expected in zip(("loc", "scale"), t.embed(LINES), strict=True):
            np.testing.assert_allclose(found[name], expected, atol=1e-5)
        assert found["scale"].any() == (system != "l2")


@pytest.mark.slow
def test_samples_without_z(tmp_path, few):
    few |= {"sample"}
    t = make("cond", beam_width=0)
    served = tf.saved_model.load(str(exported(t, tmp_path)))
    drawn = tiny_export.ask(served, "sample", source=LINES[:2], seed=[6, 6])["translations"]
    for row in (0, 1):
        decoding = Decoding(search="sample", n_best=2)
        (result,) = t.stream([LINES[row]], decoding=decoding, seed=6)
        assert drawn[row].tolist() == [one.text for one in result.translations]


def test_samples_are_the_best_first_in_an_nbest_list():
    t = make("cond", beam_width=0)
    choices = signatures.Choices.of(t, search="sample", n_best=4)
    lines = ["", *filter(str.strip, LINES)]
    found = signatures.make(t, choices)["nbest"].function(tf.constant(lines))
    scores, texts = found["scores"].numpy(), found["translations"].numpy()
    assert (np.diff(scores) <= 0).all() and scores[0].tolist() == [0, *[scores.min()] * 3]
    decoding = Decoding(search="sample", n_best=4)
    was_sorted = []
    for row, line in enumerate(lines[1:], 1):
        (drawn,) = t.stream([line], decoding=decoding, seed=1)
        pairs = [(one.score, one.text) for one in drawn.translations]
        was_sorted.append(pairs == sorted(pairs, key=lambda pair: -pair[0]))
        assert sorted(text for _, text in pairs) == sorted(x.decode() for x in texts[row])
        for score, text in zip(scores[row], texts[row], strict=True):
            assert any(text.decode() == y and abs(score - s) < 1e-4 for s, y in pairs)
    assert not all(was_sorted)


@pytest.mark.slow
def test_an_ensemble(tmp_path, few):
    """Through the command's own function, from two runs."""
    runs = [tiny_translator.save_run(tmp_path / name, beam_width=2) for name in "ab"]
    weights = aevnmt_tf.load(runs[1], checkpoint="last").model
    (folder,) = (runs[1] / "best").iterdir()
    run_directory.save_weights(weights, folder)  # not the same as those of the first
    (folder / run_directory.MANIFEST).write_text('{"files": {}}')
    done = saved_model.export_runs(
        runs, tmp_path / "export", batching=batching_file.Batching(1)
    )
    assert [one["name"] for one in done.manifest["runs"]] == ["a", "b"]
    served = tf.saved_model.load(str(done.folder))
    t = aevnmt_tf.load(runs)
    compare(t, served)
    alone = aevnmt_tf.load(runs[0]).translate(LINES)
    assert (
        alone
        != tiny_export.ask(served, "serving_default", source=LINES)["translation"].tolist()
    )


@pytest.mark.slow
def test_refine_search(tmp_path, few):
    t = make("KLq")
    served = tf.saved_model.load(str(exported(t, tmp_path, search="refine", n_best=2)))
    found = compare(t, served, decoding=Decoding.of(t.hp, search="refine"))
    assert any(found)  # two that translate nothing would agree, too


@pytest.mark.slow
def test_mixed_precision(tmp_path, few):
    """A run of bfloat16, loaded as in a process that has trained it."""
    run = tiny_translator.save_run(tmp_path / "run", beam_width=2, precision="mixed_bfloat16")
    few |= {"attention", "score", "embed"}
    kept = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        t = aevnmt_tf.load(run)
        assert t.model.decoder.compute_dtype == "bfloat16"
        served = tf.saved_model.load(str(exported(t, tmp_path / "half")))
        compare(t, served)
        found = served.signatures["attention"](source=tf.constant(["a b"]))["attention"]
        (result,) = t.stream(["a b"], decoding=Decoding.of(t.hp), details=True)
        np.testing.assert_allclose(found[0], result.translations[0].attention, atol=1e-6)
        for name in served.signatures:
            for spec in served.signatures[name].structured_outputs.values():
                assert spec.dtype in (tf.float32, tf.string)
    finally:
        keras.config.set_dtype_policy(kept)


@pytest.mark.slow
def test_moses(tmp_path, few):
    """The model takes and gives tokens, says so, and brings what makes them along."""
    run = tiny_translator.save_run(
        tmp_path / "run", beam_width=2, text_pipeline="moses", subword_option="bpe"
    )
    for lang in ("en", "de"):
        pipeline = moses.learn_truecaser(lang, ["a b c d", "A b"])
        pipeline.with_codes("#version: 0.2\na b</w>\n").save(run / "text")
    done = saved_model.export_runs(
        [run], tmp_path / "export", batching=batching_file.Batching(1)
    )
    names = ["moses.de.codes", "moses.de.truecaser", "moses.en.codes", "moses.en.truecaser"]
    assert sorted(p.name for p in (done.folder / "assets.extra" / "text").iterdir()) == names
    manifest = json.loads((done.folder / "assets.extra" / "manifest.json").read_text())
    assert manifest["text"]["source"]["form"] == "tokenised"
    assert "Moses tokens" in manifest["text"]["source"]["note"]
    served = tf.saved_model.load(str(done.folder))
    t = aevnmt_tf.load(run)
    raw = ["A b c.", "d e"]
    tokens = [t.encoder.x_moses.forward(line) for line in raw]
    found = tiny_export.ask(served, "serving_default", source=tokens)["translation"]
    assert [t.encoder.y_moses.inverse(line) for line in found] == t.translate(raw)
    assert dataclasses.asdict(Decoding.of(t.hp)) == manifest["decoding"]["translate"]
