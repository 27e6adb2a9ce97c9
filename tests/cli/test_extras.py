"""Commands that need a package of an extra say which one."""

import argparse

import pytest

from aevnmt_tf.cli import command, extras


@pytest.mark.parametrize("module", ["uvicorn", "grpc_health.v1", "matplotlib.pyplot"])
def test_a_missing_package_is_one_sentence(capsys, module):
    def run(args):
        raise ModuleNotFoundError(f"No module named '{module}'", name=module)

    assert command.main(run, parser=argparse.ArgumentParser("x"), argv=[]) == 2
    words = capsys.readouterr().err
    extra = next(name for name, names in extras.EXTRAS.items() if module.split(".")[0] in names)
    assert words.count("\n") == 1 and f"aevnmt_tf[{extra}]" in words


def test_other_missing_modules_are_bugs():
    def run(args):
        raise ModuleNotFoundError("No module named 'nonsense'", name="nonsense")

    with pytest.raises(ModuleNotFoundError):
        command.main(run, parser=argparse.ArgumentParser("x"), argv=[])


def test_a_server_does_not_keep_freed_memory(monkeypatch):
    calls = []
    monkeypatch.setattr(command, "keep_freed_memory", lambda: calls.append(1))
    for keep in (False, True):
        command.main(
            lambda args: 0, parser=argparse.ArgumentParser("x"), argv=[], keep_memory=keep
        )
    assert calls == [1]
