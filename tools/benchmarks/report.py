"""How a benchmark's numbers are shown: a table, or JSON for programs."""

import json


def show(results: dict, *, as_json: bool) -> None:
    """Prints results, which may be nested once."""
    if as_json:
        print(json.dumps(results, indent=2))
        return
    rows = []
    for name, value in results.items():
        if isinstance(value, dict):
            rows += [(f"{name}: {inner}", inner_value) for inner, inner_value in value.items()]
        else:
            rows.append((name, value))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name.replace('_', ' '):{width}}  {_shown(value)}")


def _shown(value) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list):
        return " ".join(map(_cell, value)) or "none"
    return _cell(value)


def _cell(value) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {inner}" for name, inner in value.items())
    return "x".join(map(str, value)) if isinstance(value, list) else str(value)
