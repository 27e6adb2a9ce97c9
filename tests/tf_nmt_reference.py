"""TF-NMT's forms in float64 NumPy, for one sentence pair: a second opinion on all of them.

Written from TF 1's definitions of the cells, the attention mechanisms and the wrappers, without
batches, padding or masks. Weights come by layer name and variable name, as for Reference.
"""

import numpy as np

from tests.reference import affine, gru_step, log_softmax, sigmoid, softmax

SOS = 1


def layer_norm(values, gain, shift):
    return gain * (values - values.mean()) / np.sqrt(values.var() + 1e-12) + shift


def lstm_step(w, state, v, forget_bias, *, normed):
    """One step of BasicLSTMCell or LayerNormBasicLSTMCell; a state is (h, c)."""
    h, c = state
    size = len(h)
    sums = v @ w["kernel"] + h @ w["recurrent_kernel"] + w.get("bias", 0.0)
    i, j, f, o = (sums[k * size : (k + 1) * size] for k in range(4))
    if normed:
        parts = [slice(k * size, (k + 1) * size) for k in range(5)]
        gain, shift = w["gain"], w["shift"]
        i, j, f, o = (
            layer_norm(gate, gain[part], shift[part])
            for gate, part in zip((i, j, f, o), parts, strict=False)
        )
    c = c * sigmoid(f + forget_bias) + sigmoid(i) * np.tanh(j)
    if normed:
        c = layer_norm(c, gain[parts[4]], shift[parts[4]])
    return np.tanh(c) * sigmoid(o), c


