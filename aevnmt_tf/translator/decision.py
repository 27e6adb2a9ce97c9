"""Decision rules inside the graph: choose z, search, and list the best translations.

rules.py declares the rules and their options. Pairwise mbr only samples here; it chooses among
the samples outside of the graph, in mbr.py.
"""

import dataclasses

import tensorflow as tf

from aevnmt_tf import search, text
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.search import Hypotheses, Nest
from aevnmt_tf.translator import mbr, pooling
from aevnmt_tf.translator.decode_path import Graph
from aevnmt_tf.translator.rules import BEAMS, DRAWING, DRAWS_Z, SAMPLES, Decoding


def check(graph: Graph, decoding: Decoding) -> None:
    """Raise a UserError if a model does not support a decision rule."""
    asks_for_draws = decoding.z == "sample" and decoding.search not in DRAWS_Z
    if asks_for_draws and not graph.draws_z:
        has_z = any(member.model.posterior is not None for member in graph.members)
        what = "predicts z as a point, not as a density" if has_z else "has no z"
        raise UserError(f"{_named(graph)} {what}: leave z and num_z out.")
    _check_parts(graph, decoding)


def _check_parts(graph: Graph, decoding: Decoding) -> None:
    """Raise a UserError if a model lacks a part that the search needs."""
    for member in graph.members:
        decoder = member.model.decoder
        has_attention = decoder is None or decoder.has_attention
        if decoding.coverage_penalty_weight and not has_attention:
            raise UserError(
                "coverage_penalty_weight needs attention, and this model has none (attention "
                '""): set it to 0.'
            )
        posterior = member.model.posterior
        if posterior is None and (decoding.num_z > 1 or decoding.z == "zero"):
            raise UserError(f"{_named(member)} has no z: leave z and num_z out.")
        sees_target = posterior is not None and "y" in posterior.sides
        if decoding.search == "refine" and not sees_target:
            raise UserError(
                "refine search needs q(z|x, y), which only a model with z_inference_from "
                "source_target has."
            )


def _named(graph: Graph) -> str:
    return f"this model (model_type {graph.hp.model_type})"


def decide(
    graph: Graph,
    x: tf.Tensor,
    x_len: tf.Tensor,
    *,
    seeds: tf.Tensor,
    decoding: Decoding,
    with_attention: bool = False,
    z: tf.Tensor | None = None,
    words: Nest = None,
) -> tuple[Hypotheses, Nest]:
    """Return the n_best translations per source, and the z [B, K, Z] of each.

    Args:
        graph: The model.
        x: Source ids [B, Tx].
        x_len: Source lengths [B].
        seeds: Random seeds [B].
        decoding: The decision rule.
        with_attention: Whether to return attention weights.
        z: The z [B, Z] to use instead of that of the decision rule.
        words: The word_table of the graph, which speeds up the search.
    """
    _check_parts(graph, decoding)
    draws = decoding.draws
    if draws > 1:
        seeds = tf.reshape(search.split_seeds(seeds, count=draws), [-1])
        x, x_len = (tf.repeat(v, draws, axis=0) for v in (x, x_len))  # [B * draws, ...]
    if z is not None:
        if draws > 1 or decoding.search == "refine":
            raise UserError("a given z is neither drawn nor refined: give z mean.")
    elif decoding.search == "refine":
        z = _refined_z(graph, x, x_len, seeds=seeds, decoding=decoding, words=words)
    else:
        z = graph.z(x, x_len, kind=decoding.z, seeds=seeds)
    found = search_with(
        graph, z, x, x_len, seeds=seeds, decoding=decoding, with_attention=with_attention,
        words=words,
    )  # fmt: skip
    return _listed(graph, found, z, decoding=decoding)


def _listed(
    graph: Graph, found: Hypotheses, z: Nest, *, decoding: Decoding
) -> tuple[Hypotheses, Nest]:
    """Return the n_best of the hypotheses [B * draws, K] per sentence, and their z."""
    draws, each = decoding.draws, found.scores.shape[1]
    z = pooling.map_tensors(lambda v: tf.repeat(v[:, None], each, axis=1), z)
    if decoding.search in SAMPLES:
        found, z = pooling.together((found, z), draws=draws)
        if decoding.search == "sample":  # in the order in which they were drawn
            return found, z
        texts = graph.y_tokenizer.decode(found.ids)  # [B, K]
        found = found._replace(scores=mbr.aggregated_chrf(texts))
    elif draws * each == 1:
        return found, z
    else:
        texts = graph.y_tokenizer.decode(found.ids)  # [B * draws, K]
        weight = decoding.length_penalty_weight
        found = pooling.merge_segmentations(found, texts, weight=weight)
        found, z, texts = pooling.together((found, z, texts), draws=draws)
    found, z = pooling.best_texts(found, z, texts, n_best=decoding.n_best)
    return found._replace(scores=tf.cast(found.scores, tf.float32)), z


