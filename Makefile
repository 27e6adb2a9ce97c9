# What people and CI call. tools/run makes the environment on first use; it needs Python and pip.
.PHONY: check format test test-slow docs

check:  ## lint, format and types
	tools/run ruff check .
	tools/run ruff format --check .
	tools/run mypy

format:  ## mend what ruff can mend
	tools/run ruff check --fix .
	tools/run ruff format .

test:  ## the fast tests
	tools/run pytest

test-slow:  ## learning, kills, several processes, C and the browser
	tools/run pytest -m slow

docs:  ## the pages as HTML; warnings are errors
	tools/run sphinx-build -q -W -b html docs docs/_build/html
