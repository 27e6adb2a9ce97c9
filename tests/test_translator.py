"""The decode path with tiny random models: text in, text out."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import aevnmt_tf
from aevnmt_tf import machine, objective, search, text
from aevnmt_tf.errors import UserError
from aevnmt_tf.nets import search_step
from aevnmt_tf.translator import Decoding, Translator, tensors
from tests import tiny
from tests.tiny_translator import LINES, WORDS, make, save_run

SYSTEMS = ["cond", "joint", "source_only", "KLq", "l2"]


@pytest.fixture(scope="module")
def shared():
    return make()


# The step that search uses.


@pytest.mark.parametrize(
    "style, width, room, options",
    [
        ("paper", 1, True, {}),
        ("paper", 3, True, {}),
        ("paper", 3, False, {}),
        ("paper", 1, True, {"num_decoder_layers": 2, "gru_reset": "after"}),
        ("paper", 3, True, {"num_decoder_layers": 2, "gru_reset": "after"}),
        ("tf_nmt", 1, True, {}),
        ("tf_nmt", 3, True, {}),
    ],
)
@pytest.mark.parametrize("has_table", [False, True])
def test_search_step_is_the_models_step(style, width, room, options, has_table, monkeypatch):
    if not room:
        monkeypatch.setattr(search_step, "MOST_PROJECTED", 10)
    model = tiny.build("source_only", decoder_style=style, **options)
    batch = tiny.batch()
    memory, state = model.start(
        batch["x"], batch["x_len"], model.z_for_prediction(batch["x"], batch["x_len"])
    )
    rows = len(tiny.PAIRS) * width
    state = tf.nest.map_structure(
        lambda s: (
            tf.repeat(s, width, axis=0) + tf.random.stateless_normal([rows, s.shape[1]], [1, 2])
        ),
        state,
    )
    y = tf.random.stateless_uniform([rows], [3, 4], 0, tiny.VOCAB_Y, tf.int32)
    tiled = tf.nest.map_structure(lambda m: tf.repeat(m, width, axis=0), memory)
    expected = model.step(tiled, state, y)
    words = search_step.word_table(model.decoder, model.emb_y) if has_table else None
    assert (words is not None) == (has_table and style == "paper")
    step = search_step.make(model.decoder, model.emb_y, width=width, words=words)
    carried = step.memory(memory)
    if (style, width) == ("paper", 3):
        assert (carried.logits.shape[1] > 0) == room  # where there is none, nothing is kept
    got = step(carried, state, y)
    for a, b in zip(tf.nest.flatten(got), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_large_vocabularies_have_no_table(monkeypatch):
    model = tiny.build("cond")
    monkeypatch.setattr(search_step, "MOST_TABULATED", tiny.VOCAB_Y**2 - 1)
    assert search_step.word_table(model.decoder, model.emb_y) is None


@pytest.mark.parametrize("options", [{"search": "greedy"}, {}, {"search": "sample", "seed": 3}])
def test_a_table_of_words_changes_no_translation(options):
    expected, t = make().n_best(LINES, **options), make()
    t.is_final = True
    found = t.n_best(LINES, **options)
    for a, b in zip(expected, found, strict=True):
        assert [each.text for each in a] == [each.text for each in b]
        np.testing.assert_allclose([x.score for x in a], [x.score for x in b], atol=1e-5)
    # It was used: what the embeddings have become since matters no more.
    t.model.emb_y.embeddings.assign(0 * t.model.emb_y.embeddings)
    again = t.n_best(LINES, **options)
    assert [[x.text for x in a] for a in again] == [[x.text for x in a] for a in found]
    # TensorFlow keeps what a function captures for ever.
    (function,) = (f for key, f in t._kept.functions.items() if "search" in key)
    shape = t._kept.words.logits.shape
    assert all(each.shape != shape for each in function.captured_inputs)
    assert any(each.shape == shape for each in function.inputs)


def test_few_lines_and_weights_that_may_change_have_no_table():
    t = make(beam_width=0)
    assert t.translate(LINES) and t._kept.words is None
    t.is_final = True
    few = LINES[: t.hp.infer_batch_size - 1]
    assert t.translate(few) and t._kept.words is None
    assert t.translate(LINES) and t._kept.words is not None


def test_refine_searches_with_the_table():
    options = {"search": "refine", "refine_steps": 1, "seed": 2}
    expected, t = make("KLq").translate(LINES, **options), make("KLq")
    t.is_final = True
    assert t.translate(LINES, **options) == expected and t._kept.words is not None


# Translating.


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_translates(system):
    translations = make(system, beam_width=0).translate(LINES)
    assert len(translations) == len(LINES)
    assert translations[2] == translations[6] == "", "empty in, empty out"
    assert any(translations)


@pytest.mark.parametrize(
    "options", [{}, {"search": "greedy"}, {"search": "sample", "z": "sample"}]
)
def test_a_line_does_not_depend_on_the_others(shared, options):
    together = shared.n_best(LINES, **options)
    # A line's number is part of its seed.
    alone = [shared.n_best([""] * i + [line], **options)[i] for i, line in enumerate(LINES)]
    for a, b in zip(alone, together, strict=True):
        assert [t.text for t in a] == [t.text for t in b]
        np.testing.assert_allclose([t.score for t in a], [t.score for t in b], rtol=1e-4)


def test_order_and_number_of_lines(shared):
    lines = [LINES[i % len(LINES)] for i in np.random.default_rng(0).permutation(40)]
    once = dict(zip(LINES, shared.translate(LINES), strict=True))
    assert shared.translate(lines) == [once[line] for line in lines]
    assert shared.translate([]) == []


def test_streams(shared):
    """The first results come before the whole input is read."""
    read = []

    def endless():
        for number in range(10**9):
            read.append(number)
            yield LINES[number % len(LINES)]

    results = shared.stream(endless(), decoding=Decoding.of(shared.hp))
    first = next(results)
    assert first.translations and len(read) == shared.hp.infer_batch_size
    for _ in range(300):
        next(results)
    assert len(read) <= 300 + tensors.WINDOW * shared.hp.infer_batch_size


def test_scores_are_those_of_the_model(shared):
    """log P(y|x, z) of what was found, recomputed from whole sentences."""
    found = shared.n_best(LINES, n_best=3)
    for line, translations in zip(LINES, found, strict=True):
        if not line.strip():
            continue
        x, x_len, _ = shared.encode(tf.constant([line]))
        for translation in translations:
            y = text.append_eos(shared.y_tokenizer.encode(tf.constant([translation.text])))
            batch = {"x": x, "x_len": x_len, "y": y.to_tensor(text.EOS)}
            batch["y_len"] = tf.cast(y.row_lengths(), tf.int32)
            limit = int(Decoding.of(shared.hp).limits(x_len)[0])
            if len(translation.text.split()) == limit or "<unk>" in translation.text:
                continue  # it did not finish, or its words have no ids
            terms = shared.model.loss_terms(batch, z=shared.z(x, x_len))
            np.testing.assert_allclose(-terms.nll_y[0], translation.log_prob, rtol=1e-4)
            penalty = ((5 + int(batch["y_len"][0])) / 6) ** shared.hp.length_penalty_weight
            np.testing.assert_allclose(
                translation.score, translation.log_prob / penalty, rtol=1e-5
            )


@pytest.mark.slow
def test_served_graph_is_the_offline_one(shared, tmp_path):
    """What export traces: strings to strings in one graph."""
    decoding = Decoding.of(shared.hp, n_best=2)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def serve(source):
        x, x_len, _ = shared.encode(source)
        found = shared.search(x, x_len, seeds=tf.zeros_like(x_len), decoding=decoding)
        return shared.translations(found, x_len)

    module = tf.Module()
    module.translator, module.serve = shared, serve
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    texts, scores = loaded.serve(tf.constant(LINES))
    for row, translations in enumerate(shared.n_best(LINES, n_best=2)):
        for k, translation in enumerate(translations):
            assert texts[row, k].numpy().decode() == translation.text
            np.testing.assert_allclose(scores[row, k], translation.score, rtol=1e-4)


# z.


def test_z_as_the_model_was_trained():
    for system in ("source_only", "KLq", "l2"):
        t = make(system)
        x, x_len, _ = t.encode(tf.constant(LINES[:2]))
        np.testing.assert_allclose(t.z(x, x_len), t.model.predict_z(x, x_len).mean())
    assert make("cond").z(x, x_len) is None


def test_z_zero_and_sample(shared):
    x, x_len, _ = shared.encode(tf.constant(["a b c"] * 2000))
    assert not shared.z(x[:2], x_len[:2], kind="zero").numpy().any()
    z = shared.z(x, x_len, kind="sample", seeds=tf.range(2000)).numpy()
    q = shared.model.predict_z(x[:1], x_len[:1]).distribution
    np.testing.assert_allclose(z.mean(0), q.loc[0], atol=4 * q.scale[0].numpy().max() / 44)
    np.testing.assert_allclose(z.std(0), q.scale[0], rtol=0.08)
    again = shared.z(x[:5], x_len[:5], kind="sample", seeds=tf.constant([4, 3, 2, 1, 0]))
    np.testing.assert_allclose(again, z[4::-1], rtol=1e-5, atol=1e-6)


def test_z_sample_of_a_point_is_the_point():
    t = make("l2")
    x, x_len, _ = t.encode(tf.constant(LINES[:2]))
    z = t.z(x, x_len, kind="sample", seeds=tf.range(2))
    np.testing.assert_allclose(z, t.z(x, x_len))


def test_seeds(shared):
    options = {"search": "sample", "z": "sample", "n_best": 3}
    one = shared.n_best(LINES, seed=5, **options)
    assert one == shared.n_best(LINES, seed=5, **options)
    assert one != shared.n_best(LINES, seed=6, **options)
    assert len({t.text for t in one[1]}) == 3, "a sample each"


@pytest.mark.slow
def test_draws_of_z_compete():
    """The best of several draws is the best of what each draw finds, each sentence once."""
    t = make(scale=1.5, beam_width=2)
    decoding = Decoding.of(t.hp, z="sample", num_z=3, n_best=4)
    x, x_len, _ = t.encode(tf.constant(LINES[:2]))
    seeds = tf.constant([7, 8])
    found = t.search(x, x_len, seeds=seeds, decoding=decoding)
    assert found.ids.shape[:2] == (2, 4)
    best = [{}, {}]  # score by sentence
    for k in range(3):
        one = dataclasses.replace(decoding, num_z=1, n_best=2)
        split = search.split_seeds(seeds, count=3)[:, k]
        alone = t.search(x, x_len, seeds=split, decoding=one)
        for row, place in np.ndindex(2, 2):
            words = tuple(alone.ids[row, place, : alone.lengths[row, place]].numpy())
            score = float(alone.scores[row, place])
            best[row][words] = max(score, best[row].get(words, score))
    for row, scores in enumerate(best):
        expected = sorted(scores.values(), reverse=True)[:4]
        expected += [search.MINUS_INFINITY] * (4 - len(expected))
        np.testing.assert_allclose(found.scores[row], expected, rtol=1e-4)


def test_of_equal_translations_the_best_stays():
    ids = [[5, 2, 2], [6, 2, 2], [5, 2, 2], [6, 7, 2], [5, 2, 2], [2, 2, 2]]
    lengths, scores = [2, 2, 2, 3, 2, 0], [-3.0, -2.5, -1.0, -4.0, -1.0, search.MINUS_INFINITY]
    pooled = search.Hypotheses(*(tf.constant([v]) for v in (ids, lengths, scores, scores)))
    # Of one sentence: three draws of z that found two translations each.
    parts = (tf.reshape(v, [3, 2, *v.shape[2:]]) for v in pooled[:4])
    decoding = Decoding(z="sample", num_z=3, n_best=4, beam_width=2)
    found, z = decoding.pool(search.Hypotheses(*parts), tf.constant([[0.0], [1.0], [2.0]]))
    assert found.ids.numpy().tolist()[0][:3] == [[5, 2, 2], [6, 2, 2], [6, 7, 2]]
    assert found.lengths.numpy().tolist() == [[2, 2, 3, 0]]
    assert found.scores.numpy().tolist() == [[-1.0, -2.5, -4.0, search.MINUS_INFINITY]]
    assert z.numpy()[0, :3, 0].tolist() == [1.0, 0.0, 1.0]


def test_a_model_without_z_has_none_to_draw():
    t = make("cond", beam_width=0)
    for changes in ({"z": "sample", "num_z": 2}, {"z": "sample"}, {"z": "zero"}):
        with pytest.raises(UserError, match="a cond model has no z: leave z and num_z as"):
            t.translate(["a"], **changes)
    assert len(t.translate(["a"], search="mbr", num_samples=2)) == 1


def test_a_point_is_not_drawn():
    t = make("l2", beam_width=0)
    for changes in ({"z": "sample", "num_z": 2}, {"z": "sample"}):
        with pytest.raises(UserError, match="has a point for z, not a density"):
            t.translate(["a"], **changes)
    t.check(Decoding.of(t.hp, search="mbr"))
    t.check(Decoding.of(t.hp, search="refine", beam_width=2))


def test_one_string_is_not_taken_for_lines(shared):
    for call in (shared.translate, shared.n_best, shared.embed, shared.draw_z):
        with pytest.raises(UserError, match="one string: give .line."):
            call("a b")
    with pytest.raises(UserError, match="one string"):
        shared.score(["a b"], "a b")


@pytest.mark.parametrize(
    "changes, size",
    [
        ({"search": "greedy"}, 10),
        ({"search": "beam", "beam_width": 16}, 10),
        ({"search": "beam", "beam_width": 33}, 4),
        ({"search": "sample", "n_best": 80}, 2),
        ({"search": "sample", "n_best": 80, "z": "sample"}, 2),
        ({"search": "mbr", "num_samples": 1000}, 1),
    ],
)
def test_many_hypotheses_come_in_smaller_batches(monkeypatch, changes, size):
    """Or their logits would take all memory."""
    monkeypatch.setattr(machine, "num_cores", lambda: 1)
    t, seen = make(infer_batch_size=10), []
    found = t.batches

    def batches(lines, **options):
        made = list(found(lines, **options))
        seen.extend(len(rows) for rows, *_ in made)
        raise InterruptedError  # that is all

    monkeypatch.setattr(t, "batches", batches)
    with pytest.raises(InterruptedError):
        t.translate(["a b"] * 20, **changes)
    assert max(seen) == size


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"utility": "bleu"}, "utility is for mbr search, and this is greedy search: give"),
        ({"num_samples": 5, "search": "sample"}, "num_samples is for mbr search"),
        ({"refine_steps": 2}, "refine_steps is for refine search"),
        ({"top_k": 3}, "top_k is for sample or mbr search, .* search sample, or leave top_k"),
        ({"beam_width": 3}, "beam_width is for beam or refine search, and this is greedy"),
        ({"given": {"sampling_temperature": 0.5}}, "sampling_temperature is for sample or mbr"),
        (
            {"given": {"length_penalty_weight": 0.5}, "search": "mbr"},
            "length_penalty_weight is for beam or greedy or sample or refine search",
        ),
        (
            {"given": {"sampling_temperature": 0.0}, "search": "sample"},
            "sampling_temperature 0 means no sample search: give one above 0, or no search",
        ),
        ({"given": {"beam_width": 0}, "search": "beam"}, "beam_width 0 means no beam search"),
    ],
)
def test_options_of_another_rule_are_refused(changes, sentence):
    with pytest.raises(UserError, match=sentence):
        Decoding.of(tiny.settings("source_only", beam_width=0), **changes)


def test_a_window_ends_where_nothing_more_is_ready():
    ready = iter([True, False, True, True, True])
    found = tensors.windows("abcdef", batch_size=2, is_ready=lambda: next(ready))
    assert list(found) == [(0, ["a", "b"]), (2, ["c"]), (3, ["d", "e", "f"])]


# Options.


def test_decoding_follows_the_settings():
    def of(**changes):
        return Decoding.of(tiny.settings("source_only", **changes))

    assert of(beam_width=7).search == "beam" and of(beam_width=7).beam_width == 7
    assert of(beam_width=0).search == "greedy"
    sampled = of(sampling_temperature=0.5, num_translations_per_input=4)
    assert (sampled.search, sampled.temperature, sampled.n_best) == ("sample", 0.5, 4)
    assert of(tgt_max_len_infer=9).max_length == 9


def test_a_beam_has_no_temperature():
    hp = tiny.settings("source_only", sampling_temperature=0.5)
    with pytest.raises(UserError, match="beam search has no sampling_temperature.* 0.5 here"):
        Decoding.of(hp, search="beam")
    assert Decoding.of(hp, search="beam", beam_width=3).beam_width == 3
    assert Decoding.of(hp, search="greedy").search == "greedy"
    assert Decoding.of(hp.replace(beam_width=3), search="beam").beam_width == 3


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"search": "viterbi"}, "search must be beam or greedy or sample"),
        ({"z": "mode"}, "z must be"),
        ({"n_best": 11}, "n_best 11 is more than beam search finds"),
        ({"n_best": 2, "search": "greedy"}, "n_best 2 is more than greedy search finds"),
        ({"num_z": 2}, "num_z above 1 needs z sample"),
    ],
)
def test_bad_options(changes, sentence):
    with pytest.raises(UserError, match=sentence):
        Decoding(**changes)


@pytest.mark.slow
def test_lengths(shared):
    long = shared.n_best(LINES, force_length=9, n_best=3)
    for line, translations in zip(LINES, long, strict=True):
        for t in translations:
            assert not line.strip() or len(t.text.split()) in (8, 9)
    for t in shared.translate(LINES, max_length=2):
        assert len(t.split()) <= 2


def test_long_lines_are_cut():
    t = make(src_max_len_infer=3, beam_width=0)
    results = list(t.stream(["a b c", "a b c d e"], decoding=Decoding.of(t.hp)))
    assert [r.was_cut for r in results] == [False, True]
    assert results[0].translations[0].text == results[1].translations[0].text


def test_details(shared):
    (result,) = shared.stream(["a b zz"], decoding=Decoding.of(shared.hp), details=True)
    assert result.source_pieces == ["a", "b", "<unk>", "</s>"]
    best = result.translations[0]
    assert best.attention.shape == (len(best.target_pieces), 4)
    np.testing.assert_allclose(best.attention.sum(1), 1, rtol=1e-5)
    x, x_len, _ = shared.encode(tf.constant(["a b zz"]))
    np.testing.assert_allclose(best.z, shared.z(x, x_len)[0], rtol=1e-5)


def test_embed(shared):
    loc, scale = shared.embed(LINES)
    assert loc.shape == scale.shape == (len(LINES), 4) and (scale > 0).all()
    alone = shared.embed(LINES[1:2])
    np.testing.assert_allclose(alone[0][0], loc[1], rtol=1e-4, atol=1e-5)
    assert not make("l2").embed(["a"])[1].any()
    with pytest.raises(UserError, match="a cond model has no z"):
        make("cond").embed(["a"])


# Scores and samples.


@pytest.mark.parametrize(
    "system",
    ["source_only", *(pytest.param(s, marks=pytest.mark.slow) for s in ("KLq", "l2"))],
)
def test_score_is_the_models_bound(system):
    """Against one pass of the model over all samples at once."""
    t = make(system)
    sources, targets = ["a b c", "d"], ["e f", "g h a b"]
    got = t.score(sources, targets, samples=3)
    x, x_len, _ = t.encode(tf.constant(sources))
    y = text.append_eos(t.y_tokenizer.encode(tf.constant(targets)))
    batch = {"x": x, "x_len": x_len, "y": y.to_tensor(text.EOS)}
    batch["y_len"] = tf.cast(y.row_lengths(), tf.int32)
    seeds = tensors.seeds(1, np.arange(2))
    epsilon = tf.stack([search.normals(seeds, stream=-3 - s, count=4) for s in range(3)])
    log_w_xy, log_w_x = t.model.log_weights(batch, epsilon)
    expected = {
        "iw_log_pxy": objective.importance_weighted(log_w_xy),
        "iw_log_px": objective.importance_weighted(log_w_x),
        "ess": objective.effective_sample_size(log_w_xy),
        "kl": tf.reduce_sum(objective.kl_to_prior(t.model.infer(batch)), -1),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4)
    np.testing.assert_allclose(got["elbo"], got["log_px"] + got["log_py"] - got["kl"])
    np.testing.assert_allclose(got["iw_log_py"], got["iw_log_pxy"] - got["iw_log_px"])


def test_score_of_systems_without_z():
    assert set(make("cond").score(["a"], ["b"])) == {"log_py"}
    joint = make("joint").score(["a"], ["b"])
    assert set(joint) == {"elbo", "log_px", "log_py"}


def test_score_is_what_translate_says(shared):
    source = [line for line in LINES if line.strip()]
    best = [found[0] for found in shared.n_best(source)]
    whole = [k for k, t in enumerate(best) if "<unk>" not in t.text and len(t.text.split()) < 9]
    scores = shared.score([source[k] for k in whole], [best[k].text for k in whole], samples=1)
    log_probs = [best[k].log_prob for k in whole]
    np.testing.assert_allclose(scores["log_py_at_mean"], log_probs, rtol=1e-4)


def test_a_pair_scores_the_same_in_any_batch(shared):
    sources, targets = LINES, LINES[::-1]
    together = shared.score(sources, targets, samples=2)
    alone = shared.score(sources[:1], targets[:1], samples=2)
    for name, values in alone.items():
        np.testing.assert_allclose(values[0], together[name][0], rtol=1e-4, atol=1e-4)
    with pytest.raises(UserError, match="9 sources have 1 targets"):
        shared.score(LINES, ["a"])


def test_sample_from_the_prior(shared):
    pairs = shared.sample(6, seed=3)
    assert len(pairs) == 6 and len(set(pairs)) > 1
    assert pairs == shared.sample(6, seed=3) and pairs != shared.sample(6, seed=4)
    assert pairs[:2] == shared.sample(2, seed=3), "a pair does not depend on the others"
    assert all(len(x.split()) <= shared.hp.src_max_len + 1 for x, _ in pairs)
    assert len(make("joint").sample(2)) == 2
    with pytest.raises(UserError, match="a cond model has no P"):
        make("cond").sample(1)


def test_sources_follow_the_language_model():
    """How often a sample starts with each word, against P(x_1) = E_z[P(x_1|z)] of joint."""
    t = make("joint", infer_batch_size=2000, scale=0.4)
    pairs = t.sample(2000, temperature=1.0)
    lm = t.model.source_lm
    state = lm.start(None, tf.zeros([1], tf.int32))
    logits, _ = lm.step(state, t.model.emb_x(tf.constant([text.SOS])))
    probs = tf.nn.softmax(logits)[0].numpy()
    first = [x.split()[0] if x else "</s>" for x, _ in pairs]
    for word in range(3, len(WORDS)):
        expected = 2000 * probs[word]
        assert abs(first.count(WORDS[word]) - expected) < 4 * np.sqrt(expected) + 1


def test_interpolate(shared):
    pairs = shared.interpolate("a b c", "h", steps=5)
    assert len(pairs) == 5
    assert pairs[0] == shared.interpolate("a b c", "e f", steps=2)[0]
    assert pairs[-1] == shared.interpolate("h", "e f", steps=2)[0]


def test_new_weights_are_used(shared):
    """The dev scores during training come from one translator."""
    t = make(beam_width=0)
    before = t.translate(LINES)
    tiny.randomise(t.model, seed=9, scale=0.8)
    assert t.translate(LINES) != before


# A run's directory.


@pytest.fixture
def run(tmp_path):
    """A run with random weights in best/ and others in checkpoints/."""
    return save_run(tmp_path / "run", beam_width=0)


def test_load(run):
    t = aevnmt_tf.load(run)
    expected = make(src="en", tgt="de", beam_width=0)
    tiny.randomise(expected.model, seed=3, scale=0.8)
    assert t.translate(LINES) == expected.translate(LINES)
    tiny.randomise(expected.model, seed=4, scale=0.8)
    assert aevnmt_tf.load(run, checkpoint="last").translate(LINES) == expected.translate(LINES)
    assert aevnmt_tf.load(run, beam_width=7).hp.beam_width == 7


def test_load_of_what_is_no_run(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UserError, match="is not a run"):
            aevnmt_tf.load(folder)


def test_moses_models_take_raw_text():
    class Pipeline:
        def forward(self, line):
            return line.lower().replace(",", " ,")

        def inverse(self, line):
            return line.upper()

    plain = make(beam_width=0)
    t = Translator(
        plain.model,
        plain.x_tokenizer,
        plain.y_tokenizer,
        plain.hp,
        x_moses=Pipeline(),
        y_moses=Pipeline(),
    )
    assert t.translate(["A B, c"]) == [plain.translate(["a b , c"])[0].upper()]


def test_sentencepiece(tmp_path):
    from aevnmt_tf.text import sentencepiece_tokenizer

    lines = [f"the house number {i} is red and blue" for i in range(50)]
    proto = sentencepiece_tokenizer.train(lines, vocab_size=320)
    tokenizer = text.SentencePieceTokenizer(proto)
    model = tiny.build(
        "source_only", vocab_x=tokenizer.vocab_size, vocab_y=tokenizer.vocab_size
    )
    t = Translator(model, tokenizer, tokenizer, tiny.settings("source_only", beam_width=0))
    odd = ["the house", "", "\0", "a\0b", " \u2028 ", "\U0001f600 日本", "x" * 3000]
    assert len(t.translate(odd)) == len(odd)
