"""Draws from a posterior by Hamiltonian Monte Carlo, and whether to trust them."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

SEGMENT = 50  # steps of the chains between two looks at the progress
MOST_LEAPFROGS = 100  # of a trajectory
LARGEST_ENERGY = 1000.0  # that a trajectory may gain before it has left the posterior
ACCEPTANCE = 0.8  # what the step size is adapted to
LARGEST_R_HAT = 1.1

LogProb = Callable[[tf.Tensor], tf.Tensor]  # log density: [C, ...] -> [C] float32
Track = Callable[[range], Iterable[int]]


@dataclasses.dataclass(frozen=True)
class SamplerOptions:
    """How long the chains run.

    Attributes:
        chains: how many, side by side.
        num_warmup: steps that are thrown away; the step size is adapted in the first 80 %.
        num_draws: steps that are kept, of each chain.
        seed: of the starts and of all steps.
    """

    chains: int
    num_warmup: int
    num_draws: int
    seed: int


class Draws(NamedTuple):
    """What the chains gave; without chains, independent draws."""

    values: np.ndarray  # [S, C, ...]
    divergences: int = 0  # draws whose trajectory left the posterior
    step_size: float | None = None
    acceptance: float = 1.0  # which share of the trajectories was accepted
    leapfrogs: float = 0.0  # gradients per draw, on average
    seconds: float = 0.0


def sample(
    log_prob: LogProb, shape: Sequence[int], *, options: SamplerOptions, track: Track = iter
) -> Draws:
    """Draw from a posterior that is near a standard normal.

    Args:
        log_prob: log density, but for a constant.
        shape: of one draw.
        options: how long the chains run.
        track: goes through the parts of the work and may show how far it is.

    Returns:
        Draws with values [num_draws, chains, *shape].
    """
    started = time.monotonic()
    kernel = _kernel(log_prob, shape, options)
    # Far from each other, so that R-hat can tell whether they have met.
    starts = np.random.default_rng([options.seed, 1]).normal(size=[options.chains, *shape])
    state = tf.constant(2.0 * starts, tf.float32)
    results = kernel.bootstrap_results(state)
    advance = tf.function(lambda *inputs: _advance(kernel, *inputs), autograph=False)
    total = options.num_warmup + options.num_draws
    parts = []
    for segment in track(range(-(-total // SEGMENT))):
        seed = tf.constant([options.seed, segment], tf.int32)
        values, trace, results = advance(state, results, seed)
        state = values[-1]
        parts.append([part.numpy() for part in (values, *trace)])
    kept = slice(options.num_warmup, total)
    joined = (np.concatenate(part)[kept] for part in zip(*parts, strict=True))
    values, step_sizes, leapfrogs, accepted, diverged = joined
    return Draws(
        values=values,
        step_size=float(step_sizes[-1]),
        acceptance=float(accepted.mean()),
        leapfrogs=float(leapfrogs.mean()),
        divergences=int(diverged.sum()),
        seconds=time.monotonic() - started,
    )


class RandomLength(tfp.mcmc.TransitionKernel):
    """Hamiltonian Monte Carlo whose trajectories have a random length.

    A trajectory of fixed length can come back to where it started. This one is between one step
    and half the period of a standard normal, drawn without a look at the state, so that each
    step still leaves the posterior as it is.

    Args:
        inner_kernel: HamiltonianMonteCarlo with its parameters in its results.
    """

    def __init__(self, inner_kernel: tfp.mcmc.HamiltonianMonteCarlo) -> None:
        self._inner = inner_kernel

    @property
    def parameters(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {"inner_kernel": self._inner}

    @property
    def is_calibrated(self) -> bool:
        """Whether the posterior is what is left alone."""
        return self._inner.is_calibrated

    def bootstrap_results(self, init_state: tf.Tensor) -> Any:
        """Return the state of the kernel before the first step."""
        return self._inner.bootstrap_results(init_state)

    def one_step(
        self, current_state: tf.Tensor, previous_kernel_results: Any, seed: Any = None
    ) -> tuple[tf.Tensor, Any]:
        """Return the end of a trajectory, if it is accepted, and the kernel's results."""
        length_seed, seed = tf.unstack(tf.random.split(seed, 2))
        accepted = previous_kernel_results.accepted_results
        most = tf.clip_by_value(np.pi / accepted.step_size, 1.0, MOST_LEAPFROGS)
        share = tf.random.stateless_uniform([], length_seed)
        leapfrogs = 1 + tf.cast(share * most, tf.int32)
        accepted = accepted._replace(num_leapfrog_steps=leapfrogs)
        results = previous_kernel_results._replace(accepted_results=accepted)
        return self._inner.one_step(current_state, results, seed=seed)


def _kernel(
    log_prob: LogProb, shape: Sequence[int], options: SamplerOptions
) -> tfp.mcmc.TransitionKernel:
    size = int(np.prod(shape))
    hmc = tfp.mcmc.HamiltonianMonteCarlo(
        log_prob,
        step_size=tf.constant(size**-0.25, tf.float32),
        num_leapfrog_steps=tf.constant(1),
        store_parameters_in_results=True,
    )
    return tfp.mcmc.DualAveragingStepSizeAdaptation(
        RandomLength(hmc),
        num_adaptation_steps=int(0.8 * options.num_warmup),
        target_accept_prob=ACCEPTANCE,
    )


def _advance(
    kernel: tfp.mcmc.TransitionKernel, state: tf.Tensor, results: Any, seed: tf.Tensor
) -> Any:
    """Return the values of SEGMENT more steps, a trace of each, and the kernel's results."""

    def trace(_: tf.Tensor, results: Any) -> tuple[tf.Tensor, ...]:
        hmc = results.inner_results
        diverged = ~(hmc.log_accept_ratio > -LARGEST_ENERGY)  # or not a number
        length = hmc.proposed_results.num_leapfrog_steps
        return results.new_step_size, length, hmc.is_accepted, diverged

    return tfp.mcmc.sample_chain(
        SEGMENT,
        current_state=state,
        previous_kernel_results=results,
        kernel=kernel,
        trace_fn=trace,
        return_final_kernel_results=True,
        seed=seed,
    )


class Diagnostics(NamedTuple):
    """Whether chains agree: the worst of all parameters."""

    r_hat: float
    ess: float  # effective sample size


def diagnose(values: np.ndarray) -> Diagnostics:
    """Return R-hat and effective sample size of draws [S, C, ...], four or more of each chain.

    R-hat is TFP's potential_scale_reduction of halves of chains: the variance over all draws by
    the one within chains (others report its square root). Chains that do not move at all have
    an infinite one.
    """
    # Around their mean, where numbers have most digits.
    values = np.asarray(values, np.float64)
    values = tf.constant(values - values.mean(axis=(0, 1)))
    r_hat = tfp.mcmc.potential_scale_reduction(values, split_chains=True).numpy()
    ess = tfp.mcmc.effective_sample_size(
        values, filter_beyond_positive_pairs=True, cross_chain_dims=1
    ).numpy()
    worst = r_hat.max() if np.isfinite(r_hat).all() else np.inf
    # Draws that swing to and fro estimate a mean better than independent ones, but short chains
    # overdo it, up to a division by nothing: the limit is Stan's.
    count = values.shape[0] * values.shape[1]
    limit = count * np.log10(count)
    ess = np.where(np.isnan(ess), 0.0, np.where((ess < 0) | (ess > limit), limit, ess))
    return Diagnostics(r_hat=float(worst), ess=float(ess.min()))