class Twin:
    """log P(y|x) and log P(x) of one pair by hand; options are the settings' names."""

    def __init__(self, weights, *, keep=None, z=None, **options):
        self.w = weights
        self.o = options
        self.keep = keep or {}
        self.z = z

    def cell(self, layer, state, v):
        """Return the output and the new state."""
        if self.o["unit_type"] == "gru":
            w = self.w[layer]
            new = gru_step(w, state[None], v[None])[0]
            return new, new
        normed = self.o["unit_type"] == "layer_norm_lstm"
        new = lstm_step(self.w[layer], state, v, self.o["forget_bias"], normed=normed)
        return new[0], new

    def start(self, label, number):
        """Return a layer's state before the first word; number counts from 1."""
        units = self.o["num_units"]
        parts = 1 if self.o["unit_type"] == "gru" else 2
        values = np.zeros(parts * units)
        if self.z is not None:
            w = self.w[label if number == 1 else f"{label}_{number}"]
            values = np.tanh(affine(w, self.z))
        return values if parts == 1 else (values[:units], values[units:])

    def names(self, label, count):
        label = label.replace("gru", self.o["unit_type"])
        return [label if k == 0 else f"{label}_{k + 1}" for k in range(count)]

    def dropped(self, layer, t, v):
        return v if layer not in self.keep else v * self.keep[layer][t]

    def stack(self, layers, words, starts, residual, *, backward=False):
        """Return the outputs over a sentence and the last state of each layer."""
        order = list(range(len(words)))[:: -1 if backward else 1]
        last, values = [], list(words)
        for k, (layer, state) in enumerate(zip(layers, starts, strict=True)):
            outputs = [None] * len(words)
            for t in order:
                out, state = self.cell(layer, state, self.dropped(layer, t, values[t]))
                is_residual = k >= len(layers) - residual
                outputs[t] = out + values[t] if is_residual else out
            values = outputs
            last.append(state)
        return np.stack(values), last

    def encode(self, x):
        """Return values [Tx, M] and the states that the decoder may start from."""
        words = self.w["emb_x"]["embeddings"][np.asarray(x)]
        depth, kind = self.o["num_encoder_layers"], self.o["encoder_type"]
        residual = 0
        if self.o["residual"]:
            residual = depth - 2 if kind == "gnmt" else depth - 1
        if kind == "uni":
            starts = [self.start("init_enc", k + 1) for k in range(depth)]
            return self.stack(self.names("gru_x", depth), words, starts, residual)
        count = 1 if kind == "gnmt" else depth // 2
        starts = [self.start("init_enc", k + 1) for k in range(count)]
        forward, backward = (self.names(f"{s}_gru_x", count) for s in ("forward", "backward"))
        each = residual // 2 if kind == "bi" else 0
        right, ahead = self.stack(forward, words, starts, each)
        left, behind = self.stack(backward, words, starts, each, backward=True)
        both = np.concatenate([right, left], axis=-1)
        if kind == "bi":
            return both, [s for pair in zip(ahead, behind, strict=True) for s in pair]
        starts = [self.start("init_enc", k + 2) for k in range(depth - 1)]
        values, above = self.stack(self.names("gru_x", depth - 1), both, starts, residual)
        return values, [*behind, *above]

    def attend(self, memory, query):
        """Return the context and the weights."""
        w, kind = self.w["bahd"], self.o["attention"]
        keys = memory @ w["memory_kernel"]
        if kind in ("luong", "scaled_luong"):
            scores = keys @ query * (w["gain"][0] if kind == "scaled_luong" else 1.0)
        else:
            v, bias = w["v"], 0.0
            if kind == "normed_bahdanau":
                v, bias = w["gain"][0] * v / np.sqrt((v**2).sum()), w["bias"]
            scores = np.tanh(keys + query @ w["query_kernel"] + bias) @ v
        weights = softmax(scores)
        return weights @ memory, weights

    def log_py(self, x, y):
        memory, states = self.encode(x)
        depth = self.o["num_decoder_layers"]
        layers = self.names("gru_dec", depth)
        if not self.o["pass_hidden_state"]:
            states = [self.start("init_dec", k + 1) for k in range(depth)]
        table = self.w.get("emb_y", self.w["emb_x"])["embeddings"]
        self.residual_from = depth
        if self.o["residual"]:
            same = self.o["encoder_type"] == "gnmt" and self.o["num_encoder_layers"] == depth
            self.residual_from = 2 if same else 1
        step = self.standard if self.o["attention_architecture"] == "standard" else self.gnmt
        step = step if self.o["attention"] else self.plain
        feed, total = None, 0.0
        for t, (before, word) in enumerate(zip([SOS, *y[:-1]], y, strict=True)):
            features, states, feed = step(t, table[before], layers, states, feed, memory)
            total += log_softmax(affine(self.w["out_y"], features))[word]
        return total

    def climb(self, t, below, layers, states, *, first=0, beside=None):
        new = []
        for k, (layer, state) in enumerate(zip(layers, states, strict=True), start=first):
            v = below if beside is None else np.concatenate([below, beside])
            out, state = self.cell(layer, state, self.dropped(layer, t, v))
            below = out + below if k >= self.residual_from else out
            new.append(state)
        return below, new

    def standard(self, t, e, layers, states, feed, memory):
        feed = np.zeros(self.o["num_units"]) if feed is None else feed
        top, states = self.climb(t, np.concatenate([e, feed]), layers, states)
        context, _ = self.attend(memory, top)
        feed = affine(self.w["att_layer"], np.concatenate([top, context]))
        return (feed if self.o["output_attention"] else top), states, feed

    def gnmt(self, t, e, layers, states, feed, memory):
        feed = np.zeros(memory.shape[1]) if feed is None else feed
        below, first = self.climb(t, np.concatenate([e, feed]), layers[:1], states[:1])
        context, _ = self.attend(memory, below)
        beside = context if self.o["attention_architecture"] == "gnmt_v2" else feed
        top, above = self.climb(t, below, layers[1:], states[1:], first=1, beside=beside)
        return top, [*first, *above], context

    def plain(self, t, e, layers, states, feed, memory):
        top, states = self.climb(t, e, layers, states)
        return top, states, None

    def log_px(self, x):
        words = self.w["emb_x"]["embeddings"][np.asarray([SOS, *x[:-1]])]
        layers = self.names("gru_lm", 1)
        outputs, _ = self.stack(layers, words, [self.start("init_lm", 1)], 0)
        steps = log_softmax(affine(self.w["out_x"], outputs))
        return sum(steps[t, word] for t, word in enumerate(x))
