"""A warning as soon as z has collapsed, with the settings that help.

What z tells about a sentence counts, not the KL: a posterior that is the same for every
sentence, but not the prior, pays a KL and tells nothing. The KL is the most that z can tell, so
that a small KL settles it, too.
"""

from aevnmt_tf.evaluation.latent_use import LITTLE
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.training import schedules
from aevnmt_tf.training.report_keys import Values


def warning(hp: Hparams, step: int, values: Values) -> str | None:
    """Return the warning that a report or an evaluation asks for, None without a reason.

    While the KL weight still grows, z may yet find its use: only a KL of nothing counts then.
    """
    kl = values.get("kl", values.get("dev_kl"))
    if not isinstance(kl, float):
        return None
    says = f"KL {kl:.2f} nats"
    found = kl < LITTLE
    if isinstance(values.get("dev_information"), float):
        says += (
            f", {values['dev_information']:.2f} nats of information,"
            f" {values['dev_active_units']} of {hp.z_dim} units active"
        )
        annealed = schedules.kl_weight(step, hp.KL_annealing_steps) >= 1.0
        found |= bool(values["dev_collapsed"]) and bool(annealed)
    return f"warning: z has collapsed ({says}); {_advice(hp)}" if found else None


def _advice(hp: Hparams) -> str:
    """Return the settings that may help, with their present values."""
    helps = (
        # Without annealing D(r, q) has its full weight before q has learnt anything.
        f"KL_annealing_steps (now {hp.KL_annealing_steps})",
        f"free_bits (now {hp.free_bits:g})",
        f"word_dropout (now {hp.word_dropout:g})",
    )
    return f"more of these may help: {', '.join(helps)}; or a smaller z_dim (now {hp.z_dim})"
