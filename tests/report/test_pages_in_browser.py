"""Pages in a real browser: Chromium, headless, driven by Playwright (`pip install coterie[browser]`)."""

import json
from pathlib import Path
from typing import Any

import pytest
from pages_for_browser import Opened, browser, each_variant, files
from sample_page import EVIL

__all__ = ["browser", "files"]  # fixtures

pytestmark = pytest.mark.slow

THEMES, WIDTHS = ("light", "dark"), (400, 1400)
NAMES = (
    *("sample", "runs", "pruned", "unfinished", "curriculum", "hostile"),
    *("comparison", "sweep", "sweep of two", "reproduction", "inspection"),
)


@pytest.mark.parametrize("name", NAMES)
def test_no_error_no_request_and_every_chart_drawn(browser: Any, files: dict[str, Path], name: str) -> None:
    with Opened(browser, files[name]) as page:
        for radio in page.tab.locator(".switch input").all():  # every variant is shown once
            radio.check()
        drawn = page.tab.eval_on_selector_all(
            ".plot", "plots => plots.map(p => p.dataset.drawn === 'yes' && p.querySelectorAll('svg *').length > 3)"
        )
        assert drawn
        assert all(drawn)
        assert page.said == []
        assert [url for url in page.asked if not url.startswith("data:")] == [files[name].as_uri()]
        numbers = page.tab.eval_on_selector_all(
            ".plot svg *", "nodes => nodes.flatMap(n => [...n.attributes].map(a => a.value))"
        )
        assert not [number for number in numbers if "NaN" in number or "undefined" in number or "Infinity" in number]
        page.tab.eval_on_selector_all(  # where "a NaN" is what a client sent
            "section", "all => all.filter(s => s.querySelector('h2').textContent === 'Events').forEach(s => s.remove())"
        )
        words = page.tab.inner_text("body")
        assert not {"NaN", "undefined", "null", "Infinity"} & {word.strip(",.:;()") for word in words.split()}


def test_names_never_become_code(browser: Any, files: dict[str, Path]) -> None:
    with Opened(browser, files["sample"]) as page:
        assert page.tab.title() == f"All charts {EVIL}"
        assert page.tab.locator("script").count() == 2
        assert page.tab.inner_text("h1") == f"All charts {EVIL}"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wider_than_the_window(browser: Any, files: dict[str, Path], name: str, width: int) -> None:
    with Opened(browser, files[name], width) as page:
        page.tab.eval_on_selector_all("details", "all => all.forEach(d => { d.open = true; })")
        for _ in each_variant(page, at_most=3):
            assert page.tab.evaluate("document.documentElement.scrollWidth") == width
            cut = page.tab.evaluate(
                """() => [...document.querySelectorAll('.plot svg')].filter(s => s.clientWidth > 0).flatMap(svg => {
                    const frame = svg.getBoundingClientRect();
                    return [...svg.querySelectorAll('text')].filter(text => {
                        const box = text.getBoundingClientRect();
                        const aside = box.left < frame.left - 3 || box.right > frame.right + 3;
                        return aside || box.bottom > frame.bottom + 3;
                    }).map(text => text.textContent + ' of ' + svg.getAttribute('aria-label').slice(0, 40));
                })"""
            )
            assert cut == []


CONTRAST = """() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => [r, g, b].map(v => linear(v / 255))
    .reduce((sum, v, k) => sum + v * [.2126, .7152, .0722][k], 0);
  const behind = node => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > .99) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.getClientRects().length || ['SCRIPT', 'STYLE', 'NOSCRIPT'].includes(node.tagName)) continue;
    if (node instanceof SVGElement && node.style.fill) continue;  // in a cell of a map: CELLS looks at these
    const style = getComputedStyle(node), svg = node instanceof SVGElement;
    const [a, b] = [light(parse(svg ? style.fill : style.color)), light(behind(svg ? node.closest('.plot') : node))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const what = `${node.tagName} ${node.className.baseVal ?? node.className}: ${node.textContent.slice(0, 30)}`;
    found.push([ratio, large ? 3 : 4.5, what]);
  }
  return found;
}"""


