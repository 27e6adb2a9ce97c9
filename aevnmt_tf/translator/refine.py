"""Prediction by stochastic hill-climbing, as Shah and Barber (2018) do it.

    z ~ p(z)                    or r(z|x)
    y = argmax P(y|x, z)        a draft, by beam search
    z ~ q(z|x, y)               and a draft again, as many times as there are steps
    y = argmax P(y|x, z)        the translation

The paper's own rule needs one call of the inference network and one search instead.
"""

import dataclasses

import tensorflow as tf

from aevnmt_tf import search, text


def refined_z(graph, x, x_len, *, seeds, decoding, words=None):
    """The z [B, Z] that the last search starts from.

    Args:
        graph: a translator.Graph whose posterior sees the target.
        x: [B, Tx].
        x_len: [B].
        seeds: [B].
        decoding: its z says whether z is drawn or a mean, all along.
        words: the graph's word_table, or None.
    """
    kind = decoding.z
    if decoding.refine_start == "prior":
        z = graph.prior_z(seeds, kind=kind)
    else:
        z = graph.z(x, x_len, kind=kind, seeds=seeds)
    if decoding.refine_steps == 0:
        return z
    one = dataclasses.replace(decoding, n_best=1)
    seeds_of = tf.transpose(search.split_seeds(seeds, count=decoding.refine_steps))  # [N, B]

    def improve(step, z):
        draft = graph.search_with(z, x, x_len, seeds=seeds, decoding=one, words=words)
        y, y_len = search.sentences(draft, eos=text.EOS)
        batch = {"x": x, "x_len": x_len, "y": y, "y_len": y_len}
        return step + 1, graph.posterior_z(batch, kind=kind, seeds=seeds_of[step])

    _, z = tf.while_loop(
        lambda step, _: step < decoding.refine_steps, improve, (tf.constant(0), z)
    )
    return z
