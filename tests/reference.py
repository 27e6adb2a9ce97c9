"""Appendix A of the paper in float64 NumPy: a second opinion that shares none of our code.

Written from the equations, for one sentence pair at a time, without padding or masks, so that
it cannot repeat a mistake of the batched code. A sentence is a list of ids that ends in </s>.
Weights come by layer name and variable name. N values of z are handled at once, because
quadrature asks for many: states are [N, H], sequences [T, N, ...], log-probabilities [N].
"""

import numpy as np

SOS = 1
LOG_TWO_PI = float(np.log(2.0 * np.pi))


def sigmoid(a):
    return 1.0 / (1.0 + np.exp(-a))


def softplus(a):
    return np.logaddexp(0.0, a)


def softmax(a):
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def log_softmax(a):
    a = a - a.max(axis=-1, keepdims=True)
    return a - np.log(np.exp(a).sum(axis=-1, keepdims=True))


def log_mean_exp(a):
    top = a.max(axis=0)
    return top + np.log(np.exp(a - top).mean(axis=0))


def affine(w, v):
    return v @ w["kernel"] + w.get("bias", 0.0)


def gru_step(w, h, v, direction=""):
    """One GRU update; a bias of two rows means that the reset gate acts after the product."""
    kernel, recurrent = w[direction + "kernel"], w[direction + "recurrent_kernel"]
    bias = w[direction + "bias"]
    size = h.shape[-1]
    update, reset, new = (slice(i * size, (i + 1) * size) for i in range(3))
    after = bias.ndim == 2
    b_in, b_rec = bias if after else (bias, np.zeros_like(bias))
    u = sigmoid(v @ kernel[:, update] + b_in[update] + h @ recurrent[:, update] + b_rec[update])
    r = sigmoid(v @ kernel[:, reset] + b_in[reset] + h @ recurrent[:, reset] + b_rec[reset])
    if after:
        past = r * (h @ recurrent[:, new] + b_rec[new])
    else:
        past = (r * h) @ recurrent[:, new]
    candidate = np.tanh(v @ kernel[:, new] + b_in[new] + past)
    return u * h + (1.0 - u) * candidate


def gru(w, sequence, h, direction=""):
    states = []
    for v in sequence:
        h = gru_step(w, h, v, direction)
        states.append(h)
    return np.stack(states)  # [T, N, H]


def bigru(w, forward, backward, h):
    """Both directions start from the same h; the two inputs differ only in their dropout."""
    rightward = gru(w, forward, h, "forward_")
    leftward = gru(w, backward[::-1], h, "backward_")[::-1]
    return np.concatenate([rightward, leftward], axis=-1)  # [T, N, 2H]


def attention(w, memory, query):
    """Bahdanau et al. (2015): scores v . tanh(W s_i + U t), then a weighted average of s."""
    hidden = np.tanh(memory @ w["memory_kernel"] + query @ w["query_kernel"])  # [Tx, N, H]
    weights = softmax((hidden @ w["v"]).T)  # [N, Tx]
    return np.einsum("nt,tnd->nd", weights, memory), weights


def kl_from_standard(loc, scale):
    """KL(N(loc, scale^2) || N(0, 1)) for each dimension."""
    return 0.5 * (loc**2 + scale**2 - 1.0) - np.log(scale)


def kl_between(loc_a, scale_a, loc_b, scale_b):
    """KL(a || b) of two Gaussians for each dimension."""
    ratio = (scale_a**2 + (loc_a - loc_b) ** 2) / (2.0 * scale_b**2)
    return np.log(scale_b / scale_a) + ratio - 0.5


def log_normal(z, loc, scale):
    """Log-density of a diagonal Gaussian, summed over the last axis."""
    density = -0.5 * ((z - loc) / scale) ** 2 - np.log(scale) - 0.5 * LOG_TWO_PI
    return density.sum(axis=-1)