def unreadable(page: Any, fewest: int) -> list[str]:
    """What has less contrast than WCAG asks for at level AA: 4.5 to 1, large letters 3 to 1."""
    measured = page.tab.evaluate(CONTRAST)
    assert len(measured) > fewest
    return [what for ratio, needed, what in measured if ratio < needed]


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", NAMES)
def test_contrast(browser: Any, files: dict[str, Path], name: str, theme: str) -> None:
    with Opened(browser, files[name], theme=theme) as page:
        page.tab.eval_on_selector_all("details", "all => all.forEach(d => { d.open = true; })")
        for _ in each_variant(page):
            assert unreadable(page, 60) == []


@pytest.mark.parametrize("theme", THEMES)
def test_contrast_by_the_control_of_struck_out_names_and_of_tips(
    browser: Any, files: dict[str, Path], theme: str
) -> None:
    other = {"light": "dark", "dark": "light"}[theme]
    with Opened(browser, files["sample"], theme=other) as page:
        page.tab.check(f"input[name=theme][value={theme}]")
        dark = page.tab.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        assert dark == (theme == "dark")
        page.tab.locator(".legend button").first.click()
        page.tab.locator(".plot svg").first.focus()
        page.tab.keyboard.press("ArrowRight")
        assert unreadable(page, 300) == []


@pytest.mark.parametrize("name", ["inspection", "hostile", "curriculum", "comparison", "sweep", "reproduction"])
def test_every_switch_by_mouse_and_by_keyboard(browser: Any, files: dict[str, Path], name: str) -> None:
    with Opened(browser, files[name]) as page:
        for switch in page.tab.locator(".switch").all():
            radios, shown = switch.locator("input").all(), switch.locator(".variant:visible h3")
            names = [heading.text_content() for heading in switch.locator(".variant h3").all()]
            assert len(names) == len(radios)
            for radio, wanted in zip(radios, names, strict=True):  # a name may stand more than once
                radio.click()
                assert shown.all_inner_texts() == [wanted]
            radios[0].focus()
            page.tab.keyboard.press("Space")
            for wanted in [*names[1:], names[0]]:  # after the last comes the first again
                page.tab.keyboard.press("ArrowRight")
                assert shown.all_inner_texts() == [wanted]


def test_events_say_who_sent_nonsense_and_who_is_out(browser: Any, files: dict[str, Path]) -> None:
    result = json.loads((files["hostile"].parent / "hostile" / "result.json").read_text())
    events = {event["kind"]: event for event in result["events"]}
    out = events["left out"]["clients"]
    assert all(events["invalid"]["clients"][client] == 2 for client in out)
    with Opened(browser, files["hostile"]) as page:
        told = page.tab.locator("section", has_text="What went wrong without stopping").inner_text()
        left_out = ", ".join(sorted(out, key=int))
        assert f"after 2 such replies a client is no longer asked; left out: {left_out}." in told
        chart = page.tab.locator(".chart", has_text="Events of each client")
        named = {text for text in chart.locator(".plot text").all_text_contents() if text.endswith("*")}
        assert named == {f"{client}*" for client in out}


def test_switches_by_mouse_and_keyboard(browser: Any, files: dict[str, Path]) -> None:
    with Opened(browser, files["sample"]) as page:
        titles = page.tab.locator(".switch").first.locator(".variant h3")

        def shown() -> list[str]:
            return [title.inner_text() for title in titles.all() if title.is_visible()]

        assert shown() == ["Accuracy L over rounds"]
        page.tab.locator(".switch label", has_text="G").first.click()
        assert shown() == ["Accuracy G over rounds"]
        page.tab.locator(".switch input").first.focus()
        page.tab.keyboard.press("ArrowLeft")
        page.tab.keyboard.press("ArrowLeft")
        assert shown() == ["Accuracy C over rounds"]
        assert page.tab.locator(".variant:not([hidden]) .plot[data-drawn]").count() == 1


