"""Hamiltonian Monte Carlo and convergence diagnostics."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

SEGMENT = 50  # steps between two updates of the progress
MOST_LEAPFROGS = 100  # per trajectory
LARGEST_ENERGY = 1000.0  # a trajectory that gains more has diverged
ACCEPTANCE = 0.8  # target of the step size adaptation
LARGEST_R_HAT = 1.1

LogProb = Callable[[tf.Tensor], tf.Tensor]  # log density: [C, ...] -> [C] float32
Track = Callable[[range], Iterable[int]]


@dataclasses.dataclass(frozen=True)
class SamplerOptions:
    """Number and length of the chains."""

    chains: int
    num_warmup: int  # discarded steps; the step size is adapted in the first 80 %
    num_draws: int  # per chain
    seed: int
    track: Track = iter  # iterates over segments of the chains, and may show the progress


class Draws(NamedTuple):
    """Draws of the chains; the defaults are those of independent draws."""

    values: np.ndarray  # [S, C, ...]
    divergences: int = 0
    step_size: float | None = None
    acceptance: float = 1.0  # proportion of accepted trajectories
    leapfrogs: float = 0.0  # average number of gradients per draw
    seconds: float = 0.0


def sample(log_prob: LogProb, shape: Sequence[int], *, options: SamplerOptions) -> Draws:
    """Draw from a posterior that is close to a standard normal.

    `log_prob` is its log density up to a constant, and `shape` that of one draw.
    """
    started = time.monotonic()
    kernel = _kernel(log_prob, shape, options)
    # Overdispersed, so that R-hat can detect chains that have not mixed.
    starts = np.random.default_rng([options.seed, 1]).normal(size=[options.chains, *shape])
    state = tf.constant(2.0 * starts, tf.float32)
    results = kernel.bootstrap_results(state)
    advance = tf.function(lambda *inputs: _advance(kernel, *inputs), autograph=False)
    total = options.num_warmup + options.num_draws
    parts = []
    for segment in options.track(range(-(-total // SEGMENT))):
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


class RandomLength(tfp.mcmc.HamiltonianMonteCarlo):
    """Hamiltonian Monte Carlo with trajectories of random length.

    A trajectory of fixed length can return to its start. This length is uniform between one
    step and half the period of a standard normal. It does not depend on the state, so the
    posterior stays invariant.
    """

    def one_step(
        self, current_state: tf.Tensor, previous_kernel_results: Any, seed: Any = None
    ) -> tuple[tf.Tensor, Any]:
        """Return the next state and the kernel's results."""
        length_seed, seed = tf.unstack(tf.random.split(seed, 2))
        accepted = previous_kernel_results.accepted_results
        most = tf.clip_by_value(np.pi / accepted.step_size, 1.0, MOST_LEAPFROGS)
        share = tf.random.stateless_uniform([], length_seed)
        leapfrogs = 1 + tf.cast(share * most, tf.int32)
        accepted = accepted._replace(num_leapfrog_steps=leapfrogs)
        results = previous_kernel_results._replace(accepted_results=accepted)
        return super().one_step(current_state, results, seed=seed)


def _kernel(
    log_prob: LogProb, shape: Sequence[int], options: SamplerOptions
) -> tfp.mcmc.TransitionKernel:
    hmc = RandomLength(
        log_prob,
        step_size=tf.constant(int(np.prod(shape)) ** -0.25, tf.float32),
        num_leapfrog_steps=tf.constant(1),
        store_parameters_in_results=True,
    )
    return tfp.mcmc.DualAveragingStepSizeAdaptation(
        hmc,
        num_adaptation_steps=int(0.8 * options.num_warmup),
        target_accept_prob=ACCEPTANCE,
    )


def _advance(
    kernel: tfp.mcmc.TransitionKernel, state: tf.Tensor, results: Any, seed: tf.Tensor
) -> Any:
    """Return the values and traces of SEGMENT more steps, and the kernel's results."""

    def trace(_: tf.Tensor, results: Any) -> tuple[tf.Tensor, ...]:
        hmc = results.inner_results
        diverged = ~(hmc.log_accept_ratio > -LARGEST_ENERGY)  # or NaN
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
    """Convergence diagnostics, the worst over all parameters."""

    r_hat: float
    ess: float  # effective sample size


def diagnose(values: np.ndarray) -> Diagnostics:
    """Return R-hat and effective sample size of draws [S, C, ...], with S of at least 4.

    R-hat is TFP's potential_scale_reduction of split chains: the total variance divided by the
    variance within chains (others report its square root). It is infinite for chains that do
    not move.
    """
    # Centred, because floating-point numbers are most precise near zero.
    values = np.asarray(values, np.float64)
    values = tf.constant(values - values.mean(axis=(0, 1)))
    r_hat = tfp.mcmc.potential_scale_reduction(values, split_chains=True).numpy()
    ess = tfp.mcmc.effective_sample_size(
        values, filter_beyond_positive_pairs=True, cross_chain_dims=1
    ).numpy()
    worst = r_hat.max() if np.isfinite(r_hat).all() else np.inf
    # Antithetic draws estimate a mean better than independent ones, but the estimate from short
    # chains is far too high, up to a division by zero. The limit is Stan's.
    count = values.shape[0] * values.shape[1]
    limit = count * np.log10(count)
    ess = np.where(np.isnan(ess), 0.0, np.where((ess < 0) | (ess > limit), limit, ess))
    return Diagnostics(r_hat=float(worst), ess=float(ess.min()))