def divergence(mode, q, r):
    """D(r, q) for one pair; q and r are (loc, scale), scale unused where r is a point."""
    if mode == "KLq":
        return kl_between(*q, *r).sum()
    if mode == "KLr":
        return kl_between(*r, *q).sum()
    if mode == "JS":  # Jeffreys' divergence, as in the authors' code
        return kl_between(*q, *r).sum() + kl_between(*r, *q).sum()
    if mode == "l2":
        return ((r[0] - q[0]) ** 2).sum()
    raise ValueError(mode)


class Reference:
    """The model for one pair. Parts are present where their weights are.

    keep: the factors of dropout, {layer: [T, I]} on what a layer's cell reads at each position
    ("bigru_x/forward" where the directions differ), and "words_x", "words_y" [T] on the
    prefixes that the language model and the decoder read, "words_encoder" [Tx] on what the
    encoder reads; "out_x", "out_y" [T, F] on what the
    output layers read.
    """

    def __init__(
        self,
        weights,
        *,
        decoder_style="paper",
        r_train_mode=None,
        keep=None,
        label_smoothing=0.0,
        norm=None,
    ):
        self.w = {
            layer: {name: np.asarray(a, dtype=np.float64) for name, a in variables.items()}
            for layer, variables in weights.items()
        }
        self.decoder_style = decoder_style
        self.r_train_mode = r_train_mode
        self.keep = keep or {}
        self.label_smoothing = label_smoothing
        self.norm = norm  # of q's mean: scale, mean and variance of a batch
        self.has_lm = "gru_lm" in self.w
        self.has_z = "q_u_out" in self.w
        self.reads_target = "q_gru_y" in self.w
        self.mixture = self.w.get("prior")
        self.is_conditional = "p_u_out" in self.w  # p(z|x)

    # Pieces

    def _layers(self, name):
        """The layers of a stack: name, name_2, name_3, ..."""
        found = [name] if name in self.w else []
        while f"{name}_{len(found) + 1}" in self.w:
            found.append(f"{name}_{len(found) + 1}")
        return found

    def _embed(self, language, ids):
        tables = {"x": self.w["emb_x"], "y": self.w.get("emb_y", self.w["emb_x"])}
        return tables[language]["embeddings"][np.asarray(ids)]  # [T, E]

    def _prefix(self, language, sentence):
        """Embeddings of <s> w_1 .. w_m, some words masked."""
        words = self._embed(language, [SOS, *sentence[:-1]])
        return words * np.reshape(self.keep.get(f"words_{language}", 1.0), (-1, 1))

    def _drop(self, layer, sequence, direction=None):
        """Dropout on what a cell reads; sequence is [T, N, I]."""
        factors = self.keep.get(f"{layer}/{direction}", self.keep.get(layer))
        return sequence if factors is None else sequence * np.asarray(factors)[:, None, :]

    def _start(self, name, number, z, size):
        """tanh(affine(z)) with the layer's own weights; zeros without z."""
        if z is None:
            return np.zeros((1, size))
        return np.tanh(affine(self.w[name if number == 1 else f"{name}_{number}"], z))

    def _units(self, layer, direction=""):
        return self.w[layer][direction + "recurrent_kernel"].shape[0]

    # Source language model: P(x | z)

    def lm_logits(self, x, z=None):
        h = self._prefix("x", x)[:, None, :]
        if self.w["gru_lm"]["kernel"].shape[0] > h.shape[-1]:  # z at every step
            h = np.broadcast_to(h, (len(x), len(z), h.shape[-1]))
            h = np.concatenate([h, np.broadcast_to(z, (len(x), *z.shape))], axis=-1)
        for number, layer in enumerate(self._layers("gru_lm"), start=1):
            h_0 = self._start("init_lm", number, z, self._units(layer))
            h = gru(self.w[layer], self._drop(layer, h), h_0)
        return self._logits("x", self._drop("out_x", h))  # [Tx, N, Vx]

    def _logits(self, language, features):
        """The output layer; without a matrix of its own, through the embeddings."""
        w = self.w.get(f"out_{language}", {})
        if "kernel" in w:
            return affine(w, features)
        table = self.w.get(f"emb_{language}", self.w["emb_x"])["embeddings"]  # [V, E]
        read = features @ w["projection"] if "projection" in w else features
        return read @ table.T + w.get("bias", 0.0)

    def log_px(self, x, z=None):
        return self._log_likelihood(self.lm_logits(x, z), x)

    @staticmethod
    def _log_likelihood(logits, sentence):
        steps = log_softmax(logits)
        return sum(steps[t, :, word] for t, word in enumerate(sentence))  # [N]

    # Translation model: P(y | x, z)

    def encode(self, x, z=None):
        words = self._embed("x", x)
        s = (words * np.reshape(self.keep.get("words_encoder", 1.0), (-1, 1)))[:, None, :]
        for number, layer in enumerate(self._layers("bigru_x"), start=1):
            s_0 = self._start("init_enc", number, z, self._units(layer, "forward_"))
            forward, backward = (self._drop(layer, s, d) for d in ("forward", "backward"))
            s = bigru(self.w[layer], forward, backward, s_0)
        return s  # [Tx, N, 2H]

    def decode(self, y, memory, z=None):
        """Logits [Ty, N, Vy] and attention weights [Ty, N, Tx]."""
        layers = self._layers("gru_dec")
        states = [
            self._start("init_dec", number, z, self._units(layer))
            for number, layer in enumerate(layers, start=1)
        ]
        rows = max(memory.shape[1], states[0].shape[0])
        memory = np.broadcast_to(memory, (memory.shape[0], rows, memory.shape[2]))
        states = [np.broadcast_to(t, (rows, t.shape[1])) for t in states]
        run = self._paper_step if self.decoder_style == "paper" else self._tf_nmt_step
        fed = np.zeros_like(states[-1])
        if self.decoder_style == "paper":  # z at every step, or nothing
            size = memory.shape[2] + self._embed("y", [SOS]).shape[1]  # of [c, e]
            fed = np.zeros((rows, 0))
            if self.w["gru_dec"]["kernel"].shape[0] > size:
                fed = np.broadcast_to(z, (rows, z.shape[1]))
        logits, weights = [], []
        for j, e in enumerate(self._prefix("y", y)):
            e = np.broadcast_to(e, (rows, e.shape[0]))  # [N, E]
            states, fed, step_logits, step_weights = run(j, e, layers, states, memory, fed)
            logits.append(step_logits)
            weights.append(step_weights)
        return np.stack(logits), np.stack(weights)

    def _cells(self, j, v, layers, states):
        """One step up a stack of cells; each new state is the input of the layer above."""
        new_states = []
        for layer, t in zip(layers, states, strict=True):
            factors = self.keep.get(layer)
            v = gru_step(self.w[layer], t, v if factors is None else v * np.asarray(factors)[j])
            new_states.append(v)
        return new_states

    def _paper_step(self, j, e, layers, states, memory, fed):
        c, weights = attention(self.w["bahd"], memory, states[0])  # the old state
        new_states = self._cells(j, np.concatenate([c, e, fed], axis=-1), layers, states)
        features = np.concatenate([new_states[-1], e, c], axis=-1)
        return new_states, fed, self._output(j, features), weights

    def _tf_nmt_step(self, j, e, layers, states, memory, fed):
        new_states = self._cells(j, np.concatenate([e, fed], axis=-1), layers, states)
        c, weights = attention(self.w["bahd"], memory, new_states[-1])  # the new state
        fed = affine(self.w["att_layer"], np.concatenate([new_states[-1], c], axis=-1))
        return new_states, fed, self._output(j, fed), weights

    def _output(self, j, features):
        factors = self.keep.get("out_y")
        return self._logits(
            "y", features if factors is None else features * np.asarray(factors)[j]
        )

    def log_py(self, x, y, z=None):
        logits, _ = self.decode(y, self.encode(x, z), z)
        return self._log_likelihood(logits, y)

    def smoothing(self, x, y, z=None):
        """The cross-entropy to smoothed labels minus that to the labels themselves."""
        logits, _ = self.decode(y, self.encode(x, z), z)
        log_p = log_softmax(logits)[:, 0]  # [Ty, Vy]
        size = log_p.shape[-1]
        labels = (1.0 - self.label_smoothing) * np.eye(size)[list(y)]
        labels = labels + self.label_smoothing / size
        return -(labels * log_p).sum() - -self.log_py(x, y, z)[0]

    # Words in no order

    def bag(self, side, sentence, z):
        """-log P(words of a sentence|z), the end mark left out; 0 without such a net."""
        if f"bow_{side}_hid" not in self.w:
            return 0.0
        hidden = np.tanh(affine(self.w[f"bow_{side}_hid"], z))
        log_p = log_softmax(affine(self.w[f"bow_{side}_out"], hidden))[0]
        return -sum(log_p[word] for word in sentence[:-1])

    # Inference and prediction networks

    def _average(self, layer, language, sentence):
        words = self._embed(language, sentence)[:, None, :]
        h_0 = np.zeros((1, self._units(layer, "forward_")))
        forward, backward = (self._drop(layer, words, d) for d in ("forward", "backward"))
        return bigru(self.w[layer], forward, backward, h_0).mean(axis=0)[0]  # [2H]

    def _head(self, name, h):
        hidden = np.maximum(affine(self.w[f"{name}_hid"], h), 0.0)
        return affine(self.w[f"{name}_out"], hidden)

    def posterior(self, x, y):
        """loc and scale of q(z|x), or of q(z|x, y) where the network reads y."""
        h = self._average("q_gru_x", "x", x)
        if self.reads_target:
            h = np.concatenate([h, self._average("q_gru_y", "y", y)])
        loc = self._head("q_u", h)
        if self.norm is not None:
            scale, mean, variance = self.norm
            loc = scale * (loc - mean) / np.sqrt(variance + 1e-5) + self.w["q_u_norm"]["shift"]
        return loc, softplus(self._head("q_s", h))

    def conditional_prior(self, x):
        """loc and scale of p(z|x)."""
        h = self._average("p_gru_x", "x", x)
        return self._head("p_u", h), softplus(self._head("p_s", h))

    def prediction(self, x):
        """loc and scale of r(z|x), None where r is a point; of p(z|x) where there is no r."""
        if self.is_conditional:
            return self.conditional_prior(x)
        h = self._average("r_gru_x", "x", x)
        scale = softplus(self._head("r_s", h)) if "r_s_out" in self.w else None
        return self._head("r_u", h), scale

    def log_prior(self, z, x=None):
        """log p(z) of z [..., Z]: the standard normal, or the prior whose weights are there."""
        if self.is_conditional:
            return log_normal(z, *self.conditional_prior(x))
        if self.mixture is None:
            return log_normal(z, 0.0, 1.0)
        loc, scale = self.mixture["loc"], softplus(self.mixture["scale"])  # [K, Z]
        each = log_softmax(self.mixture["logits"]) + log_normal(z[..., None, :], loc, scale)
        return np.logaddexp.reduce(each, axis=-1)

    def kl(self, q, z, x):
        """KL(q || p): [Z], or [1] for a mixture, of z alone."""
        if self.is_conditional:
            return kl_between(*q, *self.conditional_prior(x))
        if self.mixture is None:
            return kl_from_standard(*q)
        return log_normal(z, *q) - self.log_prior(z)

    # Objectives, for one pair

    def sample(self, x, y, epsilon=None):
        """z = loc + epsilon * scale of Eq. (ELBO): [1, Z]; None without a latent variable."""
        if not self.has_z:
            return None
        loc, scale = self.posterior(x, y)
        return (loc + np.asarray(epsilon, np.float64) * scale)[None, :]

    def loss_terms(self, x, y, epsilon=None):
        """nll_x, nll_y, kl and r_divergence at z = loc + epsilon * scale."""
        z, kl, r_divergence = self.sample(x, y, epsilon), np.zeros(0), 0.0
        if self.has_z:
            q = self.posterior(x, y)
            kl = self.kl(q, z, x)
            if self.reads_target and not self.is_conditional:
                r_divergence = divergence(self.r_train_mode, q, self.prediction(x))
        return {
            "nll_x": -self.log_px(x, z)[0] if self.has_lm else 0.0,
            "nll_y": -self.log_py(x, y, z)[0],
            "kl": kl,
            "r_divergence": r_divergence,
            "smoothing": self.smoothing(x, y, z),
            "bow_x": self.bag("x", x, z),
            "bow_y": self.bag("y", y, z),
        }

    def loss(self, x, y, epsilon=None, kl_weight=1.0, bags=(0.0, 0.0)):
        """-log P, or minus the (modified) ELBO; the weight of annealing is also on D(r, q)."""
        t = self.loss_terms(x, y, epsilon)
        t["smoothing"] += bags[0] * t["bow_x"] + bags[1] * t["bow_y"]
        nll_y = t["nll_y"] + t["smoothing"]
        return t["nll_x"] + nll_y + kl_weight * (t["kl"].sum() + t["r_divergence"])

    def log_weights_xy(self, x, y, epsilon):
        """log p(x, y, z_s) - log q(z_s) at z_s = loc + epsilon_s * scale; epsilon is [S, Z]."""
        loc, scale = self.posterior(x, y)
        z = loc + np.asarray(epsilon, np.float64) * scale
        joint = self.log_py(x, y, z) + self.log_prior(z, x)
        joint += self.log_px(x, z) if self.has_lm else 0.0
        return joint - log_normal(z, loc, scale)  # [S]

    def log_weights_x(self, x, epsilon):
        """The same for P(x): the proposal is q(z|x), else r(z|x), else the prior."""
        if self.reads_target:
            loc, scale = self.prediction(x)
            if scale is None:
                loc, scale = np.zeros_like(loc), np.ones_like(loc)
        else:
            loc, scale = self.posterior(x, None)
        z = loc + np.asarray(epsilon, np.float64) * scale
        return self.log_px(x, z) + self.log_prior(z) - log_normal(z, loc, scale)  # [S]