def test_values_by_mouse_and_keyboard(browser: Any, files: dict[str, Path]) -> None:
    with Opened(browser, files["sample"]) as page:
        for figure in page.tab.locator(".chart:visible").all():
            plot, tip = figure.locator(".plot svg"), figure.locator(".tip")
            title = figure.locator("h3").inner_text()
            if title == "Nothing was measured":
                continue
            plot.focus()
            page.tab.keyboard.press("Home")
            first = tip.inner_text()
            page.tab.keyboard.press("ArrowRight")
            assert tip.is_visible(), title
            assert tip.inner_text() != first, title
            page.tab.keyboard.press("Escape")
            assert not tip.is_visible(), title
        told = page.tab.locator(".chart", has_text="Proximity").evaluate(
            """figure => { const svg = figure.querySelector('.plot svg'), found = [];
            for (let i = 0; i < 24 * 24; i++) {
              svg.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }));
              found.push(figure.querySelector('.tip').textContent);
            } return found; }"""
        )
        assert len(set(told)) == 24 * 24
        assert [words for words in told if "not measured" in words] == [
            "client client 3, client client 1\nangle in degrees: not measured"
        ]
        bars = page.tab.locator(".chart", has_text="Gain against SOLO")
        bars.locator(".bar").nth(2).hover()
        assert bars.locator(".tip").inner_text().startswith("client: client 2\ngain: ")


def test_legend_hides_and_shows(browser: Any, files: dict[str, Path]) -> None:
    with Opened(browser, files["sample"]) as page:
        chart = page.tab.locator(".chart:visible").first
        before = chart.locator("polyline").count()
        button = chart.locator(".legend button").first
        button.focus()
        page.tab.keyboard.press("Enter")
        assert button.get_attribute("aria-pressed") == "false"
        assert chart.locator("polyline").count() == before - 1
        button.click()
        assert chart.locator("polyline").count() == before


def test_the_table_of_a_comparison_sorts_by_its_means(browser: Any, files: dict[str, Path]) -> None:
    with Opened(browser, files["comparison"]) as page:
        table = page.tab.locator("figure", has_text="Mean ± standard deviation").first.locator("table")
        for head in ("L (%)", "C (%)"):
            table.locator("th button", has_text=head).first.click()
            names = table.locator("thead th").all_inner_texts()
            place = next(i for i, name in enumerate(names) if name.startswith(head))
            found = [row.locator("td").nth(place).inner_text() for row in table.locator("tbody tr").all()]
            numbers = [float(text.split()[0]) for text in found if text != "–"]
            assert numbers == sorted(numbers)
            assert found[len(numbers) :] == ["–"] * (3 - len(numbers))  # what is not defined comes last


CELLS = """() => {
  const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => .2126 * linear(r / 255) + .7152 * linear(g / 255) + .0722 * linear(b / 255);
  const plot = [...document.querySelectorAll('.plot')].find(p => p.querySelector('canvas')), found = [];
  const canvas = plot.querySelector('canvas'), frame = canvas.getBoundingClientRect();
  for (const text of plot.querySelectorAll('text')) {
    const box = text.getBoundingClientRect();
    const x = (box.left + box.right) / 2 - frame.left, y = (box.top + box.bottom) / 2 - frame.top;
    if (x < 0 || x > frame.width || y < 0 || y > frame.height) continue;
    const [i, j] = [x / frame.width * canvas.width, y / frame.height * canvas.height].map(Math.floor);
    const under = light([...canvas.getContext('2d').getImageData(i, j, 1, 1).data].slice(0, 3));
    const ink = light(getComputedStyle(text).fill.match(/[\\d.]+/g).map(Number));
    found.push((Math.max(under, ink) + .05) / (Math.min(under, ink) + .05));
  }
  return found;
}"""


