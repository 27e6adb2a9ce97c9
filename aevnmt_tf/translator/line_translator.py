"""Lines of text in, lines of text out: the graph for people and files."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import tensorflow as tf

from aevnmt_tf import search
from aevnmt_tf.translator import (
    concurrent_batches,
    decision,
    line_encoder,
    line_windows,
    mbr,
    pooling,
    traced,
)
from aevnmt_tf.translator.decode_path import Graph
from aevnmt_tf.translator.embedder import Embedder
from aevnmt_tf.translator.line_encoder import LineBatch, LineEncoder
from aevnmt_tf.translator.rules import Decoding
from aevnmt_tf.translator.sampler import Sampler
from aevnmt_tf.translator.scorer import Scorer
from aevnmt_tf.translator.translated_lines import (
    TranslatedLine,
    Translation,
    line_of,
    one_of_each,
    outputs,
)

if TYPE_CHECKING:  # slow to import, and few need it
    from aevnmt_tf.text.moses import MosesPipeline


class Translator:
    """Translates lines of text, scores pairs of lines and makes up new ones.

    `scorer`, `sampler` and `embedder` have more than is offered here.

    Args:
        graph: the model and its tokenizers.
        x_moses: what turns raw text into what the source's tokenizer reads, or None.
        y_moses: what turns what the target's tokenizer writes into raw text, or None.
        is_final: whether the weights change no more. Then what all sentences share is computed
            once, when the first full batch comes: it is not worth it for a few lines.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        x_moses: "MosesPipeline | None" = None,
        y_moses: "MosesPipeline | None" = None,
        is_final: bool = False,
    ) -> None:
        self.graph = graph
        self.hp, self.model = graph.hp, graph.model
        self.x_tokenizer, self.y_tokenizer = graph.x_tokenizer, graph.y_tokenizer
        self.is_final = is_final
        self.encoder = LineEncoder(graph, x_moses=x_moses, y_moses=y_moses)
        self.scorer = Scorer(graph, self.encoder)
        self.embedder = Embedder(graph, self.encoder)
        self.sampler = Sampler(graph, self.encoder, self.embedder)
        self._functions = traced.TracedFunctions()
        self._words: search.Nest = None

    def __repr__(self) -> str:
        """Return the kind of model, its languages, its size and its search."""
        members, decoding = self.graph.members, Decoding.of(self.hp)
        models = f" ensemble of {len(members)}" if len(members) > 1 else ""
        size = sum(member.model.count_params() for member in members)
        width = f" of width {decoding.beam_width}" if decoding.search == "beam" else ""
        return (
            f"<Translator: {self.hp.model_type}{models}, {self.hp.src} to {self.hp.tgt}, "
            f"{size:,} parameters, {decoding.search} search{width}>"
        )

    @overload
    def translate(
        self, lines: Iterable[str], *, n_best: int, seed: int = 1, **changes: Any
    ) -> list[list[str]]: ...

    @overload
    def translate(
        self, lines: Iterable[str], *, n_best: None = None, seed: int = 1, **changes: Any
    ) -> list[str]: ...

    def translate(
        self,
        lines: Iterable[str],
        *,
        n_best: int | None = None,
        seed: int = 1,
        **changes: Any,
    ) -> list[str] | list[list[str]]:
        """Return the best translation of each line, or with `n_best` a list of the best ones.

        Args:
            lines: Source sentences.
            n_best: The number of translations per line.
            seed: The seed of everything random. A line's random numbers depend on the seed
                and on the position of the line, not on the batch.
            **changes: Options of decoding, which default to the settings of the run:

                - search: "beam", "greedy", "sample", "mbr" or "refine".
                - beam_width, length_penalty_weight: for beam and refine.
                - z: "mean", "sample" or "zero"; num_z: the number of draws per line.
                - num_samples, utility: for mbr.
                - refine_steps, refine_start: for refine.
                - temperature, top_k, top_p: for sample and mbr.
                - max_length: the longest translation in subwords.
        """
        changes["n_best"] = 1 if n_best is None else n_best
        found = [[t.text for t in each] for each in self.n_best(lines, seed=seed, **changes)]
        return found if n_best is not None else [texts[0] for texts in found]

    def n_best(
        self, lines: Iterable[str], *, seed: int = 1, **changes: Any
    ) -> list[list[Translation]]:
        """Return the best translations of each line with their scores, best first.

        Args:
            lines: Source sentences.
            seed: As in `translate`.
            **changes: As in `translate`, and `n_best`, the number of translations per line.

        Returns:
            A list of Translation (text, score, log_prob, length) per line. A search may find
            fewer than `n_best`.
        """
        decoding = Decoding.of(self.hp, **changes)
        return [line.translations for line in self.stream(lines, decoding=decoding, seed=seed)]

    def embed(self, lines: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the means and the standard deviations of z given each line: two [N, Z] arrays.

        The distribution is q(z|x), or r(z|x) for a model whose q also reads the target.
        """
        return self.embedder.embed(lines)

    def score(
        self, sources: Iterable[str], targets: Iterable[str], **options: int
    ) -> dict[str, np.ndarray]:
        """Return log-probabilities and bounds of sentence pairs in nats, one array per name.

        Args:
            sources: Source sentences.
            targets: Target sentences.
            **options: `samples`, the number of draws of z per pair (10), and `seed` (1).
        """
        return self.scorer.score(sources, targets, **options)

    def sample(self, number: int, **options: Any) -> list[tuple[str, str]]:
        """Return sentence pairs (x, y) drawn with z from the prior.

        Args:
            number: The number of pairs.
            **options: `seed` (1), and `temperature`, `top_k` and `top_p` of the words.
        """
        return list(self.sampler.stream(number, **options))

    def interpolate(self, first: str, last: str, *, steps: int) -> list[tuple[str, str]]:
        """Return sentence pairs (x, y) decoded greedily on the line between two mean z."""
        return self.sampler.interpolate(first, last, steps=steps)

    def check(self, decoding: Decoding) -> None:
        """Raise a UserError where the model cannot search in this way."""
        decision.check(self.graph, decoding)

    def stream(
        self,
        lines: Iterable[str],
        *,
        decoding: Decoding,
        seed: int = 1,
        details: bool = False,
        window: int | None = None,
        is_ready: Callable[[], bool] = lambda: True,
        z: np.ndarray | None = None,
        start: int = 0,
    ) -> Iterator[TranslatedLine]:
        """Translate lines in constant memory; results come in their order.

        Args:
            lines: raw text.
            decoding: how to search.
            seed: of whatever is random; a line's numbers depend on it and on the line's number.
            details: also give pieces, attention and z.
            window: how many lines are read and sorted by length before any is translated.
                None: one batch first, so that the first results come soon, then more.
            is_ready: whether another line can be read at once; where it cannot, those that are
                there are translated.
            z: [N, Z], what to translate each line with in place of the z that `decoding` says;
                of a single model.
            start: the number of the first line, from 0. Where it is one of
                line_windows.window_starts, a part of a file is translated as in the whole.
        """
        self.check(decoding)
        read = line_windows.windows(
            line_encoder.checked(lines),
            batch_size=self.hp.infer_batch_size,
            window=window,
            is_ready=is_ready,
            start=start,
        )
        for number, chunk in read:
            part = None if z is None else z[number - start :][: len(chunk)]
            yield from self._translate(
                chunk, number, decoding, seed=seed, details=details, z=part
            )

    def _translate(
        self,
        lines: Sequence[str],
        start: int,
        rule: Decoding,
        *,
        seed: int,
        details: bool,
        z: np.ndarray | None = None,
    ) -> list[TranslatedLine]:
        """Return the results of some lines, the first of which is number `start` (from 0)."""
        decoding = rule.in_graph
        words = self._word_table(start + len(lines))
        run = self._search_function(decoding, words, details=details, with_z=z is not None)
        results: dict[int, TranslatedLine] = {}

        def search_batch(batch: LineBatch) -> tuple[LineBatch, dict[str, Any]]:
            given = [] if z is None else [tf.constant(z[batch.rows], tf.float32)]
            seeds = line_encoder.line_seeds(seed, start + batch.rows)
            found = run(batch.x, batch.x_len, seeds, *given, *_tables(words))
            return batch, pooling.map_tensors(lambda v: v.numpy(), found)

        # The longest first: in the end no core waits for it.
        hypotheses = decoding.draws * decoding.width
        batches = list(self.encoder.batches(lines, hypotheses=hypotheses))[::-1]
        for batch, found in concurrent_batches.run(search_batch, batches):
            for i, row in enumerate(batch.rows):
                results[row] = line_of(found, i, raw=self.encoder.raw_target)
                results[row].was_cut = bool(batch.was_cut[i])
        for result in results.values():
            if decoding != rule:
                result.translations = mbr.rank(
                    result.translations, utility=rule.utility, n_best=rule.n_best
                )
            elif self.encoder.y_moses is not None and rule.search != "sample":
                result.translations = one_of_each(result.translations, rule)
        return [results[row] for row in range(len(lines))]

    def _word_table(self, num_lines: int) -> search.Nest:
        """Return the graph's word_table where there have been so many lines, or None."""
        is_worth_it = num_lines >= self.hp.infer_batch_size
        if self._words is None and self.is_final and is_worth_it:
            self._words = self.graph.word_table()
        return self._words

    def _search_function(
        self, decoding: Decoding, words: search.Nest, *, details: bool, with_z: bool
    ) -> Callable[..., Any]:
        """Return a traced search of x, x_len, seeds, z if it is given, and tables of words.

        Tables are arguments: TensorFlow never forgets what a traced function has captured.
        """

        def run(
            x: tf.Tensor, x_len: tf.Tensor, seeds: tf.Tensor, *others: tf.Tensor
        ) -> dict[str, Any]:
            rest = iter(others)
            z = next(rest) if with_z else None
            tables = pooling.map_tensors(lambda _: next(rest), words)
            options = {"with_attention": details, "z": z, "words": tables}
            found, z = decision.decide(
                self.graph, x, x_len, seeds=seeds, decoding=decoding, **options
            )
            return outputs(self.graph, found, z, x, x_len, details=details)

        signature = [traced.MATRIX, traced.VECTOR, traced.SEEDS]
        if with_z:
            signature.append(traced.vectors(self.hp.z_dim))
        signature += [tf.TensorSpec.from_tensor(table) for table in _tables(words)]
        key = (decoding, details, with_z, words is not None)
        return self._functions.get(key, run, signature)


def _tables(words: search.Nest) -> list[tf.Tensor]:
    """Return the tensors of a word_table."""
    return [table for table in tf.nest.flatten(words) if table is not None]
