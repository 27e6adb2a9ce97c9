"""The speed that others are compared with is that of the whole machine."""

import subprocess
import types

from tests.tools.conftest import TOOLS


def test_all_cores_count_where_an_operation_has_one(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    from benchmarks import machine

    asked = []

    def answer(command, *, env, **_):
        asked.append(env)
        return types.SimpleNamespace(stdout="170.5\n")

    monkeypatch.setattr(
        machine, "_gemm_gflops", lambda columns: {8192: 80.0, 8000: 85.0}[columns]
    )
    monkeypatch.setattr(subprocess, "run", answer)
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    assert machine.gemm_gflops() == 85.0 and not asked
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "1")
    assert machine.gemm_gflops() == 170.5
    assert "TF_NUM_INTRAOP_THREADS" not in asked[0] and "PATH" in asked[0]
