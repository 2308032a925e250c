"""Pages of runs in a real browser: everything is drawn without a network, on wide and on narrow screens.

Chromium, Chrome or Firefox is found by name; the machine of a developer mostly has one, `apt install chromium` brings it.
"""

import html
import json
import re
import shutil
import subprocess

import pytest

import qsim

BROWSER = next(
    filter(
        None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))
    ),
    "",
)
# what a page says of itself, told to the page that frames it
PROBE = """<script>addEventListener("load", () => {
  const root = document.documentElement, found = [...document.images];
  parent.postMessage(JSON.stringify({
    images: found.map(each => [each.alt, each.complete, each.naturalWidth, each.getBoundingClientRect().width]),
    captions: [...document.querySelectorAll("figcaption")].map(each => each.innerText),
    rows: document.querySelectorAll("table tr").length,
    closed: [...document.querySelectorAll("details")].filter(each => !each.open).length,
    width: [root.scrollWidth, root.clientWidth],
    requests: performance.getEntriesByType("resource").map(each => each.name).filter(name => !name.startsWith("data:")),
    deck: document.querySelector("pre").innerText,
  }), "*");
});</script></body>"""
# windows of browsers have a least width, 500 points in Chromium; a frame is as narrow as a telephone
FRAME = """<!doctype html><body style="margin: 0">
<script>addEventListener("message", message => { document.body.dataset.found = message.data; });</script>
<iframe src="probe.html" style="border: 0; width: WIDTHpx; height: 1500px"></iframe></body>"""

pytestmark = pytest.mark.skipif(not BROWSER, reason="no Chromium or Chrome here")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    deck = {
        "method": "trotter",
        "title": "two <spins> & a bond",
        "system": {"spins": 4, "terms": [{"type": "heisenberg", "lattice": "ring", "J": 1.0}]},
        "initial": "neel",
        "evolve": {"t_final": 3.0, "outputs": 31, "accuracy": 1e-6},
        "observe": [{"sz": "all"}, "imbalance"],
        "run": {"seed": 1},
    }
    qsim.run(deck, device="cpu", output=folder / "run.h5").close()
    return folder / "run.h5"


def browse(folder, file, width):
    """Open the page of a run headless, in a frame of this width, and return what it says of itself."""
    text = file.read_text(encoding="utf-8")
    (folder / "probe.html").write_text(text.replace("</body>", PROBE), encoding="utf-8")
    (folder / "frame.html").write_text(FRAME.replace("WIDTH", str(width)), encoding="utf-8")
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
        f"--window-size={max(width, 600)},1600", f"--user-data-dir={folder / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND",
        "--virtual-time-budget=5000", "--dump-dom", (folder / "frame.html").as_uri(),
    ]  # fmt: skip
    reply = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r'data-found="([^"]*)"', reply.stdout)
    assert found, reply.stderr
    return json.loads(html.unescape(found[1]))


@pytest.mark.parametrize("width", [1400, 375])
def test_the_page_of_a_run_opens(page, command, tmp_path, width):
    reply = command("view", page, "-o", tmp_path / "run.html")
    assert reply.exit_code == 0, reply.output
    seen = browse(tmp_path, tmp_path / "run.html", width)
    assert len(seen["images"]) >= 3
    for name, complete, natural, shown in seen["images"]:
        assert complete, name
        assert natural > 300, f"{name} was not decoded"
        assert 200 < shown <= width, name
    assert not any(caption.startswith("overview: ") for caption in seen["captions"])  # each figure once
    assert seen["rows"] > 20
    # Numbers behind the headline, arrays, provenance and log open on a click.
    assert seen["closed"] == 4
    assert seen["requests"] == []
    assert "two <spins> & a bond" in seen["deck"]
    assert seen["width"][0] <= seen["width"][1], "the page is wider than the window"
