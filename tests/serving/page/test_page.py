"""The page in a real browser, with a real server behind it."""

import json
import re

import pytest

from tests.serving.page.driver import (
    OTHER,
    PREDICT,
    SENTENCE,
    alike,
    finished,
    focused,
    said,
    said_samples,
    shown_samples,
    translate,
    until_text,
)

pytestmark = pytest.mark.slow


def test_shows_what_the_server_says(server, visit):
    page = visit(server)
    translate(page, SENTENCE)
    best = said(server, "serving_default", source=[SENTENCE])["translation"]
    assert page.locator("#translation p").all_text_contents() == best
    nbest = said(server, "nbest", source=[SENTENCE])
    rows = page.locator("#nbest tbody tr")
    assert rows.count() == len(nbest["translations"][0]) == 3
    assert alike(rows.locator(".text").all_text_contents()) == alike(nbest["translations"][0])
    scores = [float(s.replace("−", "-")) for s in rows.locator(".score").all_text_contents()]
    assert scores == pytest.approx(nbest["scores"][0], abs=6e-4)
    assert scores == sorted(scores, reverse=True)
    assert shown_samples(page) == said_samples(server, SENTENCE, seed=1)
    state = page.locator("#model-state").text_content()
    assert "version 1" in state and "English to German" in state and "aevnmt" not in state
    assert page.get_by_role("heading", name="Posterior samples").is_visible()
    assert "latent posterior" in page.locator("#samples-note").text_content()


def test_heat_map_has_the_weights(server, visit):
    page = visit(server)
    translate(page, SENTENCE)
    outputs = {k: v[0] for k, v in said(server, "attention", source=[SENTENCE]).items()}
    heat = page.get_by_role("grid")
    assert heat.locator("thead th").all_text_contents() == outputs["source_pieces"]
    assert heat.locator("tbody th").all_text_contents() == outputs["target_pieces"]
    cells = heat.locator("td[data-x]")
    flat = [weight for row in outputs["attention"] for weight in row]
    strengths = cells.evaluate_all("cells => cells.map((c) => c.style.cssText)")
    assert [float(s.split(":")[1].strip(" ;")) for s in strengths] == pytest.approx(
        flat, abs=6e-4
    )
    # What is strongly looked at is darker than what is not.
    colours = cells.evaluate_all(
        "cells => cells.map((c) => getComputedStyle(c).backgroundImage)"
    )
    alphas = [alpha(colour) for colour in colours]
    assert alphas == pytest.approx(flat, abs=0.01)
    # The pointer shows a value, and takes it away.
    cells.nth(1).hover()
    value = f"{outputs['attention'][0][1]:.2f}"
    pieces = outputs["target_pieces"][0], outputs["source_pieces"][1]
    assert (
        page.locator(".readout").text_content() == f"{pieces[0]} looks at {pieces[1]}: {value}"
    )
    assert heat.locator("th.on").all_text_contents() == [pieces[1], pieces[0]]
    page.mouse.move(5, 5)
    assert "Point at a square" in page.locator(".readout").text_content()
    # The same as a table.
    page.get_by_text("As numbers").click()
    page.locator(".numbers tbody td").first.wait_for()
    numbers = page.locator(".numbers tbody td").all_text_contents()
    assert list(map(float, numbers)) == pytest.approx(flat, abs=6e-3)


def alpha(gradient):
    colour = re.search(r"rgba?\(([^)]*)\)", gradient).group(1)
    parts = re.split(r"[ ,/]+", colour)
    return float(parts[3]) if len(parts) > 3 else 1.0


def test_what_differs_is_underlined(server, visit):
    page = visit(server)
    best = "Das Haus, das rote, steht."
    others = [best, "Das Haus, das blaue, steht da.", "Nein!"]

    def handle(route):
        outputs = {
            "serving_default": {"translation": [best], "score": [0]},
            "nbest": {"translations": [others], "scores": [[0, -1, -2]]},
            "sample": [others],
        }.get(json.loads(route.request.post_data)["signature_name"])
        route.fulfill(json={"outputs": outputs}) if outputs else route.continue_()

    page.route(PREDICT, handle)
    translate(page, SENTENCE)
    for row in ("#nbest tr td.text", "#samples li"):
        assert page.locator(row).all_text_contents() == others
        underlined = page.locator(row).locator(".differs").all_text_contents()
        assert underlined == ["blaue", "da", "Nein", "!"]


def test_draw_again_changes_the_samples(server, visit):
    page = visit(server)
    translate(page, SENTENCE)
    first = shown_samples(page)
    page.get_by_role("button", name="Draw again").click()
    until_text(page, "#status", "seed 2")
    second = shown_samples(page)
    assert page.get_by_label("Seed").input_value() == "2"
    assert second != first
    assert second == said_samples(server, SENTENCE, seed=2)
    # The seed that was there gives what was there.
    page.get_by_label("Seed").fill("1")
    page.get_by_label("Seed").press("Enter")
    until_text(page, "#status", "seed 1")
    assert shown_samples(page) == first
    # Nonsense is the first seed again, and the largest is followed by it.
    page.get_by_label("Seed").fill("2147483647")
    page.get_by_role("button", name="Draw again").click()
    page.wait_for_function("() => document.querySelector('#seed').value === '1'")
    page.get_by_label("Seed").fill("-5")
    page.get_by_label("Seed").press("Enter")
    page.wait_for_function("() => document.querySelector('#seed').value === '1'")