def effective_sample_size(log_weights):
    weights = softmax(np.asarray(log_weights).T)
    return 1.0 / (weights**2).sum(axis=-1)


def parameter_count(
    *,
    system,
    units,
    z_dim,
    vocab_x,
    vocab_y,
    encoder_layers=1,
    decoder_layers=1,
    lm_layers=1,
    decoder_style="paper",
    gru_reset="before",
    share_vocab=False,
    tied=False,
):
    """How many numbers Appendix A asks for.

    system is cond, joint, source_only, or the D of a source_target model; encoder_layers counts
    bidirectional layers.
    """

    def dense(inputs, outputs):
        return inputs * outputs + outputs

    def cell(inputs):
        return 3 * (inputs * units + units * units + (2 if gru_reset == "after" else 1) * units)

    has_z = system not in ("cond", "joint")
    start = dense(z_dim, units) if has_z else 0
    total = vocab_x * units + (0 if share_vocab else vocab_y * units)
    if system not in ("cond", "vnmt"):
        total += lm_layers * (start + cell(units)) + (0 if tied else units * vocab_x) + vocab_x
    total += encoder_layers * start
    total += 2 * cell(units) + (encoder_layers - 1) * 2 * cell(2 * units)
    total += 2 * units * units + units * units + units  # attention: keys, query, v
    total += decoder_layers * start + (decoder_layers - 1) * cell(units)
    if decoder_style == "paper":
        total += cell(3 * units) + 4 * units * (units if tied else vocab_y) + vocab_y
    else:
        total += cell(2 * units) + 3 * units * units + (0 if tied else units * vocab_y)
    if has_z:
        sides = 1 if system in ("source_only", "mixture") else 2
        head = dense(sides * 2 * units, z_dim) + dense(z_dim, z_dim)
        total += sides * 2 * cell(units) + 2 * head
        if sides == 2:
            head = dense(2 * units, z_dim) + dense(z_dim, z_dim)
            total += 2 * cell(units) + (1 if system == "l2" else 2) * head
    if system == "mixture":
        total += 3 * (1 + 2 * z_dim)  # three components: weight, locations, scales
    return total
