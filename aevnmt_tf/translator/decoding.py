"""How to search: which decision rule, which z, how many translations."""

import dataclasses
from typing import Any

import tensorflow as tf

from aevnmt_tf import search
from aevnmt_tf.errors import UserError

CHOICES = {
    "search": ("beam", "greedy", "sample", "mbr", "refine"),
    "z": ("mean", "sample", "zero"),
    "utility": ("chrf", "bleu"),
    "refine_start": ("prior", "r"),
}
DRAWS_Z = ("mbr", "refine")  # decision rules that are about draws of z
# What matters to some rules alone.
MEANT_FOR = {
    "length_penalty_weight": ("beam", "greedy", "sample", "refine"),
    "beam_width": ("beam", "refine"),
    "sampling_temperature": ("sample", "mbr"),
    "num_samples": ("mbr",),
    "utility": ("mbr",),
    "refine_steps": ("refine",),
    "refine_start": ("refine",),
    "top_k": ("sample", "mbr"),
    "top_p": ("sample", "mbr"),
    "temperature": ("sample", "mbr"),
}


@dataclasses.dataclass(frozen=True)
class Decoding:
    """How to search.

    Attributes:
        search: "beam", "greedy" or "sample"; "mbr" chooses among samples, see mbr.py; "refine"
            searches by beam again and again, see refine.py.
        beam_width: how many hypotheses are alive in a beam.
        length_penalty_weight: w in score = log P(y|x, z) / ((5 + length) / 6) ** w.
        n_best: how many translations of each sentence.
        z: "mean" of r(z|x), or of q(z|x) where that is how z is predicted; "sample" from it;
            "zero", the prior's mean. None: "sample" for mbr and refine, else "mean".
        num_z: with z "sample" how many draws for each sentence, whose translations compete;
            of equal ones the best stays. Samples have a z each.
        num_samples: among how many samples mbr chooses.
        utility: by which sentence score mbr chooses: "chrf" or "bleu".
        refine_steps: how many times refine decodes again after its draft.
        refine_start: where refine has its first z from: "prior", or "r", which is r(z|x).
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
    z: str | None = None
    num_z: int = 1
    num_samples: int = 30
    utility: str = "chrf"
    refine_steps: int = 2
    refine_start: str = "prior"
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    max_length: int | None = None
    force_length: int | None = None

    @classmethod
    def of(cls, hp, *, given=None, **changes):
        """What the settings say, with changes; one that would do nothing is refused.

        So is what was `given` for this search of the settings. 0 turns a rule's setting off.
        """
        wants_beam = changes.get("search") in ("beam", "refine") and "beam_width" not in changes
        if hp.sampling_temperature > 0 and wants_beam:
            raise UserError(
                f"{changes['search']} search has no sampling_temperature, which is "
                f"{hp.sampling_temperature:g} here: give beam_width in its place"
            )
        kind = "beam" if hp.beam_width else "greedy"
        values = {
            "search": "sample" if hp.sampling_temperature > 0 else kind,
            "beam_width": hp.beam_width or 1,
            "length_penalty_weight": hp.length_penalty_weight,
            "n_best": hp.num_translations_per_input,
            "temperature": hp.sampling_temperature or 1.0,
            "max_length": hp.tgt_max_len_infer,
        }
        found = cls(**{**values, **changes})
        given = given or {}
        for name in ("beam_width", "sampling_temperature"):
            if given.get(name) == 0 and found.search in MEANT_FOR[name]:
                raise UserError(
                    f"{name} 0 means no {found.search} search: give one above 0, or no search"
                )
        for name in (*(name for name, value in given.items() if value), *changes):
            rules = MEANT_FOR.get(name, (found.search,))
            if found.search not in rules:
                raise UserError(
                    f"{name} is for {' or '.join(rules)} search, and this is {found.search} "
                    f"search: give search {rules[0]}, or leave {name} out"
                )
        return found

    def __post_init__(self):
        if self.z is None:
            object.__setattr__(self, "z", "sample" if self.search in DRAWS_Z else "mean")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise UserError(f"{name} must be {' or '.join(choices)}")
        if self.num_z > 1 and (self.z != "sample" or self.search in ("sample", "mbr")):
            raise UserError("num_z above 1 needs z sample, and beam, greedy or refine search")
        if self.search == "refine" and self.z == "zero":
            raise UserError("refine search finds a better z: give z sample or z mean, not zero")
        if self.num_samples < 1 or self.refine_steps < 0:
            raise UserError("num_samples must be at least 1, and refine_steps at least 0")
        found = {"greedy": 1, "sample": self.n_best, "mbr": self.num_samples}
        if not 1 <= self.n_best <= found.get(self.search, self.beam_width) * self.num_z:
            larger = "num_samples" if self.search == "mbr" else "beam_width"
            raise UserError(
                f"n_best {self.n_best} is more than {self.search} search finds: give a larger "
                f"{larger}, or search sample"
            )

    @property
    def candidates(self):
        """The search inside the graph: of samples for mbr, which chooses outside of it."""
        if self.search != "mbr":
            return self
        # What matters to the choice alone goes back to its default: one trace for all of it.
        choice = {"num_samples": Decoding.num_samples, "utility": Decoding.utility}
        return dataclasses.replace(self, search="sample", n_best=self.num_samples, **choice)

    @property
    def width(self):
        """How many hypotheses a search has alive."""
        if self.search == "sample":
            return self.n_best // self.draws
        return 1 if self.search == "greedy" else self.beam_width

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
        if self.search in ("beam", "refine"):
            n_best = min(self.n_best, self.beam_width)
            return search.beam(task, width=self.beam_width, n_best=n_best, **penalty)
        if self.search == "mbr":
            raise ValueError("mbr chooses outside of the graph: run the search of `candidates`")
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
        # DEVIATION: TF-NMT stops a whole batch at twice the length of its longest source.
        limits = 2 * (x_len - 1) + 10
        if self.max_length is not None:
            limits = tf.fill(tf.shape(x_len), self.max_length)
        return tf.where(x_len == 1, 1, limits)  # nothing to translate

    def pool(self, found, z):
        """The translations of all draws of z together, and the z of each.

        Args:
            found: search.Hypotheses [B * draws, n].
            z: a nest of [B * draws, Z] and None.

        Returns:
            search.Hypotheses [B, n_best] and the nest of [B, n_best, Z].
        """
        each = found.scores.shape[1]
        z = _map(lambda v: tf.repeat(v[:, None], each, axis=1), z)
        if self.draws == 1:
            return found, z

        def together(values):
            shape = tf.concat([[-1, self.draws * each], tf.shape(values)[2:]], 0)
            return tf.reshape(values, shape)

        pooled, z = _map(together, (found, z))
        if self.search == "sample":
            return pooled, z
        pooled = _without_copies(pooled)
        best = tf.math.top_k(pooled.scores, self.n_best).indices
        return _map(lambda v: tf.gather(v, best, batch_dims=1), (pooled, z))


def _without_copies(found):
    """Hypotheses [B, M] of which each sentence is kept once, where it has its highest score."""
    same = tf.reduce_all(found.ids[:, :, None] == found.ids[:, None], -1)  # [B, M, M]
    mine, others = found.scores[:, :, None], found.scores[:, None]
    place = tf.range(tf.shape(found.scores)[1])
    is_first = place[:, None] > place  # decides among equals
    is_copy = tf.reduce_any(same & ((others > mine) | ((others == mine) & is_first)), -1)
    return found._replace(
        scores=tf.where(is_copy, search.MINUS_INFINITY, found.scores),
        log_probs=tf.where(is_copy, search.MINUS_INFINITY, found.log_probs),
        lengths=tf.where(is_copy, 0, found.lengths),  # no hypothesis
    )


def _map(function, nest) -> Any:
    """What function makes of the tensors of a nest; None stays."""
    return tf.nest.map_structure(lambda v: None if v is None else function(v), nest)
