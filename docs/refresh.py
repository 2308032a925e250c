"""Run the commands of the documentation and write what they print, and their figures, into the pages.

    python docs/refresh.py                    all pages, then notebooks, gallery and the list of keys that changed
    python docs/refresh.py tutorial howto/devices
    python docs/refresh.py --check            change nothing; fail if a copied file differs, or a command prints other names
                                              or lines than its page

The pages on papers and on speed come from longer work: `docs/reproduced.py` and `bench/report.py`.

A page is plain Markdown, so that it reads on a code host as it does in the built documentation.  Comments say what is made:

    <!-- run -->                 the console block below holds the output of its command; `exit=3` expects an exit code,
                                 `lines=12` keeps so many lines
    <!-- printed by qsim ... -->     the block below holds some lines of what the command prints, with `...` between them
    <!-- copy ../inputs/x.yaml -->   the block below holds that file

All commands of a page run in one folder, `_build/run/<page>`, which holds a copy of `inputs`; images of a page lie in
`images/<page>/` and are taken from there.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
RUN = re.compile(
    r"^<!-- run(?P<options>[^>]*) -->\n```console\n\$ (?P<command>[^\n]*)\n(?P<body>.*?)^```$", re.M | re.S
)
COPY = re.compile(r"^<!-- copy (?P<path>\S+) -->\n```(?P<language>\w+)\n(?P<body>.*?)^```$", re.M | re.S)
PRINTED = re.compile(r"^<!-- printed by (?P<command>[^\n]*) -->\n```text\n(?P<body>.*?)^```$", re.M | re.S)
IMAGE = re.compile(r"\]\((?P<path>[\w./-]*images/(?P<name>[\w./-]+\.png))\)")


class Stale(Exception):
    """A page that is not as it should be."""


def pages(names: list[str]) -> list[Path]:
    """Return the pages of some names, all of them without names."""
    known = [path for path in [ROOT / "README.md", *DOCS.rglob("*.md")] if "_build" not in path.parts]
    if not names:
        return sorted(
            path for path in known if RUN.search(text := path.read_text("utf-8")) or COPY.search(text)
        )
    return [ROOT / "README.md" if name == "README" else DOCS / f"{name}.md" for name in names]


def name_of(page: Path) -> str:
    """Return the name of a page, which is also that of its folder of images."""
    return page.stem if page.parent == ROOT else page.relative_to(DOCS).with_suffix("").as_posix()


# What differs from run to run and from machine to machine: numbers with their errors, and the columns that they fill.
NUMBER = re.compile(r"[-+]?\d[\d_]*(?:\.\d+)?(?:e[-+]?\d+)?")
MACHINE = re.compile(
    r"^(cpu|cuda|time|date|git|platform|host|warnings?)\b|^[\w .=()/]+: .*(%|\d/\d)|more: "
    r"|\bseed\b|threads|version|\bcore|/s\b|compil|\b[GMk]B\b"
)


def shape(text: str) -> list[str]:
    """Return the lines of an output without numbers and spaces, and without lines that describe the machine."""
    lines = [line for line in text.splitlines() if not MACHINE.search(line)]
    return [re.sub(r"[\s─━-]+", " ", NUMBER.sub("0", line)).strip() for line in lines]


def compare(page: Path, command: str, old: str, new: str) -> None:
    """Refuse an output whose names or lines are not those that a page shows.

    Raises
    ------
    Stale
        With the first lines that differ.
    """
    shown, made = shape(old), shape(new)
    differing = [f"- {a}\n+ {b}" for a, b in zip_longest(shown, made, fillvalue="") if a != b]
    if differing:
        first = "\n".join(differing[:6])
        raise Stale(
            f"{page}: `{command}` prints something else; python docs/refresh.py {name_of(page)}\n{first}"
        )


def copied(page: Path, text: str) -> str:
    """Return the text of a page with the files that it shows."""

    def fill(match: re.Match[str]) -> str:
        body = (page.parent / match["path"]).read_text(encoding="utf-8")
        return f"<!-- copy {match['path']} -->\n```{match['language']}\n{body}```"

    return COPY.sub(fill, text)


def executed(page: Path, text: str, check: bool = False) -> str:
    """Return the text of a page with the output of its commands; its images are copied, unless it is only checked."""
    folder = DOCS / "_build/run" / name_of(page)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copytree(
        ROOT / "inputs", folder / "inputs"
    )  # no link: builders would take it for the folder itself
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100", "QSIM_DEVICE": "cpu"}

    def output(command: str, code: int = 0) -> list[str]:
        print(f"{name_of(page)}: {command}", file=sys.stderr, flush=True)
        reply = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if reply.returncode != code:
            raise Stale(f"{page}: `{command}` ended with {reply.returncode}:\n{reply.stdout}")
        named = rf"(?<![\w.-]){re.escape(platform.node())}(?![\w.-])"  # the machine, as a word of its own
        return re.sub(named, "host", reply.stdout).rstrip().splitlines()

    def fill(match: re.Match[str]) -> str:
        options = dict(item.split("=") for item in match["options"].split())
        lines = output(match["command"], int(options.get("exit", 0)))
        kept = lines[: int(options.get("lines", len(lines)))]
        body = "\n".join([*kept, *(["..."] if len(kept) < len(lines) else [])])
        if check:
            compare(page, match["command"], match["body"], body)
        return f"<!-- run{match['options']} -->\n```console\n$ {match['command']}\n{body}\n```"

    def lines_of(match: re.Match[str]) -> str:
        made = output(match["command"])
        places = {text: line for line in made for text in shape(line)}
        lines = []
        for line in match["body"].splitlines():
            known = shape(line)
            if known and line != "..." and known[0] not in places:
                raise Stale(f"{page}: `{match['command']}` prints no line such as `{line}`")
            lines.append(places.get(known[0], line) if known else line)
        return f"<!-- printed by {match['command']} -->\n```text\n" + "\n".join(lines) + "\n```"

    text = PRINTED.sub(lines_of, RUN.sub(fill, text))
    for match in IMAGE.finditer(text):
        made = folder / Path(match["name"]).name
        if not check and made.exists():
            target = page.parent / match["path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(made, target)
    return text


def main() -> int:
    """Refresh or check pages."""
    parser = argparse.ArgumentParser(description="Write outputs and figures of commands into the pages.")
    parser.add_argument(
        "pages", nargs="*", help="names such as tutorial or howto/devices; README is one, too"
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; run commands and compare copies"
    )
    options = parser.parse_args()
    try:
        for page in pages(options.pages):
            old = page.read_text(encoding="utf-8")
            new = copied(page, old)
            if options.check and new != old:
                raise Stale(
                    f"{page}: a file that it shows has changed; python docs/refresh.py {name_of(page)}"
                )
            if RUN.search(new) or PRINTED.search(new):
                new = executed(page, new, options.check)
            if not options.check:
                page.write_text(new, encoding="utf-8")
        if not options.pages and not options.check:
            for program in ("notebooks", "gallery", "deck_keys"):
                print(f"{program}.py", file=sys.stderr, flush=True)
                subprocess.run([sys.executable, DOCS / f"{program}.py"], check=True)
    except Stale as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
