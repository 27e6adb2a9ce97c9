"""How to search: which decision rule, which z, how many translations."""

import dataclasses

import tensorflow as tf

from aevnmt_tf import search
from aevnmt_tf.errors import UserError


@dataclasses.dataclass(frozen=True)
class Decoding:
    """How to search.

    Attributes:
        search: "beam", "greedy" or "sample".
        beam_width: how many hypotheses are alive in a beam.
        length_penalty_weight: w in score = log P(y|x, z) / ((5 + length) / 6) ** w.
        n_best: how many translations of each sentence.
        z: "mean" of r(z|x), or of q(z|x) where that is how z is predicted; "sample" from it;
            "zero", the prior's mean.
        num_z: with z "sample" how many draws for each sentence, whose translations compete.
            Samples have a z each.
        temperature: of sampling.
        top_k: sample among the k most probable words; 0: all.
        top_p: sample among the fewest words that have this much probability together.
        max_length: the longest translation; None: 2 x the source's length + 10.
        force_length: the length of every translation, for benchmarks; None: free.
    """

    search: str = "beam"
    beam_width: int = 10
    length_penalty_weight: float = 1.0
    n_best: int = 1
    z: str = "mean"
    num_z: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    max_length: int | None = None
    force_length: int | None = None

    @classmethod
    def of(cls, hp, **changes):
        """What the settings say, with changes."""
        kind = "beam" if hp.beam_width else "greedy"
        values = {
            "search": "sample" if hp.sampling_temperature > 0 else kind,
            "beam_width": hp.beam_width or 1,
            "length_penalty_weight": hp.length_penalty_weight,
            "n_best": hp.num_translations_per_input,
            "temperature": hp.sampling_temperature or 1.0,
            "max_length": hp.tgt_max_len_infer,
        }
        return cls(**{**values, **changes})

    def __post_init__(self):
        for name, choices in (
            ("search", ("beam", "greedy", "sample")),
            ("z", ("mean", "sample", "zero")),
        ):
            if getattr(self, name) not in choices:
                raise UserError(f"{name} must be {' or '.join(choices)}")
        if self.num_z > 1 and (self.z != "sample" or self.search == "sample"):
            raise UserError("num_z above 1 needs z sample, and beam or greedy search")
        found = {"beam": self.beam_width, "greedy": 1, "sample": self.n_best}[self.search]
        if not 1 <= self.n_best <= found * self.num_z:
            raise UserError(
                f"n_best {self.n_best} is more than {self.search} search finds: give a larger "
                "beam_width, or search sample"
            )

    @property
    def width(self):
        """How many hypotheses a search has alive."""
        if self.search == "sample":
            return self.n_best // self.draws
        return self.beam_width if self.search == "beam" else 1

    @property
    def draws(self):
        """How many times a sentence is searched, with a z of its own each time."""
        if self.z != "sample":
            return 1
        return self.n_best if self.search == "sample" else self.num_z

    def run(self, task, *, seeds):
        """The hypotheses [R, n_best / draws] of a search.Task, in graph."""
        penalty = {"length_penalty_weight": self.length_penalty_weight}
        if self.search == "greedy":
            return search.greedy(task, **penalty)
        if self.search == "beam":
            n_best = min(self.n_best, self.beam_width)
            return search.beam(task, width=self.beam_width, n_best=n_best, **penalty)
        return search.sample(
            task,
            seeds=seeds,
            num_samples=self.width,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            **penalty,
        )

    def limits(self, x_len):
        """How long translations of sources of x_len words may be; </s> counts in both: [B]."""
        if self.force_length is not None:
            return tf.fill(tf.shape(x_len), self.force_length)
        limits = 2 * (x_len - 1) + 10
        if self.max_length is not None:
            limits = tf.fill(tf.shape(x_len), self.max_length)
        return tf.where(x_len == 1, 1, limits)  # nothing to translate

    def pool(self, found):
        """The translations of all draws of z together: [B * draws, n] to [B, n_best]."""
        if self.draws == 1:
            return found
        count = self.draws * found.scores.shape[1]

        def together(values):
            return tf.reshape(values, tf.concat([[-1, count], tf.shape(values)[2:]], 0))

        pooled = search.Hypotheses(*(v if v is None else together(v) for v in found))
        if self.search == "sample":
            return pooled
        best = tf.math.top_k(pooled.scores, self.n_best).indices
        return search.Hypotheses(
            *(v if v is None else tf.gather(v, best, batch_dims=1) for v in pooled)
        )