def search_with(
    graph: Graph,
    z: Nest,
    x: tf.Tensor,
    x_len: tf.Tensor,
    *,
    seeds: tf.Tensor,
    decoding: Decoding,
    with_attention: bool = False,
    words: Nest = None,
) -> Hypotheses:
    """Return what the search finds with one z per row."""
    problem = search.SearchProblem(
        *graph.begin(x, x_len, z, width=decoding.width, words=words),
        limits=limits(x_len, decoding=decoding),
        min_length=decoding.force_length,
        with_attention=with_attention,
        source_mask=tf.sequence_mask(x_len, tf.shape(x)[1]),
        sos=text.SOS,
        eos=text.EOS,
    )
    return run(problem, seeds=seeds, decoding=decoding)


def run(problem: search.SearchProblem, *, seeds: tf.Tensor, decoding: Decoding) -> Hypotheses:
    """Return the hypotheses [R, K] of a search, possibly with several of the same text."""
    weight = decoding.length_penalty_weight
    if decoding.search == "greedy":
        return search.greedy(problem, length_penalty_weight=weight)
    if decoding.search in BEAMS:
        width = decoding.beam_width
        # A list needs the whole beam: merged segmentations leave places to fill.
        n_best = 1 if decoding.n_best == 1 else width
        return search.beam(
            problem,
            width=width,
            n_best=n_best,
            length_penalty_weight=weight,
            coverage_penalty_weight=decoding.coverage_penalty_weight,
        )
    drawing = {name: getattr(decoding, name) for name in DRAWING}
    return search.sample(
        problem,
        seeds=seeds,
        num_samples=decoding.width,
        length_penalty_weight=weight,
        **drawing,
    )


def limits(x_len: tf.Tensor, *, decoding: Decoding) -> tf.Tensor:
    """Return the maximum lengths [B] of translations, including </s>."""
    if decoding.force_length is not None:
        return tf.fill(tf.shape(x_len), decoding.force_length)
    # DEVIATION: TF-NMT stops a whole batch at twice the length of its longest source.
    longest = 2 * (x_len - 1) + 10
    if decoding.max_length is not None:
        longest = tf.fill(tf.shape(x_len), decoding.max_length)
    return tf.where(x_len == 1, 1, longest)  # nothing to translate


def _refined_z(
    graph: Graph,
    x: tf.Tensor,
    x_len: tf.Tensor,
    *,
    seeds: tf.Tensor,
    decoding: Decoding,
    words: Nest,
) -> Nest:
    """Return the z for the last search of refine.

    Stochastic hill-climbing, as Shah and Barber (2018) predict:

        z ~ p(z)                    or r(z|x)
        y = argmax P(y|x, z)        a draft, by beam search
        z ~ q(z|x, y)               and a new draft, refine_steps times

    `decoding.z` says whether each z is a draw or a mean.
    """
    kind = decoding.z
    if decoding.refine_start == "prior":
        z = graph.prior_z(seeds, kind=kind, x=x, x_len=x_len)
    else:
        z = graph.z(x, x_len, kind=kind, seeds=seeds)
    if decoding.refine_steps == 0:
        return z
    one = dataclasses.replace(decoding, n_best=1)
    seeds_of = tf.transpose(search.split_seeds(seeds, count=decoding.refine_steps))  # [N, B]

    def improve(step: tf.Tensor, z: Nest) -> tuple[tf.Tensor, Nest]:
        draft = search_with(graph, z, x, x_len, seeds=seeds, decoding=one, words=words)
        y, y_len = search.sentences(draft, eos=text.EOS)
        batch = {"x": x, "x_len": x_len, "y": y, "y_len": y_len}
        return step + 1, graph.posterior_z(batch, kind=kind, seeds=seeds_of[step])

    _, z = tf.while_loop(
        lambda step, _: step < decoding.refine_steps, improve, (tf.constant(0), z)
    )
    return z
