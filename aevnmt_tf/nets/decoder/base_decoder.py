"""What all forms of the decoder share."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from aevnmt_tf.nets.decoder.attention import MECHANISMS, Memory
from aevnmt_tf.nets.decoder.attention_loop import (
    Form,
    LayerWeights,
    LoopInputs,
    run_attention_loop,
)
from aevnmt_tf.nets.embedding import Embedding
from aevnmt_tf.nets.matrix_products import compute, project
from aevnmt_tf.nets.output_layer import OutputLayer
from aevnmt_tf.nets.recurrent import Noise, time_first
from aevnmt_tf.nets.recurrent_stack import RecurrentStack


class DecoderState(NamedTuple):
    """What changes from word to word."""

    hidden: tuple[tf.Tensor, ...]  # [B, H] for each layer; [B, 2H] of an LSTM
    # What the next step reads besides the word: TF-NMT's attention vector [B, H] or context
    # [B, M]; in the paper's form z [B, Z] with feed_z, else [B, 0].
    feed: tf.Tensor


Step = tuple[tf.Tensor, DecoderState, tf.Tensor]  # features or logits, state, attention [N, Tx]


class Decoder(RecurrentStack):
    """What forms share. A form defines its sizes, `run` (a sentence) and `step` (a word).

    Args:
        memory_size: M, 2H for a bidirectional encoder.
        vocab_size: Vy.
        packed, label_smoothing: see `OutputLayer`.
        tied: whether the target embeddings are the matrix of out_y.
        **kwargs: as RecurrentStack.
    """

    gru_label = "gru_dec"
    start_label = "init_dec"
    attention = "bahdanau"  # one of MECHANISMS
    residual_layers = 0  # how many layers, from the top, add their input to their output
    has_attention = True
    attends_first = False  # whether a step attends first, and reads the context before the word
    output_bias = True

    def __init__(
        self,
        *,
        memory_size: int,
        vocab_size: int,
        packed: bool = True,
        label_smoothing: float = 0.0,
        tied: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.memory_size = memory_size
        self.vocab_size = vocab_size
        self.packed = packed
        self.label_smoothing = label_smoothing
        self.tied = tied

    def build(self, *_: Any) -> None:
        """Create the other layers and all weights."""
        super().build()
        if self.has_attention:
            # In checkpoints every mechanism is called bahd.
            self.bahd = MECHANISMS[self.attention](
                memory_size=self.memory_size,
                units=self.units,
                name="bahd",
                dtype=self.dtype_policy.name,
            )
            self.bahd.build()
        self.out_y = OutputLayer(
            input_size=self.feature_size,
            vocab_size=self.vocab_size,
            use_bias=self.output_bias,
            packed=self.packed,
            label_smoothing=self.label_smoothing,
            tied_size=self.input_size if self.tied else None,
            name="out_y",
            dtype=self.dtype_policy.name,
        )
        self.out_y.build()

    @property
    def feature_size(self) -> int:
        """The size of what out_y reads."""
        return self.units

    @property
    def feed_size(self) -> int:
        """The size of what the first layer reads from attention."""
        return self.memory_size

    def size_below(self, k: int) -> int:
        """Return the size of what layer k (from 0) reads."""
        return self.units if k else self.input_size + self.feed_size + self.fed_size

    def begin(
        self, values: Any, lengths: tf.Tensor, z: tf.Tensor | None = None
    ) -> tuple[Memory, DecoderState]:
        """Return where decoding starts, given what the encoder returned, lengths and z."""
        state = DecoderState(self.start(z, lengths), self.fed(z, lengths))
        return self.bahd.memory(values, lengths), state

    def call(
        self,
        inputs: tf.Tensor,
        memory: Memory,
        state: DecoderState,
        noise: Noise | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the features for out_y [B, Ty, F] and attention [B, Ty, Tx] of a sentence.

        Args:
            inputs: [B, Ty, E] = e_0 .. e_{n-1}.
            memory: of `begin`.
            state: of `begin`.
            noise: dropout masks by layer name.
        """
        return self.run(compute(self, inputs), memory, state, noise or {})

    def run(
        self, inputs: tf.Tensor, memory: Memory, state: DecoderState, noise: Noise
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the same as `call`."""
        raise NotImplementedError

    def step(
        self, inputs: tf.Tensor, memory: Memory, state: DecoderState, *, shared: bool = False
    ) -> Step:
        """Return the features for out_y [N, F], DecoderState and attention [N, Tx] of a word.

        Args:
            inputs: [N, E] = e_{j-1}.
            memory: N rows; with `shared` B of them, each for N / B rows of the state.
            state: N rows.
            shared: whether several rows share a sentence.
        """
        raise NotImplementedError

    def run_attending(
        self,
        words: tf.Tensor,
        memory: Memory,
        starts: Sequence[tf.Tensor],
        noise: Noise,
        *,
        wanted: Sequence[str],
        feed: tuple[tf.Tensor, ...] = (),
        attention_kernel: tf.Tensor | None = None,
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Run the lowest layers and attention over sentences.

        Args:
            words: [B, Ty, ...], what the first layer reads besides the result of attention.
            memory: of `begin`.
            starts: the initial state of each layer to run.
            noise: dropout masks by layer name.
            wanted: see `run_attention_loop`.
            feed: what the first step reads from attention; nothing if that comes first.
            attention_kernel: W_att, or None if contexts are fed as they are.

        Returns:
            What is wanted [B, Ty, ...], and attention [B, Ty, Tx].
        """
        masks, layers = [], []
        for k, layer in enumerate(self.grus[: len(starts)]):
            kernel, recurrent, bias, second = layer.weights_of()
            mask = noise.get(layer.name)
            if mask is not None:
                mask = compute(self, mask)
            if k == 0:
                word_kernel, kernel = self._split_inputs(kernel, axis=0)
                if mask is not None:
                    word_mask, mask = self._split_inputs(mask, axis=2)
                    words *= word_mask
                x, bias = project(words, word_kernel, bias), None  # [B, Ty, 3H]
            masks.append(None if mask is None else time_first(mask))
            layers.append(LayerWeights(kernel, bias, recurrent, second))
        residual = [k >= self.num_layers - self.residual_layers for k in range(len(layers))]
        inputs = LoopInputs(
            time_first(x),
            tuple(compute(self, start) for start in starts),
            feed,
            memory,
            layers,
            self.bahd.score_weights(),
            attention_kernel,
            masks,
        )
        form = Form(self.grus[0].cell, self.bahd, self.units, residual, self.attends_first)
        found, attention = run_attention_loop(inputs, form, wanted=wanted)
        return [time_first(each) for each in found], time_first(attention)

    def _split_inputs(self, tensor: tf.Tensor, *, axis: int) -> list[tf.Tensor]:
        """Split along the first layer's inputs: words, and what comes from attention."""
        rest = tensor.shape[axis] - self.feed_size
        if self.attends_first:
            return tf.split(tensor, [self.feed_size, rest], axis)[::-1]
        return tf.split(tensor, [rest, self.feed_size], axis)

    def word_table(self, embedding: Embedding) -> Any:
        """Return what `search_step` can use once it is computed for the whole vocabulary.

        It is valid as long as weights do not change. None if there is nothing to gain.
        """
        return None

    def search_step(
        self, embedding: Embedding, *, width: int, words: Any = None
    ) -> "SearchStep":
        """Return the step function of a search.

        Args:
            embedding: of the target.
            width: K, hypotheses per sentence; with 1 no two of them share a source.
            words: the `word_table` of the current weights, or None.
        """
        return SearchStep(self, embedding, shared=width > 1)


class SearchStep:
    """One more word for rows b * K + k, hypothesis k of sentence b: the decoder's own step."""

    def __init__(self, decoder: Decoder, embedding: Embedding, *, shared: bool) -> None:
        self._decoder = decoder
        self._embedding = embedding
        self._shared = shared

    def memory(self, source: Memory) -> Any:
        """Return a Memory in the form that the search carries."""
        return source

    def __call__(self, memory: Any, state: DecoderState, y: tf.Tensor) -> Step:
        """Return logits [B * K, V], DecoderState and attention [B * K, Tx] for y [B * K]."""
        features, state, attention = self._decoder.step(
            self._embedding(y), memory, state, shared=self._shared
        )
        return self._decoder.out_y(features), state, attention
