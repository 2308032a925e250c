"""A damaged cache of matplotlib's fonts: figures are drawn all the same, and the next run finds a sound one."""

import json
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib import font_manager

from qsim.core.results import plotting


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return the path of a cache of fonts of its own, and a function that loads it as a new process does."""
    monkeypatch.setattr(mpl, "get_cachedir", lambda: str(tmp_path))
    # those that come with matplotlib are enough, and quickly found
    monkeypatch.setattr(
        font_manager,
        "findSystemFonts",
        lambda *a, **k: font_manager.list_fonts(mpl.get_data_path() + "/fonts/ttf", ["ttf"]),
    )
    before = dict(font_manager.fontManager.__dict__)
    font_manager._load_fontmanager(try_read_cache=False)
    (path,) = tmp_path.glob("fontlist*.json")

    def load():
        found = font_manager._load_fontmanager()
        font_manager.fontManager.__dict__.clear()
        font_manager.fontManager.__dict__.update(found.__dict__)
        type(found)._findfont_cached.cache_clear()

    yield path, load
    font_manager.fontManager.__dict__.clear()
    font_manager.fontManager.__dict__.update(before)
    type(font_manager.fontManager)._findfont_cached.cache_clear()


def _changed(**changes):
    def damage(text):
        found = json.loads(text)
        found.update(changes)
        return json.dumps(found)

    return damage


def _entries(**changes):
    def damage(text):
        found = json.loads(text)
        for entry in found["ttflist"]:
            entry.update(changes)
        return json.dumps(found)

    return damage


def _without(*names):
    def damage(text):
        return json.dumps({key: value for key, value in json.loads(text).items() if key not in names})

    return damage


DAMAGE = {
    "empty": lambda text: "",
    "half": lambda text: text[: len(text) // 2],
    "zeros": lambda text: "\0" * len(text),
    "another list": lambda text: "[1, 2]",
    "no fonts": _changed(ttflist=[], afmlist=[]),
    "numbers": _changed(ttflist=[1, 2, 3]),
    "lost": _without("ttflist"),
    "all lost": _without("ttflist", "afmlist", "defaultFamily", "default_size"),
    "nowhere": _entries(fname="/nowhere/font.ttf"),
    "no font": _entries(fname=str(Path(__file__).resolve())),
    "weights": _entries(weight=None),
    "names": _entries(name=7),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_list_of_fonts_is_made_anew(cache, tmp_path, kind):
    path, load = cache
    sound = path.read_text()
    path.write_text(DAMAGE[kind](sound))
    load()
    with plotting.style():
        fig = plotting.figure("single")
        ax = fig.subplots()
        ax.set_title("$E_0$ and text")
        ax.plot([0, 1], [0, 1])
        fig.savefig(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000
    load()
    assert len(font_manager.fontManager.ttflist) == len(json.loads(sound)["ttflist"])
