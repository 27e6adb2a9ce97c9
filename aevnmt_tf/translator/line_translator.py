"""Lines of text in, lines of text out: the Python interface to a graph."""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import tensorflow as tf

from aevnmt_tf import search
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.translator import decision, line_batches, line_encoder, mbr, pooling
from aevnmt_tf.translator.decode_path import IDS, LENGTHS, SEEDS, Graph, traced
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

if TYPE_CHECKING:  # slow to import
    from aevnmt_tf.text.moses import MosesPipeline


class Translator:
    """Translates lines of text, scores sentence pairs and samples new ones.

    Its `scorer`, `sampler` and `embedder` offer further methods.

    Args:
        graph: The model and its tokenizers.
        x_moses: As in LineEncoder.
        y_moses: As in LineEncoder.
        is_final: Whether the weights no longer change. If so, what all sentences share is
            computed once, with the first full batch; for a few lines it would not pay off.
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
        self.sampler = Sampler(graph, self.encoder)
        self._search_function = functools.cache(self._trace_search)
        self._words: search.Nest = None

    def __repr__(self) -> str:
        """Describe the model, its languages, its size and its search."""
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
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        samples: int = 10,
        seed: int = 1,
    ) -> dict[str, np.ndarray]:
        """Return log-probabilities and bounds of sentence pairs in nats, one array per name.

        The names are the columns of `aevnmt score`, which depend on the system.

        Args:
            sources: Source sentences.
            targets: Target sentences.
            samples: The number of draws of z per pair.
            seed: The random seed. The draws depend on it and on the number of the pair.
        """
        x, y = (list(line_encoder.checked(side)) for side in (sources, targets))
        if len(x) != len(y):
            raise UserError(
                f"{len(x)} sources but {len(y)} targets: give one target per source."
            )
        scores = list(self.scorer.stream(zip(x, y, strict=True), samples=samples, seed=seed))
        return {
            name: np.array([score.values[name] for score in scores], np.float32)
            for name in self.scorer.names
        }

    def sample(self, number: int, **options: Any) -> list[tuple[str, str]]:
        """Return sentence pairs (x, y) drawn with z from the prior.

        Args:
            number: The number of pairs.
            **options: `seed` (1), and `temperature`, `top_k` and `top_p` of the words.
        """
        return list(self.sampler.stream(number, **options))

    def interpolate(self, first: str, last: str, *, steps: int) -> list[tuple[str, str]]:
        """Return sentence pairs (x, y) decoded greedily on the line between two mean z."""
        loc, _ = self.embed([first, last])
        return self.sampler.interpolate(*loc, steps=steps)

    def check(self, decoding: Decoding) -> None:
        """Raise a UserError if the model does not support a decision rule."""
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
        """Translate lines in constant memory, and yield the results in order.

        Args:
            lines: Raw text.
            decoding: The decision rule.
            seed: The random seed, as in `translate`.
            details: Whether to return subwords, attention and z.
            window: The number of lines to read and sort by length before translating. By
                default one batch first, so that the first results come soon, then more.
            is_ready: Whether another line can be read without waiting. If not, the lines read
                so far are translated.
            z: The z [N, Z] of each line, instead of that of `decoding`; not for ensembles.
            start: The number of the first line, from 0. If it is one of
                line_batches.window_starts, part of a file is translated as in the whole file.
        """
        self.check(decoding)
        read = line_batches.windows(
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
        """Return the results of lines, the first of which has the number `start` (from 0)."""
        decoding = rule.in_graph
        words = self._word_table(start + len(lines))
        run = self._search_function(
            decoding, details=details, with_z=z is not None, with_words=words is not None
        )
        results: dict[int, TranslatedLine] = {}

        def search_batch(batch: LineBatch) -> tuple[LineBatch, dict[str, Any]]:
            given = [] if z is None else [tf.constant(z[batch.rows], tf.float32)]
            seeds = line_encoder.line_seeds(seed, start + batch.rows)
            found = run(batch.x, batch.x_len, seeds, *given, *_tables(words))
            return batch, pooling.map_tensors(lambda v: v.numpy(), found)

        # The longest batches first, so that no core waits for one at the end.
        hypotheses = decoding.draws * decoding.width
        batches = list(self.encoder.batches(lines, hypotheses=hypotheses))[::-1]
        for batch, found in line_batches.run(search_batch, batches):
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
        """Return the word_table of the graph if it pays off for so many lines, or None."""
        pays_off = num_lines >= self.hp.infer_batch_size
        if self._words is None and self.is_final and pays_off:
            self._words = self.graph.word_table()
        return self._words

    def _trace_search(
        self, decoding: Decoding, *, details: bool, with_z: bool, with_words: bool
    ) -> Callable[..., Any]:
        """Return a traced search of x, x_len, seeds, z if it is given, and word tables.

        Tables are arguments, because TensorFlow never frees what a traced function captures.
        """
        words = self._words if with_words else None

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

        signature = [IDS, LENGTHS, SEEDS]
        if with_z:
            signature.append(tf.TensorSpec([None, self.hp.z_dim]))
        signature += [tf.TensorSpec.from_tensor(table) for table in _tables(words)]
        # Traced here, and not by several threads at once.
        return traced(run, signature).get_concrete_function()


def _tables(words: search.Nest) -> list[tf.Tensor]:
    """Return the tensors of a word_table."""
    return [table for table in tf.nest.flatten(words) if table is not None]