@pytest.mark.parametrize("theme", THEMES)
def test_numbers_in_the_cells_of_a_map_can_be_read(browser: Any, files: dict[str, Path], theme: str) -> None:
    """Black or white on viridis, at least 4.5 to 1."""
    with Opened(browser, files["sweep of two"], theme=theme) as page:
        ratios = page.tab.evaluate(CELLS)
        assert len(ratios) == 6
        assert min(ratios) >= 4.5


def test_tables_sort(browser: Any, files: dict[str, Path]) -> None:
    with Opened(browser, files["sample"]) as page:
        table = page.tab.locator("figure", has_text="A table").last.locator("table")

        def column(place: int) -> list[str]:
            return [row.locator("td").nth(place).inner_text() for row in table.locator("tbody tr").all()]

        head = table.locator("th", has_text="groups").locator("button")
        head.focus()
        page.tab.keyboard.press("Enter")
        assert column(2) == ["2", "4", "10", "not measured"]  # as numbers, and what was not measured last
        head.click()
        assert column(2) == ["10", "4", "2", "not measured"]
        assert table.locator("th[aria-sort=descending]").count() == 1
        table.locator("th button", has_text="difference").click()
        assert column(3) == ["-10.00", "-2.50", "0.00", "3.00"]
        table.locator("th button", has_text="method").click()
        assert column(0) == ["fedavg", "ifca", "pacfl", "solo"]


def test_charts_follow_the_window(browser: Any, files: dict[str, Path]) -> None:
    with Opened(browser, files["sample"]) as page:
        wide = page.tab.locator(".plot svg").first.get_attribute("viewBox")
        page.tab.set_viewport_size({"width": 400, "height": 800})
        page.tab.wait_for_timeout(300)
        narrow = page.tab.locator(".plot svg").first.get_attribute("viewBox")
        assert wide != narrow
        assert float(narrow.split()[2]) < 400


def test_everything_can_be_reached_by_tab(browser: Any, files: dict[str, Path]) -> None:
    with Opened(browser, files["runs"]) as page:
        wanted = page.tab.locator(".plot svg:visible").count()
        reached, unseen = set(), []
        for _ in range(400):
            page.tab.keyboard.press("Tab")
            at = page.tab.evaluate(
                """() => { const e = document.activeElement, s = getComputedStyle(e);
                const next = e.matches('.choice input') ? getComputedStyle(e.nextElementSibling) : s;
                return [e.tagName, e.getAttribute('aria-label') ?? e.textContent.slice(0, 40), next.outlineStyle]; }"""
            )
            if at[0] == "BODY":
                break
            if at[0] == "svg":
                reached.add(at[1])
            if at[2] == "none":
                unseen.append(at)
        assert len(reached) == wanted
        assert unseen == []


def test_readable_without_javascript(browser: Any, files: dict[str, Path]) -> None:
    with Opened(browser, files["runs"], java_script_enabled=False) as page:
        words = page.tab.inner_text("body")
        assert "JavaScript is off" in words
        assert "Accuracy C over rounds" in words  # all variants are there, one after the other
        assert page.tab.locator(".choice:visible").count() == 0
        assert page.tab.locator(".variant").count() == page.tab.locator(".variant:visible").count() > 2
        page.tab.locator("summary").first.click()
        assert page.tab.locator("details[open] table").first.is_visible()


def test_dark_and_light_differ_on_paper(browser: Any, files: dict[str, Path], tmp_path: Path) -> None:
    for theme in THEMES:
        for width in WIDTHS:
            with Opened(browser, files["runs"], width, theme) as page:
                page.tab.screenshot(path=tmp_path / f"{theme}-{width}.png", full_page=True)
    pictures = [path.read_bytes() for path in sorted(tmp_path.iterdir())]
    assert len(set(pictures)) == 4
