"""The page when something is missing or goes wrong."""

import json
import re

import pytest

from tests.serving.page.driver import (
    OTHER,
    PREDICT,
    SENTENCE,
    finished,
    focused,
    said_samples,
    shown_samples,
    translate,
    until_text,
)

pytestmark = pytest.mark.slow

# What the browser itself says of a reply that is an error.
LOAD = "Failed to load resource"


# What can go wrong.


def predict_with(page, handler):
    page.route(PREDICT, handler)


def test_an_empty_sentence(server, visit):
    page = visit(server)
    page.get_by_role("textbox", name="Source").fill(" \n ")
    page.get_by_role("button", name="Translate").click()
    assert page.locator("#source-error").text_content() == "Type a sentence first."
    assert page.locator("#source").get_attribute("aria-invalid") == "true"
    assert focused(page) == "source"
    page.keyboard.type("a")
    assert page.locator("#source-error").text_content() == ""
    assert page.locator("#source").get_attribute("aria-invalid") is None
    assert page.locator("#translation").text_content() == ""


def test_a_full_queue(server, visit):
    page = visit(server, expected=LOAD)
    full = {"status": 429, "headers": {"Retry-After": "7"}, "body": '{"error": "full"}'}
    predict_with(page, lambda route: route.fulfill(**full))
    translate(page, SENTENCE)
    message = page.locator("#translation .message")
    assert "its queue is full. Try again in 7 s." in message.text_content()
    assert message.get_attribute("role") == "alert"
    assert not page.locator("#details").is_visible()
    page.unroute(PREDICT)
    message.get_by_role("button", name="Try again").click()
    page.wait_for_selector("#attention td[data-x]")
    assert page.locator("#translation .message").count() == 0


def test_a_detail_that_fails_alone(server, visit):
    page = visit(server, expected=LOAD)

    def handle(route):
        if json.loads(route.request.post_data)["signature_name"] == "nbest":
            route.fulfill(status=500, body='{"error": "<b>broken</b>"}')
        else:
            route.continue_()

    predict_with(page, handle)
    translate(page, SENTENCE)
    assert "The server failed: <b>broken</b>" in page.locator("#nbest .message").text_content()
    assert page.locator("#attention td[data-x]").count() and page.locator("#samples li").count()
    page.unroute(PREDICT)
    page.locator("#nbest").get_by_role("button", name="Try again").click()
    page.wait_for_selector("#nbest tbody tr")
    assert focused(page) == "nbest"


def test_a_server_that_stops_and_comes_back(server, visit):
    page = visit(server, expected="ERR_FAILED")
    page.get_by_role("textbox", name="Source").fill(SENTENCE)
    until_text(page, "#model-state", "version 1")
    page.route("**/v1/**", lambda route: route.abort())
    page.keyboard.press("Control+Enter")
    message = page.locator("#translation .message")
    message.wait_for()
    assert "The server does not answer" in message.text_content()
    # The same while the page is being opened.
    page.reload()
    banner = page.locator("#banner")
    banner.wait_for()
    assert "The server does not answer" in banner.text_content()
    assert page.locator("#model-state").text_content() == "not connected"
    page.unroute("**/v1/**")
    banner.get_by_role("button", name="Try again").click()
    until_text(page, "#model-state", "version 1")
    assert not banner.is_visible()
    translate(page, SENTENCE)
    assert page.locator("#nbest tbody tr").count() == 3


def test_a_line_that_the_server_refuses(server, visit):
    page = visit(server, expected=LOAD)
    page.get_by_role("textbox", name="Source").fill("a" * 20_001)
    page.get_by_role("button", name="Translate").click()
    message = page.locator("#translation .message")
    message.wait_for()
    assert re.search("refused this: .*20000 bytes, not 20001", message.text_content())


def test_stop(server, visit):
    page = visit(server)
    held = []
    predict_with(page, lambda route: held.append(route))
    page.get_by_role("textbox", name="Source").fill(SENTENCE)
    with page.expect_request(PREDICT):
        page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Stop").wait_for()
    assert page.locator("#translation").get_attribute("aria-busy") == "true"
    assert page.get_by_role("button", name="Translating").is_visible()
    page.keyboard.press("Control+Enter")  # is under way already
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Translate", exact=True).wait_for()
    assert not page.get_by_role("button", name="Stop").is_visible()
    assert page.locator("#translation").text_content() == ""
    assert len(held) == 1


