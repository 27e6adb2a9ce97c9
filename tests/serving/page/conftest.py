"""A browser, a server with a tiny model, and the page."""

import shutil

import pytest

from aevnmt_tf.serving import batching_file
from aevnmt_tf.serving import saved_model as exporting
from tests import tiny_export

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync".split()
FLAGS += ["--disable-background-networking", "--disable-component-update"]


# Of a module, not of the session: as long as it is open, playwright's event loop runs in this
# thread, and another test could not start one of its own.
@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        pytest.skip(f"there is none of {', '.join(CHROMIUM)} on the PATH")
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def server(browser, tmp_path_factory, start_server):
    """A server with a model that has everything; not started where there is no browser."""
    with start_server(tiny_export.shared(tmp_path_factory).export_dir) as running:
        yield running


@pytest.fixture(scope="module")
def cond_server(browser, tmp_path_factory, start_server):
    """A server with a model that has no z."""
    folder = tmp_path_factory.mktemp("cond")
    batching = batching_file.Batching(max_batch_size=1)
    exporting.export(tiny_export.make("cond"), folder, batching=batching)
    with start_server(folder) as running:
        yield running


@pytest.fixture
def visit(browser):
    """Opens the page of a server; what goes wrong in the browser is a failure in the end."""
    contexts, requests, problems = [], [], []
    origins = set()

    def opened(running, *, expected=None, before=None, **options):
        options = {"viewport": {"width": 1200, "height": 900}, **options}
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(90_000)  # the machine may be busy
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: problems.append(str(error)))

        def heard(message):
            if message.type == "error" and not (expected and expected in message.text):
                problems.append(message.text)

        page.on("console", heard)
        if before:
            before(page)
        origins.add(running.server.url)
        page.goto(running.server.url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not problems
    assert requests
    assert all(any(url.startswith(f"{origin}/") for origin in origins) for url in requests)
