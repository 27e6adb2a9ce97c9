"""What the tests of the page do and look at."""

import re

SENTENCE = "red house and blue tree"
OTHER = "three blue house"
PREDICT = re.compile(r":predict$")

FINISHED = """() => {
    const find = (selector) => document.querySelector(selector);
    if (!find("#translation:not(:empty)[aria-busy=false]")) return false;
    if (find("#translation .message")) return true;
    const unfinished = "section[aria-busy=true], section .body:empty + .message[hidden]";
    return find("#details:not([hidden])") && !find(unfinished);
}"""


def translate(page, text):
    page.get_by_role("textbox", name="Source").fill(text)
    page.get_by_role("button", name="Translate").click()
    finished(page)


def finished(page):
    """Waits until all results are there, or an error."""
    page.wait_for_function(FINISHED)


def until_text(page, selector, text):
    """Waits until an element has this text in it."""
    page.locator(selector, has_text=text).wait_for(state="attached")


def focused(page):
    return page.evaluate("document.activeElement.id || document.activeElement.tagName")


def said(running, signature, **inputs):
    """What the server answers to the same question."""
    reply = running.predict({"signature_name": signature, "inputs": inputs})
    return reply.json()["outputs"]


def said_samples(running, sentence, *, seed):
    """Those of the server, each once."""
    return set(alike(said(running, "sample", source=[sentence], seed=[seed])[0]))


def shown_samples(page):
    """Those on the page."""
    return set(alike(page.locator("#samples li > span:first-child").all_text_contents()))


def alike(texts):
    """The page shows runs of spaces as one and says when there is nothing."""
    return [" ".join(text.split()).replace("(nothing)", "") for text in texts]
