"""Optional dependencies, and the extra of pyproject.toml that installs each."""

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
    """Return whether a module is installed, without importing it."""
    return importlib.util.find_spec(module) is not None


def advice(error: ModuleNotFoundError) -> str:
    """Return what to install if the missing module belongs to an extra, or an empty string."""
    name = (error.name or "").partition(".")[0]
    for extra, modules in EXTRAS.items():
        if name in modules:
            return f"this needs the package {name}: pip install 'aevnmt_tf[{extra}]'."
    return ""