def test_stop_before_the_model_is_asked(server, visit):
    page = visit(server)
    translate(page, OTHER)  # so that the model is known
    asked, states = [], []
    predict_with(page, lambda route: asked.append(route))
    state = re.compile("/v1/models/aevnmt$")
    page.route(state, lambda route: states.append(route))
    page.get_by_role("textbox", name="Source").fill(SENTENCE)
    with page.expect_request(state):
        page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Stop").wait_for()
    page.keyboard.press("Escape")
    states[0].continue_()
    page.get_by_role("button", name="Translate", exact=True).wait_for()
    assert not asked


def test_text_of_the_server_is_text(server, visit):
    page = visit(server)
    evil = "<img src=x onerror=alert(1)><b>bold</b>"

    def handle(route):
        name = json.loads(route.request.post_data)["signature_name"]
        outputs = {
            "serving_default": {"translation": [evil], "score": [0]},
            "nbest": {"translations": [[evil, evil, ""]], "scores": [[0, -1, None]]},
            "sample": [[evil, "", evil]],
            "attention": {
                "translation": [evil],
                "source_pieces": [[evil, "x@@", ""]],
                "target_pieces": [[evil, ""]],
                "attention": [[[0.25, 0.75, 0], [0, 0, 0]]],
            },
        }[name]
        route.fulfill(body=json.dumps({"outputs": outputs}))

    predict_with(page, handle)
    translate(page, "<i>x</i>\n<script>alert(1)</script>")
    finished(page)
    page.get_by_text("As numbers").click()
    assert page.locator("main img, main b, main script, main i:not(.legend i)").count() == 0
    # Padding is left out, equal samples are counted, a translation that is not there is not.
    assert page.locator("#attention .heat td[data-x]").count() == 2
    assert page.locator("#nbest tbody tr").count() == 2
    assert page.locator("#samples li").all_text_contents() == [f"{evil} × 2", "(nothing)"]


# Models that cannot do everything.


def test_a_model_without_z(cond_server, visit):
    page = visit(cond_server)
    translate(page, SENTENCE)
    assert page.locator("#samples-title").text_content() == "Samples"
    assert "no latent variable" in page.locator("#samples-note").text_content()
    assert shown_samples(page) == said_samples(cond_server, SENTENCE, seed=1)


def test_absent_signatures_are_explained(server, visit):
    def before(page):
        def handle(route):
            document = route.fetch().json()
            signatures = document["metadata"]["signature_def"]["signature_def"]
            for name in ("nbest", "sample", "attention"):
                del signatures[name]
            route.fulfill(json=document)

        page.route("**/metadata", handle)

    page = visit(server, before=before)
    translate(page, SENTENCE)
    for section in ("nbest", "samples", "attention"):
        assert "exported without" in page.locator(f"#{section} .body").text_content()
    assert not page.get_by_role("button", name="Draw again").is_visible()
    assert not page.locator(".legend").is_visible()


def test_several_models(server, visit):
    def before(page):
        names = {"models": ["aevnmt", "other"]}
        page.route("**/v1/models", lambda route: route.fulfill(json=names))

    page = visit(server, before=before, expected=LOAD)
    until_text(page, "#model-state", "version 1")
    page.get_by_label("Model").select_option("other")
    banner = page.locator("#banner")
    banner.wait_for()
    assert "refused this" in banner.text_content() and "other" in banner.text_content()
    page.get_by_label("Model").select_option("aevnmt")
    banner.wait_for(state="hidden")
    translate(page, SENTENCE)
    assert page.locator("#nbest tbody tr").count() == 3


def test_a_new_version(server, visit):
    page = visit(server)
    translate(page, SENTENCE)

    def handle(route):
        status = {"version": "7", "state": "AVAILABLE"}
        route.fulfill(json={"model_version_status": [{**status, "version": "3"}, status]})

    page.route(re.compile("/v1/models/aevnmt$"), handle)
    translate(page, OTHER)
    assert page.locator("#model-state").text_content().endswith("version 7")
