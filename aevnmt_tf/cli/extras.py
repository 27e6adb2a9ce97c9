"""Packages that only some commands need, and the extra of pyproject.toml that installs each."""

import importlib.util

EXTRAS = {
    "serve": (
        "starlette",
        "uvicorn",
        "grpc",
        "grpc_health",
        "grpc_reflection",
        "prometheus_client",
        "tensorflow_serving",
    ),
    "moses": ("sacremoses", "subword_nmt"),
    "plots": ("matplotlib",),
    "ray": ("ray",),
}


def is_installed(module: str) -> bool:
    """Return whether a module can be imported; it is not imported."""
    return importlib.util.find_spec(module) is not None


def advice(error: BaseException) -> str:
    """Return what to install where a module of an extra is missing; else nothing."""
    name = (getattr(error, "name", None) or "").partition(".")[0]
    for extra, modules in EXTRAS.items():
        if isinstance(error, ModuleNotFoundError) and name in modules:
            return f"this needs the package {name}: pip install 'aevnmt_tf[{extra}]'."
    return ""
