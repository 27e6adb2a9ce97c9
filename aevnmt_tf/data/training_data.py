"""The endless stream of training batches, a pure function of the step."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from aevnmt_tf import text
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.machine import num_cores
from aevnmt_tf.data import batches
from aevnmt_tf.data.batch_order import BatchOrder, BatchStream, shard_columns
from aevnmt_tf.data.batch_shapes import Lengths, assign, choose_shapes
from aevnmt_tf.data.corpora import files_of, prefixes
from aevnmt_tf.data.pair_counts import CorpusCounts, Counts
from aevnmt_tf.data.pair_encoding import LINES_PER_CALL, EncodedPairs, PairEncoder, Sequences
from aevnmt_tf.data.pair_store import PairStore, StoreChunk, StoredPairs
from aevnmt_tf.data.pairs import Pairs, read_pairs, read_synthetic
from aevnmt_tf.data.subword_sampling import SubwordSampling, sample_chunk
from aevnmt_tf.hparams import Hparams

AHEAD = 16  # batches that are made before they are needed


class TrainingData:
    """Training pairs in buckets, and the order of their batches.

    Args:
        gold: one EncodedPairs for each corpus; corpus indices are 0, 1, ...
        synthetic: back-translated pairs, or None; their corpus index is the last.
        samples: segmentations of all these corpora to train on in place of those in `gold` and
            `synthetic`: for each corpus as many EncodedPairs, all with its pairs.
        batch_size: rows of a global batch.
        num_buckets: the most shapes.
        seed: of the shuffling.
        ratios: how often each gold corpus is seen in an epoch (0.5: another half each time);
            None = once each.
        synthetic_ratio: synthetic batches for each gold batch.
        counts: what was read and dropped, for the record.
        digests: of the text files, for the record.
    """

    def __init__(
        self,
        gold: Sequence[EncodedPairs],
        *,
        batch_size: int,
        synthetic: EncodedPairs | None = None,
        samples: Sequence[Sequence[EncodedPairs]] | None = None,
        num_buckets: int = 10,
        seed: int = 1,
        ratios: Sequence[float] | None = None,
        synthetic_ratio: float = 1.0,
        counts: Counts | None = None,
        digests: Mapping[str, str] | None = None,
    ):
        ratios = _checked_ratios(ratios, num_corpora=len(gold))
        corpora = [*gold, synthetic] if synthetic is not None else list(gold)
        # The segmentations of each corpus: [number of corpora, S] EncodedPairs
        versions = [[corpus] for corpus in corpora] if samples is None else list(samples)
        sizes = [len(corpus) for corpus in corpora]
        num_gold = sum(sizes[: len(gold)])
        corpus = np.repeat(np.arange(len(corpora), dtype=np.int16), sizes)  # [N]
        # A bucket holds every segmentation of its pairs.
        x_len, y_len = (
            np.concatenate([_longest([getattr(v, side) for v in found]) for found in versions])
            for side in "xy"
        )  # [N], [N]
        self._samples, self._num_pairs = len(versions[0]), len(corpus)
        self.batch_size = batch_size
        self.counts = counts
        self.digests = dict(digests or {})
        same = set(ratios) == {1.0}
        times = 1.0 if same else np.asarray(ratios)[corpus[:num_gold]]
        gold_lengths = Lengths(x_len[:num_gold], y_len[:num_gold], times=times)
        expected = float(np.dot(ratios, sizes[: len(gold)]))  # gold pairs of an epoch
        rest = Lengths(
            x_len[num_gold:],
            y_len[num_gold:],
            share=synthetic_ratio * expected / max(len(x_len) - num_gold, 1),
        )
        self.shapes = choose_shapes(
            [gold_lengths, rest], num_shapes=num_buckets, batch_size=batch_size
        )
        buckets = assign(x_len, y_len, shapes=self.shapes)
        other = buckets[num_gold:]
        self.order = BatchOrder(
            BatchStream(buckets[:num_gold], corpus[:num_gold], ratios, batch_size, seed),
            BatchStream(other, 0 * other, (1.0,), batch_size, seed, number=1)
            if len(other)
            else None,
            synthetic_ratio,
        )
        if not self.order.gold.num_batches:
            raise UserError(
                "An epoch would have no pair: give more pairs or greater train_ratios."
            )
        tokens = [np.mean([len(v.x.ids) + len(v.y.ids) for v in found]) for found in versions]
        real = [float(np.dot(ratios, tokens[: len(gold)])), *map(float, tokens[len(gold) :])]
        self.padding_share = self._padding_share(real)
        self._gather = batches.Gatherer(
            [part for version in zip(*versions, strict=True) for part in version],
            corpora=[*range(len(corpora))] * self._samples,
            shapes=self.shapes,
        )

    def _padding_share(self, tokens: Sequence[float]) -> float:
        """Return 1 - real tokens / tokens of the batches, fillers and both sides included.

        Args:
            tokens: the real tokens in an epoch of each stream.
        """
        real = padded = 0.0
        for (stream, epochs), count in zip(self.order.streams, tokens, strict=False):
            real += epochs * count
            area = self.shapes.sum(1)[: len(stream.batches)] * stream.batches
            padded += epochs * self.batch_size * float(area.sum())
        return 1.0 - real / padded

    @property
    def batches_per_epoch(self) -> int:
        """Global batches of an epoch, the same for every epoch."""
        return self.order.batches_per_epoch

    def dataset(
        self, first_step: int = 0, num_shards: int = 1, shard: int | Sequence[int] = 0
    ) -> tf.data.Dataset:
        """Return the batches from a step on, without end: one Batch for each step and shard.

        Args:
            first_step: the number of the first global batch; 0 is the first of a run.
            num_shards: into how many parts a global batch is cut. Each has
                ceil(batch_size / num_shards) rows; the last ones may end in fillers.
            shard: which part; or several, which then follow one another, as a worker with
                several replicas wants them.
        """
        shards = list(shard) if isinstance(shard, Sequence) else [int(shard)]
        columns = shard_columns(self.batch_size, num_shards=num_shards, shards=shards)
        size = columns.shape[1]
        first_rows = tf.constant([shard * size for shard in shards])

        def gather(pairs: tf.Tensor, bucket: tf.Tensor, part: tf.Tensor) -> batches.Batch:
            return self._gather(pairs, bucket, tf.gather(first_rows, part) + tf.range(size))

        dataset = self.order.dataset(
            first_step, columns=columns, samples=self._samples, stride=self._num_pairs
        ).map(
            tf.autograph.experimental.do_not_convert(gather),
            num_parallel_calls=max(2, num_cores()),
            deterministic=True,
        )
        options = batches.without_copies()
        # The shards are cut here; TensorFlow must not cut them again.
        policy = tf.data.experimental.AutoShardPolicy.OFF
        options.experimental_distribute.auto_shard_policy = policy
        return dataset.prefetch(AHEAD).with_options(options)


def _longest(versions: Sequence[Sequences]) -> np.ndarray:
    """Return the length of the longest segmentation of each sentence: [N] int32."""
    longest = versions[0].lengths
    for other in versions[1:]:
        np.maximum(longest, other.lengths, out=longest)
    return longest


def _checked_ratios(ratios: Sequence[float] | None, *, num_corpora: int) -> tuple[float, ...]:
    if ratios is None:
        return (1.0,) * num_corpora
    if len(ratios) != num_corpora:
        raise UserError(
            f"train_ratios has {len(ratios)} numbers, but train_prefix names {num_corpora} "
            "corpora: give one number per corpus."
        )
    if not all(0 < ratio < np.inf for ratio in ratios):
        raise UserError(
            f"train_ratios {list(ratios)}: every number must be over 0; "
            "leave a corpus that is not wanted out of train_prefix."
        )
    return tuple(map(float, ratios))


def _check_tag(tag: str | None, tokenizer: text.Tokenizer) -> None:
    ids = [] if tag is None else tokenizer.encode([tag]).to_list()[0]
    if tag is not None and (len(ids) != 1 or ids[0] == text.UNK):
        raise UserError(
            f"synthetic_tag {tag} is not one symbol of the source's vocabulary: leave "
            "vocab_prefix out, so that one with it is made, or choose a word of it."
        )


def load_training_data(
    hp: Hparams,
    *,
    x_tokenizer: text.Tokenizer,
    y_tokenizer: text.Tokenizer,
    folder: str | Path,
    report: Callable[[str], object] = print,
) -> TrainingData:
    """Return the training corpora that the settings name, as ids that are mapped.

    Args:
        hp: the settings; their prefixes name text that the tokenizers read. max_train is for
            each gold corpus.
        x_tokenizer: of the source.
        y_tokenizer: of the target.
        folder: the folder of stores; corpora that are not there yet are tokenised into it.
        report: called with each sentence that a person should read.
    """
    num_gold = len(prefixes(hp.train_prefix))
    _checked_ratios(hp.train_ratios, num_corpora=num_gold)
    stored = store_corpora(
        hp, x_tokenizer=x_tokenizer, y_tokenizer=y_tokenizer, folder=folder, report=report
    )
    for corpus in stored:
        _refuse_nothing(corpus.counts, hp)
    corpora = [corpus.versions[0] for corpus in stored]
    return TrainingData(
        corpora[:num_gold],
        synthetic=corpora[-1] if len(corpora) > num_gold else None,
        samples=[corpus.versions for corpus in stored] if hp.subword_sampling else None,
        batch_size=hp.batch_size,
        num_buckets=hp.num_buckets,
        seed=_seed(hp),
        ratios=hp.train_ratios,
        # DEVIATION: the paper concatenates gold and synthetic data; the authors' code takes
        # batches of both in turn, by ratio, and so do we.
        synthetic_ratio=hp.mono_real_ratio,
        counts=Counts([corpus.counts for corpus in stored]),
        digests={name: value for c in stored for name, value in c.digests.items()},
    )


def store_corpora(
    hp: Hparams,
    *,
    x_tokenizer: text.Tokenizer,
    y_tokenizer: text.Tokenizer,
    folder: str | Path,
    report: Callable[[str], object] = print,
) -> list[StoredPairs]:
    """Return the stores of the training corpora; make what is missing.

    The synthetic one, or the one of sentences without a translation, is the last. Those have a
    copy of the source in the place of the target, which training leaves out. The arguments are
    those of load_training_data.
    """
    sampling = SubwordSampling(hp.subword_sampling, count=hp.subword_samples, seed=_seed(hp))
    if sampling.alpha:
        for tokenizer in (x_tokenizer, y_tokenizer):
            tokenizer.sample([], alpha=sampling.alpha, seed=1)  # an error comes before work
    if hp.synthetic_prefix:
        _check_tag(hp.synthetic_tag, x_tokenizer)
    stored = []
    files = files_of(hp, kinds=("train", "synthetic", "mono"))
    named = [("train", prefix) for prefix in prefixes(hp.train_prefix)]
    named += [("synthetic", prefix) for prefix in prefixes(hp.synthetic_prefix)]
    named += [("mono", prefix) for prefix in prefixes(hp.mono_prefix)]
    for kind, prefix in named:
        tag = hp.synthetic_tag if kind == "synthetic" else None
        max_pairs = hp.max_train if kind == "train" else 0
        tgt, target, tgt_max_len = hp.tgt, y_tokenizer, hp.tgt_max_len
        if kind == "mono":
            tgt, target, tgt_max_len = hp.src, x_tokenizer, hp.src_max_len
        encoder = PairEncoder(x_tokenizer, target, hp.src_max_len, tgt_max_len, drop_empty=True)
        read = functools.cache(
            functools.partial(
                read_synthetic if kind == "synthetic" else read_pairs,
                prefix,
                src=hp.src,
                tgt=tgt,
                max_pairs=max_pairs,
                tag=tag,
            )
        )
        made_with = {
            "tokenizers": [x_tokenizer.fingerprint, target.fingerprint],
            "limits": [hp.src_max_len, tgt_max_len, max_pairs],
            "tag": tag,
            "sampling": dataclasses.astuple(sampling) if sampling.alpha else None,
        }
        store = PairStore(
            Path(folder),
            prefix,
            files[kind, prefix],
            made_with,
            num_versions=sampling.count if sampling.alpha else 1,
            vocab_size=max(x_tokenizer.vocab_size, y_tokenizer.vocab_size),
        )
        chunks = functools.partial(_chunks, read, encoder=encoder, sampling=sampling, tag=tag)
        found = store.open(chunks, num_lines=functools.partial(_size, read), report=report)
        stored.append(found)
    return stored


def _chunks(
    read: Callable[[], Pairs],
    first: int,
    *,
    encoder: PairEncoder,
    sampling: SubwordSampling,
    tag: str | None,
) -> Iterator[StoreChunk]:
    """Yield what the lines after the first ones add to a store."""
    for number, chunk in enumerate(
        encoder.chunks(read(), first=first), start=first // LINES_PER_CALL
    ):
        versions = [chunk.pairs]
        if sampling.alpha:
            versions = sample_chunk(
                chunk, number=number, encoder=encoder, sampling=sampling, tag=tag
            )
        yield StoreChunk(len(chunk.keep), chunk.dropped, versions)


def _size(read: Callable[[], Pairs]) -> int:
    return len(read())


def _refuse_nothing(counts: CorpusCounts, hp: Hparams) -> None:
    if not counts.kept:
        raise UserError(
            f"{counts.name}: none of {counts.read} pairs is left ({counts.empty} empty, "
            f"{counts.source_too_long} with a source over src_max_len={hp.src_max_len}, "
            f"{counts.target_too_long} with a target over tgt_max_len={hp.tgt_max_len})."
        )


def _seed(hp: Hparams) -> int:
    return 1 if hp.random_seed is None else hp.random_seed