def test_with_the_keyboard_alone(server, visit):
    page = visit(server)
    page.wait_for_function("() => document.activeElement.id === 'source'")
    until_text(page, "#model-state", "version 1")
    page.keyboard.type(f"{SENTENCE}")
    page.keyboard.press("Control+Enter")
    finished(page)
    assert focused(page) == "source"
    order = []
    for _ in range(5):
        page.keyboard.press("Tab")
        order.append(focused(page))
    assert order == ["translate", "copy", "seed", "again", "TD"]
    # Arrows move in the heat map, and stop at its edges.
    label = "document.activeElement.ariaLabel"
    attention = said(server, "attention", source=[SENTENCE])
    source, target = attention["source_pieces"][0], attention["target_pieces"][0]
    for key, (y, x) in [
        ("ArrowUp", (0, 0)),
        ("ArrowRight", (0, 1)),
        ("ArrowDown", (1, 1)),
        ("End", (1, len(source) - 1)),
        ("ArrowRight", (1, len(source) - 1)),
        ("Control+Home", (0, 0)),
        ("Control+End", (len(target) - 1, len(source) - 1)),
    ]:
        page.keyboard.press(key)
        weight = attention["attention"][0][y][x]
        assert page.evaluate(label) == f"{target[y]} looks at {source[x]}: {weight:.2f}"
        assert f"{weight:.2f}" in page.locator(".readout").text_content()
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"
    # One stop of the tab key for the whole map; the next opens the numbers.
    page.keyboard.press("Tab")
    assert focused(page) == "SUMMARY"
    page.keyboard.press("Enter")
    numbers = page.locator(".numbers tbody tr")
    numbers.nth(len(target) - 1).wait_for()  # they are filled in when they are opened
    assert numbers.count() == len(target)
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    assert focused(page) == "again"
    page.keyboard.press("Space")
    until_text(page, "#status", "seed 2")
    assert focused(page) == "again"


def test_results_are_announced(server, visit):
    page = visit(server)
    assert page.locator("#translation").get_attribute("aria-live") == "polite"
    translate(page, f"{SENTENCE}\n{OTHER}")
    assert page.locator("#status").text_content() == "2 lines translated"
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, textarea, section")]
            .filter((e) => !e.labels?.length && !e.textContent.trim()
                && !e.getAttribute("aria-labelledby")).map((e) => e.outerHTML)"""
    )
    assert unnamed == []


def test_several_lines(server, visit):
    page = visit(server)
    lines = [SENTENCE, OTHER, *(f"{word} tree" for word in ("one", "two", "three") * 6)]
    translate(page, f"\n  {lines[0]} \r\n\n" + "\n".join(lines[1:]) + "\n \n")
    best = said(server, "serving_default", source=lines)["translation"]
    shown = page.locator("#translation .to").all_text_contents()
    assert ["" if text == "(nothing)" else text for text in shown] == best
    assert page.locator("#details-of").text_content() == SENTENCE
    page.get_by_role("radio").first.focus()
    page.keyboard.press("ArrowDown")
    until_text(page, "#details-of", OTHER)
    finished(page)
    pieces = said(server, "attention", source=[OTHER])["source_pieces"][0]
    assert page.locator("thead th").all_text_contents()[-len(pieces) :] == pieces


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_can_be_read(server, visit, scheme):
    page = visit(server, color_scheme=scheme)
    translate(page, f"{SENTENCE}\n{OTHER}")
    colour = "getComputedStyle(document.body).backgroundColor"
    assert (luminance(page.evaluate(colour)) < 0.1) == (scheme == "dark")
    texts = page.evaluate(CONTRASTS)
    assert len(texts) > 20
    faint = [text for text, ink, ground in texts if contrast(ink, ground) < 4.5]
    assert faint == []


# The text, its colour and that of the nearest ground, of every element with text of its own.
# Disabled marks of subwords are an ornament.
CONTRASTS = """() => [...document.querySelectorAll("body *:not(.dim)")]
  .filter((e) => e.checkVisibility() && !e.closest(".visually-hidden")
    && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
  .map((e) => {
    let ground = e;
    while (getComputedStyle(ground).backgroundColor === "rgba(0, 0, 0, 0)")
      ground = ground.parentElement;
    return [e.textContent, getComputedStyle(e).color, getComputedStyle(ground).backgroundColor];
  })"""


def luminance(colour):
    red, green, blue = (int(part) / 255 for part in re.findall(r"\d+", colour)[:3])
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("width", [320, 390, 800])
def test_narrow_screens_scroll_down_only(server, visit, width):
    page = visit(server, viewport={"width": width, "height": 700}, has_touch=True)
    translate(page, f"{SENTENCE} {'long' * 30}\n{OTHER}")
    page.get_by_text("As numbers").click()
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) == 0
    if width < 400:
        boxes = [b.bounding_box() for b in page.get_by_role("button").all() if b.is_visible()]
        assert min(box["height"] for box in boxes) >= 40
