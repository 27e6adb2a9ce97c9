"""From text to text inside the graph: what is offline here is what is served.

text -> ids -> z -> encoder -> search -> ids -> text
"""

import tensorflow as tf

from aevnmt_tf import model as models
from aevnmt_tf import nets, objective, search, text
from aevnmt_tf.errors import UserError
from aevnmt_tf.nets import search_step
from aevnmt_tf.translator import refine
from aevnmt_tf.translator.decoding import DRAWS_Z

# Streams of a seed's random numbers; those from 0 are the words' of a sentence.
Z_STREAM = -2
SCORE_STREAM = -3  # and below: one for each sample

# Ids of the draws of z that are scored at a time: the output layers take a vocabulary for each.
MOST_TOKENS = 8192


class Graph(tf.Module):
    """A model with its tokenizers, as TensorFlow operations from text to text.

    Args:
        model: a model.Aevnmt.
        x_tokenizer: the source's text.Tokenizer.
        y_tokenizer: the target's.
        hp: the run's settings.
    """

    def __init__(self, model, x_tokenizer, y_tokenizer, hp):
        super().__init__(name="translator")
        self.model = model
        self.x_tokenizer = x_tokenizer
        self.y_tokenizer = y_tokenizer
        self.hp = hp

    def word_table(self):
        """What each word adds to the decoder's sums, with weights as they are; may be None."""
        return search_step.word_table(self.model.decoder, self.model.emb_y)

    def encode(self, source):
        """Strings [B] -> x [B, Tx], x_len [B], and whether a line was cut [B]."""
        return _ids(self.x_tokenizer, source, limit=self.hp.src_max_len_infer)

    def encode_target(self, target):
        """Strings [B] -> y [B, Ty], y_len [B], and whether a line was cut [B]."""
        limit = max(self.hp.src_max_len_infer, self.hp.tgt_max_len_infer or 0)
        return _ids(self.y_tokenizer, target, limit=limit)

    def z(self, x, x_len, *, kind="mean", seeds=None):
        """What to predict with: z [B, Z], or None without a latent variable."""
        q = self.model.predict_z(x, x_len)
        if q is None:
            return None
        mean = q.mean()
        if kind == "zero":
            return tf.zeros_like(mean)
        if kind == "mean" or isinstance(self.model.prediction, nets.PointNetwork):
            return mean
        epsilon = search.normals(seeds, stream=Z_STREAM, count=mean.shape[1])
        return models.reparameterise(q, epsilon)

    def prior_z(self, seeds, *, kind):
        """z [B, Z] for seeds [B]: kind "sample" from p(z), else its mean."""
        z = search.normals(seeds, stream=Z_STREAM, count=self.hp.z_dim)
        return z if kind == "sample" else tf.zeros_like(z)

    def posterior_z(self, batch, *, kind, seeds):
        """z [B, Z]: kind "sample" from q(z|x, y), else its mean."""
        q = self.model.infer(batch)
        epsilon = search.normals(seeds, stream=Z_STREAM, count=self.hp.z_dim)
        return models.reparameterise(q, epsilon if kind == "sample" else None)

    @property
    def draws_z(self):
        """Whether there is a distribution to draw z from, and not a point or nothing."""
        is_point = isinstance(self.model.prediction, nets.PointNetwork)
        return self.model.posterior is not None and not is_point

    def check(self, decoding):
        """A UserError where this model cannot search in this way."""
        asks_for_draws = decoding.z == "sample" and decoding.search not in DRAWS_Z
        if asks_for_draws and not self.draws_z:
            kind = self.hp.model_type
            what = "no z" if self.model.posterior is None else "a point for z, not a density"
            raise UserError(f"a {kind} model has {what}: leave z and num_z as they are")
        self.check_parts(decoding)

    def check_parts(self, decoding):
        """The same about what the search needs of a model, other than draws."""
        if self.model.posterior is None and (decoding.num_z > 1 or decoding.z == "zero"):
            raise UserError(
                f"a {self.hp.model_type} model has no z: leave z and num_z as they are"
            )
        sees_target = self.model.posterior is not None and len(self.model.posterior.sides) > 1
        if decoding.search == "refine" and not sees_target:
            raise UserError(
                "refine search needs q(z|x, y), which only a model with z_inference_from "
                "source_target has"
            )

    def search(self, x, x_len, *, seeds, decoding, with_attention=False):
        """x [B, Tx], x_len [B], seeds [B] -> search.Hypotheses with K = n_best."""
        options = {"decoding": decoding, "with_attention": with_attention}
        return self.search_and_z(x, x_len, seeds=seeds, **options)[0]

    def search_and_z(
        self, x, x_len, *, seeds, decoding, with_attention=False, z=None, words=None
    ):
        """What `search` finds, and the z [B, K, Z] of each hypothesis (None without z).

        A given z [B, Z] takes the place of the one that `decoding` says. `words` is a
        `word_table`, which makes the search quicker.
        """
        self.check_parts(decoding)
        draws = decoding.draws
        if draws > 1:
            seeds = tf.reshape(search.split_seeds(seeds, count=draws), [-1])
            x, x_len = (tf.repeat(v, draws, axis=0) for v in (x, x_len))  # [B * draws, ...]
        if z is not None:
            if draws > 1 or decoding.search == "refine":
                raise UserError("a z that is given is neither drawn nor refined: give z mean")
        elif decoding.search == "refine":
            z = refine.refined_z(self, x, x_len, seeds=seeds, decoding=decoding, words=words)
        else:
            z = self.z(x, x_len, kind=decoding.z, seeds=seeds)
        options = {"with_attention": with_attention, "words": words}
        found = self.search_with(z, x, x_len, seeds=seeds, decoding=decoding, **options)
        return decoding.pool(found, z)

    def search_with(self, z, x, x_len, *, seeds, decoding, with_attention=False, words=None):
        """search.Hypotheses for one z a row."""
        step, memory, state = self.begin(x, x_len, z, width=decoding.width, words=words)
        task = search.Task(
            step,
            memory,
            state,
            limits=decoding.limits(x_len),
            min_length=decoding.force_length,
            with_attention=with_attention,
            sos=text.SOS,
            eos=text.EOS,
        )
        return decoding.run(task, seeds=seeds)

    def begin(self, x, x_len, z, *, width, words=None):
        """Where a search for `width` hypotheses starts: step function, memory and state."""
        step = search_step.make(self.model.decoder, self.model.emb_y, width=width, words=words)
        memory, state = self.model.start(x, x_len, z)
        return step, step.memory(memory), state

    def embed_batch(self, x, x_len):
        """Location and scale [B, Z] of what z is predicted with; a point has the scale 0."""
        q = self.model.predict_z(x, x_len)
        if isinstance(self.model.prediction, nets.PointNetwork):
            return q.mean(), tf.zeros_like(q.mean())
        return q.distribution.loc, q.distribution.scale

    def translations(self, hypotheses, x_len):
        """Texts and scores [B, N]; an empty source has an empty translation of score 0."""
        texts = self.y_tokenizer.decode(hypotheses.ids)
        is_empty = (x_len == 1)[:, None]
        return tf.where(is_empty, "", texts), tf.where(is_empty, 0.0, hypotheses.scores)

    def score_batch(self, batch, *, seeds, samples):
        """Log-probabilities and bounds of pairs: a dict of [B], as in Translator.score."""
        model = self.model
        at_mean = model.loss_terms(batch, z=self.z(batch["x"], batch["x_len"]))
        if model.source_lm is None:
            return {"log_py": -at_mean.nll_y}
        if model.posterior is None:
            scores = {"log_px": -at_mean.nll_x, "log_py": -at_mean.nll_y}
            return {"elbo": scores["log_px"] + scores["log_py"], **scores}
        q = model.infer(batch)
        kl = tf.reduce_sum(objective.kl_to_prior(q), -1)
        log_px, log_py, log_w_xy, log_w_x = self._draws(batch, q, seeds=seeds, samples=samples)
        scores = {"log_px": tf.reduce_mean(log_px, 0), "log_py": tf.reduce_mean(log_py, 0)}
        iw_log_pxy = objective.importance_weighted(log_w_xy)
        iw_log_px = objective.importance_weighted(log_w_x)
        return {
            "elbo": scores["log_px"] + scores["log_py"] - kl,
            **scores,
            "kl": kl,
            "iw_log_pxy": iw_log_pxy,
            "iw_log_px": iw_log_px,
            "iw_log_py": iw_log_pxy - iw_log_px,
            "ess": objective.effective_sample_size(log_w_xy),
            "log_py_at_mean": -at_mean.nll_y,
        }

    def _draws(self, batch, q, *, seeds, samples):
        """log P(x|z), log P(y|x, z) and the log-weights of (x, y) and of x: four [S, B].

        Draws are rows of a large batch, as many at a time as memory allows.
        """
        model = self.model
        at_once = MOST_TOKENS // (tf.size(batch["x"]) + tf.size(batch["y"]))
        at_once = tf.clip_by_value(at_once, 1, samples)

        def draw(number):
            return search.normals(seeds, stream=SCORE_STREAM - number, count=q.event_shape[0])

        def body(first, arrays):
            numbers = tf.range(first, tf.minimum(first + at_once, samples))
            epsilon = tf.map_fn(draw, numbers, fn_output_signature=tf.float32)  # [s, B, Z]
            z = models.reparameterise(q, epsilon)
            terms = model.loss_terms(
                {name: _tiled(side, tf.size(numbers)) for name, side in batch.items()},
                z=tf.reshape(z, [-1, z.shape[-1]]),
            )
            shape = tf.shape(epsilon)[:2]
            log_px, log_py = (-tf.reshape(n, shape) for n in (terms.nll_x, terms.nll_y))
            log_w_xy = objective.log_weights(log_px + log_py, z, q)
            if model.prediction is None:
                log_w_x = objective.log_weights(log_px, z, q)
            else:  # q has seen y, so x has a proposal of its own
                log_w_x = model.log_weights(batch, epsilon)[1]
            found = (log_px, log_py, log_w_xy, log_w_x)
            place = first // at_once
            arrays = [a.write(place, f) for a, f in zip(arrays, found, strict=True)]
            return first + at_once, arrays

        size = -(-samples // at_once)
        arrays = [
            tf.TensorArray(tf.float32, size, infer_shape=False, element_shape=[None, None])
            for _ in range(4)
        ]
        _, arrays = tf.while_loop(
            lambda first, _: first < samples,
            body,
            [tf.constant(0), arrays],
            parallel_iterations=1,
        )
        return [array.concat() for array in arrays]

    def generate(self, z, *, seeds, decoding):
        """Pairs from z [B, Z], None without one: x by P(x|z) and y by P(y|x, z), texts [B]."""
        model = self.model
        language_model = model.source_lm

        def step(memory, states, x):
            logits, states = language_model.step(states, model.emb_x(x))
            return logits, states, tf.zeros([tf.size(x), 1])

        seeds = search.split_seeds(seeds, count=2)  # [B, 2]
        limits = tf.fill([tf.shape(seeds)[0]], self.hp.src_max_len + 1)
        state = language_model.start(z, limits)
        task = search.Task(step, (), state, limits, sos=text.SOS, eos=text.EOS)
        x = decoding.run(task, seeds=seeds[:, 0])
        ids, x_len = search.sentences(x, eos=text.EOS)  # [B, Tx], [B]
        y = self.search_with(z, ids, x_len, seeds=seeds[:, 1], decoding=decoding)
        return self.x_tokenizer.decode(ids), self.translations(y, x_len)[0][:, 0]


def _ids(tokenizer, lines, *, limit):
    ids = tokenizer.encode(lines)
    was_cut = ids.row_lengths() > limit
    ids = text.append_eos(ids[:, :limit])
    return ids.to_tensor(text.EOS), tf.cast(ids.row_lengths(), tf.int32), was_cut


def _tiled(tensor, times):
    return tf.tile(tensor, [times] + [1] * (tensor.shape.rank - 1))
