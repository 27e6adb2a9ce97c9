"""The table of settings."""

import pytest

from aevnmt_tf import hparams
from aevnmt_tf.hparams import tf_nmt_names


@pytest.mark.parametrize("setting", hparams.SETTINGS.values(), ids=lambda s: s.name)
def test_a_declaration_is_complete_and_its_default_valid(setting):
    assert setting.check(setting.default) == setting.default
    assert setting.help and setting.help[0] != " " and "  " not in setting.help


def test_names_are_declared_once():
    names = [setting.name for group in hparams.GROUPS.values() for setting in group]
    assert len(names) == len(set(names)) == len(hparams.SETTINGS)
    assert not set(names) & (set(tf_nmt_names.IGNORED) | set(tf_nmt_names.ALIASES))
