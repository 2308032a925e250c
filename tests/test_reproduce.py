"""The reproduction of the papers: every figure and table is there, numbers have sources, quick items run, nothing is faked."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
pytest.importorskip(
    "bench.papers", reason="the bench is part of a checkout only", exc_type=ModuleNotFoundError
)

from bench import reproduce  # noqa: E402
from bench.papers import report, sturmian, tridiag, trotter, work  # noqa: E402
from bench.papers.item import ITEMS, Number, items_of, number, papers  # noqa: E402

FIGURES = {
    "qoc": range(1, 7),
    "trotter": range(1, 4),
    "sturmian": range(1, 4),
    "qmc": range(1, 6),
    "tridiag": range(1, 3),
}
QUICK = ("sturmian/fig1", "trotter/sec4.2", "tridiag/scaling")
PAGE = ROOT / "docs/reference/reproduced.md"


def test_every_figure_and_table_of_the_papers_is_an_item():
    asked = {f"{name}/fig{k}" for name, numbers in FIGURES.items() for k in numbers}
    assert asked | {f"sturmian/table{k}" for k in range(1, 5)} <= set(ITEMS)
    assert all(item.compute or item.note for item in ITEMS.values())
    assert [item.key for item in items_of(["qoc", "qoc/fig1"])] == [f"qoc/fig{k}" for k in FIGURES["qoc"]]
    with pytest.raises(KeyError):
        items_of(["qoc/fig7"])


def test_numbers_of_the_papers_are_numbers_with_a_source():
    for name, content in papers().items():
        assert content["reference"]
        for key, value in content["numbers"].items():
            if key.startswith("table_"):
                assert all(isinstance(item, float) for row in value.values() for item in row), key
            else:
                found = number(name, key)
                assert isinstance(found.value, (int, float)), key
                assert re.search(r"Sec\.|Fig|Eq\.|p\. \d", found.source), key
    assert str(Number(5.73e12, "Fig. 1", about=True)) == "about 5.73e+12"


@pytest.mark.parametrize("key", QUICK)
def test_quick_items_run_and_are_kept(key, tmp_path, capsys):
    assert reproduce.main([key, "--quick", "-o", str(tmp_path)]) == 0
    kept = tmp_path / f"{key}.json"
    before = kept.stat().st_mtime_ns
    assert (tmp_path / f"{key}.png").stat().st_size > 5000
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert f"![{ITEMS[key].title}]" in text
    assert "| why |" in text
    assert reproduce.main([key, "--quick", "-o", str(tmp_path)]) == 0
    assert kept.stat().st_mtime_ns == before, "computed again"


@pytest.mark.exhaustive
def test_all_items_run_in_small_form(tmp_path):
    assert reproduce.main(["all", "--quick", "-o", str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("quick", "source", "gpu", "served"),
    [
        (False, None, None, True),
        (True, None, None, False),
        (False, "a GPU, record x", None, True),
        (False, "a GPU, record x", "cuda:0", False),
        (False, work.NOT_RUN, "cuda:0", False),
        (False, f"cuda:0{work.THIS_RUN}", "cuda:0", True),
        (False, None, "cuda:0", True),
    ],
)
def test_an_item_is_computed_again_if_more_is_asked_for(quick, source, gpu, served, tmp_path):
    """Small sizes do not stand for the others, nor a record for a GPU that is there."""
    data = {} if source is None else {"cuda_from": source}
    kept = work.Kept(data, 1.0, "cpu", "0", None, "2026-01-01", quick=quick)
    assert work.Work(tmp_path, gpu).is_served_by(kept) is served


def test_unknown_items_are_refused(tmp_path, capsys):
    assert reproduce.main(["qoc/fig9", "-o", str(tmp_path)]) == 2
    assert "qoc/fig6" in capsys.readouterr().err


def test_what_needs_a_gpu_and_has_no_record_is_listed_as_not_run(tmp_path, monkeypatch):
    monkeypatch.setattr(work, "recorded", lambda name: None)
    assert reproduce.main(["tridiag/fig2", "--quick", "-o", str(tmp_path)]) == 0
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| fastest number")]
    assert len(rows) == 3
    assert all(work.NOT_RUN in row for row in rows)


def test_the_newest_record_of_a_gpu_stands_for_it(tmp_path, monkeypatch):
    for day, value in (("2026-01-02", 2.0), ("2026-01-01", 1.0)):
        entry = {
            "case": "a-case",
            "device": "cuda:0",
            "status": "done",
            "rows": [{"label": "x", "seconds": value}],
        }
        record = {"created": day, "devices": {"cuda:0": {"name": "a GPU"}}, "cases": [entry]}
        (tmp_path / f"a-cuda-{day}.json").write_text(json.dumps(record))
    monkeypatch.setattr(work, "RECORDS", tmp_path)
    rows, where = work.recorded("a-case")
    assert rows[0]["seconds"] == 2.0
    assert where == "a GPU, record a-cuda-2026-01-02"
    assert work.recorded("another") is None


def test_blocks_of_repulsion_integrals_are_counted():
    found = {int(L): sum(map(sum, counts)) for L, counts in sturmian.blocks(None)["counts"].items()}
    assert found == {0: 55, 1: 30, 2: 24}


def test_orders_of_the_formulas_are_those_of_the_paper():
    found = trotter.orders(None)["order"]
    for method, order in trotter.ORDERS.items():
        assert found[method] == pytest.approx(order, abs=0.02)


def test_the_ideal_machine_has_a_minimum_where_the_model_says(monkeypatch):
    """With exact costs of alpha a row and beta a joint line, the sum is the paper's model and its minimum Eq. (7)."""
    monkeypatch.setattr(tridiag, "block_seconds", lambda rows: 4e-9 * (rows - 1))
    monkeypatch.setattr(tridiag, "serial_seconds", lambda rows: 1e-9 * (rows - 1))
    n = 2**18
    blocks, seconds = tridiag.sweep(n, 1)
    best = blocks[seconds.index(min(seconds))]
    assert best == 2 * 2**9  # sqrt(alpha / beta) sqrt(n)
    assert min(seconds) == pytest.approx(2e-9 * best, rel=0.01)


def test_the_page_shows_every_item_and_its_picture():
    text = PAGE.read_text(encoding="utf-8")
    assert "Not run." not in text
    assert "Small sizes" not in text
    for item in ITEMS.values():
        assert f": {item.title}\n" in text, item.key
        if item.compute:
            assert f"{item.key}.png" in text
            picture = ROOT / "docs/images/reference/reproduced" / f"{item.key}.png"
            assert 2000 < picture.stat().st_size < 150_000, item.key
    assert report.HEAD.splitlines()[0] in text
