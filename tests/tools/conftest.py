"""The benchmarks as a user runs them, on a machine whose own speed is not measured."""

import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def benchmark_command(monkeypatch, capsys):
    """Call it with words: exit code, standard output and standard error."""
    monkeypatch.syspath_prepend(str(TOOLS))
    monkeypatch.delitem(sys.modules, "benchmark", raising=False)
    import benchmark
    from benchmarks import machine

    monkeypatch.setattr(machine, "gemm_gflops", lambda: 123.0)

    def call(*words):
        code = benchmark.main([*map(str, words)])
        return code, *capsys.readouterr()

    return call
