"""Figures: sizes, style without side effects, reproducible files with the deck's hash."""

import os
import struct
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from qsim.core.errors import FileError
from qsim.core.results.plotting import COLORS, FORMATS, WIDTHS, also_styled, draw, figure, save, style


def example(width="single"):
    fig = figure(width)
    ax = fig.subplots()
    ax.plot(np.linspace(0, 1, 20), label=r"$|\psi|^2$")
    ax.set_xlabel("time (a.u.)")
    ax.legend()
    return fig


@pytest.mark.parametrize("width", ["single", "double"])
def test_png_has_the_width_of_a_column_at_200_dpi(tmp_path, width):
    with style():
        (png,) = save(example(width), tmp_path / "a")
    content = png.read_bytes()
    assert content.startswith(b"\x89PNG")
    (pixels,) = struct.unpack(">I", content[16:20])
    assert pixels == round(WIDTHS[width] * 200)


def test_height_can_be_chosen():
    assert tuple(figure("double", 4.0).get_size_inches()) == (7.0, 4.0)


def test_files_have_the_stem_and_dots_in_it_are_kept(tmp_path):
    files = save(example(), tmp_path / "run.v1.norm", formats=("png", "pdf"))
    assert [file.name for file in files] == ["run.v1.norm.png", "run.v1.norm.pdf"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["run.v1.norm.pdf", "run.v1.norm.png"]


def test_the_same_figure_gives_the_same_bytes(tmp_path):
    metadata = {"Title": "norm", "deck_sha256": "ab12"}
    first = [file.read_bytes() for file in save(example(), tmp_path / "a", metadata, FORMATS)]
    second = [file.read_bytes() for file in save(example(), tmp_path / "b", metadata, FORMATS)]
    assert first == second


def test_both_files_carry_the_hash_of_the_deck(tmp_path):
    metadata = {"Title": "norm of psi", "deck_sha256": "ab12cd34"}
    png, pdf = save(example(), tmp_path / "a", metadata, formats=("png", "pdf"))
    assert b"deck_sha256\0ab12cd34" in png.read_bytes()
    assert b"deck_sha256=ab12cd34" in pdf.read_bytes()
    assert b"norm of psi" in pdf.read_bytes()
    assert b"CreationDate" not in pdf.read_bytes()


def test_style_leaves_no_trace():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    with style():
        assert mpl.rcParams["font.size"] == 8
        cycle = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
        assert [color.lstrip("#") for color in cycle] == [color.lstrip("#") for color in COLORS.values()]
    assert dict(mpl.rcParams) == before


def test_settings_of_the_user_do_not_change_figures(tmp_path):
    import matplotlib as mpl

    (plain,) = save(draw(lambda _: example(), None), tmp_path / "a")
    with mpl.rc_context({"lines.linewidth": 9, "axes.facecolor": "red", "font.size": 30}):
        (other,) = save(draw(lambda _: example(), None), tmp_path / "b")
    assert plain.read_bytes() == other.read_bytes()


def test_figures_need_no_display_and_no_pyplot():
    script = (
        "import sys, qsim.core.results.plotting as p;"
        "assert 'matplotlib' not in sys.modules;"
        "p.figure().subplots();"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "DISPLAY": ""}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


def test_a_missing_folder_is_a_file_error(tmp_path):
    with pytest.raises(FileError, match="cannot write figure"):
        save(example(), tmp_path / "none" / "a")


def test_colours_can_be_told_apart_in_grey():
    """Neighbours in the cycle differ in lightness, for those who print in black and white."""
    from matplotlib.colors import to_rgb

    weights = np.array([0.2126, 0.7152, 0.0722])
    lightness = [float(weights @ np.array(to_rgb(color)) ** 2.2) for color in COLORS.values()]
    assert min(abs(a - b) for a, b in pairwise(lightness)) > 0.02


def test_a_style_that_needs_latex_says_that_it_is_absent(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "tex.mplstyle").write_text("text.usetex: True\n")
    with (
        pytest.raises(
            FileError, match="sets text.usetex, but LaTeX is not here: no program latex and no dvipng"
        ),
        also_styled(str(tmp_path / "tex.mplstyle")),
    ):
        figure()
