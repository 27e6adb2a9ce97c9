"""Segmentations drawn at random: reproducible, of the same text, with the right frequencies."""

import collections
import io

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from aevnmt_tf import text
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.text import sentencepiece_tokenizer


@pytest.fixture(scope="module")
def tokenizer(model_proto):
    return text.SentencePieceTokenizer(model_proto)


def test_the_same_seed_draws_the_same(tokenizer, lines):
    first = tokenizer.sample(lines[:50], alpha=0.3, seed=5)
    assert tokenizer.sample(lines[:50], alpha=0.3, seed=6) != first
    assert tokenizer.sample(lines[:50], alpha=0.3, seed=5) == first


def test_samples_are_other_segmentations_of_the_same_text(tokenizer, lines):
    best = tokenizer.encode(lines[:200]).to_list()
    sampled = tokenizer.sample(lines[:200], alpha=0.2, seed=1)
    assert sum(one != other for one, other in zip(sampled, best, strict=True)) > 100
    found = tokenizer.decode(tf.ragged.constant(sampled, tf.int32)).numpy()
    np.testing.assert_array_equal(found, tokenizer.decode(tokenizer.encode(lines[:200])))


def segmentations(processor, string):
    """Every way to write a string in pieces: ids and log-probability."""
    if not string:
        return [((), 0.0)]
    found = []
    for end in range(1, len(string) + 1):
        piece = processor.piece_to_id(string[:end])
        if piece != processor.unk_id():
            score = processor.get_score(piece)
            rest = segmentations(processor, string[end:])
            found += [((piece, *ids), score + other) for ids, other in rest]
    return found


def test_frequencies_are_those_of_the_model(tokenizer, model_proto):
    """Against all segmentations of a line, weighted with P^alpha."""
    alpha, draws = 0.1, 20_000
    processor = sentencepiece.SentencePieceProcessor(model_proto=model_proto)
    mark = "\N{LOWER ONE EIGHTH BLOCK}"
    possible = segmentations(processor, f"{mark}Straße{mark}Zoooo")
    assert len(possible) > 10
    weights = np.exp(alpha * np.array([score for _, score in possible]))
    expected = weights / weights.sum()
    counts = collections.Counter(
        map(tuple, tokenizer.sample(["Straße Zoooo"] * draws, alpha=alpha, seed=2))
    )
    assert set(counts) <= {ids for ids, _ in possible}
    found = np.array([counts[ids] for ids, _ in possible]) / draws
    error = np.sqrt(expected * (1.0 - expected) / draws)
    assert np.all(np.abs(found - expected) <= 4.5 * error + 1e-9)


def test_other_models_have_nothing_to_draw(lines):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines[:500]),
        model_writer=model,
        model_type="bpe",
        vocab_size=150,
        minloglevel=2,
    )
    bpe = text.SentencePieceTokenizer(model.getvalue())
    words = text.VocabularyTokenizer(["<unk>", "<s>", "</s>", "ein"])
    for tokenizer in (bpe, words):
        with pytest.raises(UserError, match="subword_sampling needs .* unigram"):
            tokenizer.sample(["ein"], alpha=0.3, seed=1)


def test_every_symbol_of_a_line_stays_whole(lines):
    proto = sentencepiece_tokenizer.train(lines[:500], vocab_size=400, symbols=["<bt>"])
    tokenizer = text.SentencePieceTokenizer(proto)
    ((symbol,),) = tokenizer.encode(["<bt>"]).to_list()
    sampled = tokenizer.sample(["<bt> ein <bt>"] * 400, alpha=0.01, seed=1)
    assert {row.count(symbol) for row in sampled} == {2}
    assert len(set(map(tuple, sampled))) > 1
