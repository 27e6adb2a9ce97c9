"""Every setting, declared once: files, flags, checks, and TF-NMT's names for them."""

from aevnmt_tf.hparams.declarations import GROUPS, SETTINGS
from aevnmt_tf.hparams.merged_settings import Hparams, add_flags, from_args, load, overrides

__all__ = ["GROUPS", "SETTINGS", "Hparams", "add_flags", "from_args", "load", "overrides"]
