"""A tag in front of synthetic sources is one symbol, whatever the vocabulary."""

import numpy as np
import pytest

from aevnmt_tf import hparams
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data.corpus_preparation import ensure_prepared, prepare
from aevnmt_tf.data.training_data import load_training_data

TAG = "<bt>"
ENGLISH = [
    f"the {noun} sees {number} red houses" for number in range(12) for noun in ("dog", "cat")
]
GERMAN = [line.replace("sees", "sieht").replace("houses", "Häuser") for line in ENGLISH]


@pytest.fixture
def settings(write_pairs, tmp_path):
    """Settings with gold pairs and three synthetic ones, of which one source is empty."""
    train = write_pairs(ENGLISH, GERMAN)
    dev = write_pairs(ENGLISH[:2], GERMAN[:2], name="dev")
    write_pairs(["the dog", "", "red cat"], GERMAN[:3], name="mono", src_name="translation.en")
    named = {"train_prefix": str(train), "dev_prefix": str(dev), "src": "en", "tgt": "de"}
    named |= {"synthetic_prefix": str(tmp_path / "mono"), "batch_size": 2, "num_buckets": 1}

    def load(**changes):
        return hparams.load(None, **{**named, "synthetic_tag": TAG, **changes})

    return load


KINDS = [
    {"subword_option": "spm", "vocab_size": 330},
    {"subword_option": "spm", "vocab_size": 330, "subword_sampling": 0.01},
    {"subword_option": "", "share_vocab": True},
    {"text_pipeline": "moses", "vocab_size": 20},
]


@pytest.mark.parametrize("kind", KINDS)
def test_synthetic_sources_start_with_one_symbol_and_no_other_does(settings, kind, tmp_path):
    prepared = ensure_prepared(
        settings(**kind), tmp_path / "run" / "text", report=lambda _: None
    )
    tokenizers = {"x_tokenizer": prepared.x_tokenizer, "y_tokenizer": prepared.y_tokenizer}
    ((tag,),) = prepared.x_tokenizer.encode([TAG]).to_list()
    assert tag > 2 and prepared.x_tokenizer.decode([[tag]]).numpy()[0].decode().strip() == TAG
    data = load_training_data(prepared.hp, **tokenizers, folder=prepared.ids)
    # A source that is empty stays empty and is dropped; the Moses pipeline has done so before.
    dropped = 0 if "text_pipeline" in kind else 1
    counts = data.counts.corpora[-1]
    assert (counts.read, counts.empty, counts.kept) == (2 + dropped, dropped, 2)
    seen = set()
    for batch in data.dataset().take(data.batches_per_epoch):
        x, corpus = batch["x"].numpy(), batch["corpus"].numpy()
        for row in np.flatnonzero(batch["weight"].numpy()):
            seen.add(int(corpus[row]))
            is_synthetic = corpus[row] == 1
            assert (x[row, 0] == tag) == is_synthetic
            assert (x[row] == tag).sum() == is_synthetic
    assert seen == {0, 1}
    # The words after the tag are those of the sentence.
    plain, tagged = prepared.x_tokenizer.encode(["the dog", f"{TAG} the dog"]).to_list()
    assert tagged == [tag, *plain]


def test_without_a_tag_nothing_changes(settings, tmp_path):
    quiet = {"report": lambda _: None}
    for name, tag in (("with", TAG), ("without", None)):
        made = settings(subword_option="spm", vocab_size=330, synthetic_tag=tag)
        prepared = ensure_prepared(made, tmp_path / name / "text", **quiet)
        pieces = prepared.x_tokenizer.encode([f"{TAG} the dog"]).to_list()[0]
        alone = prepared.x_tokenizer.encode(["the dog"]).to_list()[0]
        assert (len(pieces) - len(alone) == 1) == (tag is not None)
    # A folder that was made without it is not taken for one with it.
    made = settings(subword_option="spm", vocab_size=330)
    with pytest.raises(UserError, match='was made with synthetic_tag null, not "<bt>"'):
        ensure_prepared(made, tmp_path / "without" / "text", **quiet)


def test_a_vocabulary_without_the_tag_is_refused(settings, tmp_path):
    out = tmp_path / "prepared"
    hp = settings(subword_option="", synthetic_tag=None, test_prefix=None)
    prepare(hp, out, report=lambda _: None)
    hp = settings(subword_option="", vocab_prefix=str(out / "text" / "vocab"))
    prepared = ensure_prepared(hp, tmp_path / "run" / "text", report=lambda _: None)
    with pytest.raises(UserError, match="synthetic_tag <bt> is not one symbol of the source's"):
        load_training_data(
            prepared.hp,
            x_tokenizer=prepared.x_tokenizer,
            y_tokenizer=prepared.y_tokenizer,
            folder=prepared.ids,
        )


@pytest.mark.parametrize("tag", ["two words", " <bt>", "<s>", "<unk>"])
def test_what_can_be_no_tag(settings, tag):
    with pytest.raises(UserError, match="synthetic_tag must be a single word"):
        settings(synthetic_tag=tag)


def test_a_tag_needs_synthetic_text(settings):
    with pytest.raises(UserError, match="synthetic_tag .* synthetic_prefix null"):
        settings(synthetic_prefix=None)
