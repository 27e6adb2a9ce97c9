"""What all forms of the decoder share."""

from typing import Any, NamedTuple

import tensorflow as tf

from aevnmt_tf.nets.decoder.bahdanau import Bahdanau, Memory
from aevnmt_tf.nets.embedding import Embedding
from aevnmt_tf.nets.output_layer import OutputLayer
from aevnmt_tf.nets.recurrent import Noise
from aevnmt_tf.nets.recurrent_stack import RecurrentStack


class DecoderState(NamedTuple):
    """What changes from word to word."""

    hidden: tuple[tf.Tensor, ...]  # [B, H] for each layer; [B, 2H] of an LSTM
    # [B, H] TF-NMT's attention vector; in the paper's form z [B, Z] with feed_z, else [B, 0]
    feed: tf.Tensor


Step = tuple[tf.Tensor, DecoderState, tf.Tensor]  # features or logits, state, attention [N, Tx]


class Decoder(RecurrentStack):
    """The part that forms share. A form defines its sizes, `call` (a sentence) and `step`.

    It calls `make_layers` when its sizes are known.

    Args:
        memory_size: 2H.
        vocab_size: Vy.
        packed, label_smoothing: see `OutputLayer`.
        tied: whether the target embeddings are the matrix of out_y.
        **kwargs: as RecurrentStack.
    """

    gru_label = "gru_dec"
    start_label = "init_dec"
    arguments = (
        *RecurrentStack.arguments,
        "memory_size",
        "vocab_size",
        "packed",
        "label_smoothing",
        "tied",
    )
    output_bias = True
    has_attention = True

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

    def make_layers(self) -> None:
        """Make all layers with weights."""
        super().make_layers()
        self.bahd = self.make_attention()
        self.out_y = self.make_output()

    def make_attention(self) -> Bahdanau:
        """Return the attention mechanism."""
        return Bahdanau(
            memory_size=self.memory_size, units=self.units, name="bahd", dtype=self.dtype_policy
        )

    def make_output(self) -> OutputLayer:
        """Return the output layer."""
        return OutputLayer(
            input_size=self.feature_size,
            vocab_size=self.vocab_size,
            use_bias=self.output_bias,
            packed=self.packed,
            label_smoothing=self.label_smoothing,
            tied_size=self.input_size if self.tied else None,
            name="out_y",
            dtype=self.dtype_policy,
        )

    @property
    def first_input_size(self) -> int:
        """The size of what the first layer reads."""
        raise NotImplementedError

    @property
    def feature_size(self) -> int:
        """The size of what out_y reads."""
        raise NotImplementedError

    @property
    def feed_size(self) -> int:
        """The size of DecoderState.feed."""
        return 0

    def sublayers(self) -> list:
        """Return all layers with weights."""
        return [*super().sublayers(), self.bahd, self.out_y]

    def size_below(self, k: int) -> int:
        """Return what a form feeds to its first layer, or the layer below."""
        return self.units if k else self.first_input_size

    def begin(
        self, values: tf.Tensor, lengths: tf.Tensor, z: tf.Tensor | None = None
    ) -> tuple[Memory, DecoderState]:
        """Return where to start for the encoder's values [B, Tx, 2H], lengths [B], z [B, Z]."""
        memory = self.memory(values, lengths)
        feed = tf.zeros([tf.shape(lengths)[0], self.feed_size], self.compute_dtype)
        return memory, DecoderState(self.start(z, lengths), feed)

    def memory(self, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """Return what is fixed while decoding, of values [B, Tx, 2H] and lengths [B]."""
        return self.bahd.memory(values, lengths)

    def call(
        self,
        inputs: tf.Tensor,
        memory: Memory,
        state: DecoderState,
        noise: Noise | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return features of out_y [B, Ty, F] and attention [B, Ty, Tx] of a sentence.

        Args:
            inputs: [B, Ty, E] = e_0 .. e_{n-1}.
            memory: of `begin`.
            state: of `begin`.
            noise: masks by layer name.
        """
        raise NotImplementedError

    def step(
        self, inputs: tf.Tensor, memory: Memory, state: DecoderState, *, shared: bool = False
    ) -> Step:
        """Return one word's features of out_y [N, F], DecoderState and attention [N, Tx].

        Args:
            inputs: [N, E] = e_{j-1}.
            memory: N rows; with `shared` B of them, each for N / B rows of the state.
            state: N rows.
            shared: whether several rows share a sentence.
        """
        raise NotImplementedError

    def word_table(self, embedding: Embedding) -> Any:
        """Return what can be computed once per word of the vocabulary for `search_step`.

        It holds as long as weights do not change. None where there is nothing of use.
        """
        del embedding
        return None

    def search_step(
        self, embedding: Embedding, *, width: int, words: Any = None
    ) -> "SearchStep":
        """Return the step function of a search.

        Args:
            embedding: the target's.
            width: K, hypotheses per sentence; with 1 no two of them share a source.
            words: a `word_table` of the weights as they are, or None.
        """
        del words
        return SearchStep(self, embedding, shared=width > 1)


class SearchStep:
    """One more word for rows b * K + k, hypothesis k of sentence b: a decoder's own step."""

    def __init__(self, decoder: Decoder, embedding: Embedding, *, shared: bool) -> None:
        self._decoder = decoder
        self._embedding = embedding
        self._shared = shared

    def memory(self, source: Memory) -> Any:
        """Return a Memory as search should carry it."""
        return source

    def __call__(self, memory: Any, state: DecoderState, y: tf.Tensor) -> Step:
        """Return logits [B * K, V], DecoderState and attention [B * K, Tx] for y [B * K]."""
        features, state, attention = self._decoder.step(
            self._embedding(y), memory, state, shared=self._shared
        )
        return self._decoder.out_y(features), state, attention
