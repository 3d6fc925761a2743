"""Keep the small files of finished reproductions and comparisons here: configuration, result and metrics of each run.

    python reproductions/keep.py runs/reproduce
    python reproductions/keep.py runs/no-settings no-settings
    python reproductions/keep.py runs/all-label-skew all-methods/label-skew

Then ``coterie reproduce NAME --out reproductions`` shows its table at once, and goes on with what is missing. With a
second word, runs of a catalogue of one's own are kept in a folder of that name: ``--out reproductions/no-settings``. So
is a comparison: ``coterie report reproductions/all-methods/label-skew`` makes its page.
"""

import re
import shutil
import sys
from pathlib import Path

DESIGN = "comparison.toml"
KEPT = ("config.toml", "result.json", "metrics.jsonl")
HERE = Path(__file__).parent
OUT = re.compile(r'^out = "[^"\n]*"', re.MULTILINE)


def keep(source: Path, target: Path = HERE) -> int:
    """Copy what is kept of the finished runs of reproductions, or of a comparison; return how many are new."""
    new = 0
    if (design := source / DESIGN).is_file():
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(design, target / DESIGN)
    for result in sorted(source.glob("*/seed-*/result.json" if design.is_file() else "runs/*/*/result.json")):
        place = target / result.parent.relative_to(source)
        new += not place.exists()
        place.mkdir(parents=True, exist_ok=True)
        for name in KEPT:
            shutil.copyfile(result.with_name(name), place / name)
        config = place / "config.toml"
        out = f'out = "reproductions/{place.relative_to(HERE).as_posix()}"'  # where it was run is nobody's business
        config.write_text(OUT.sub(out, config.read_text(encoding="utf-8")), encoding="utf-8")
    return new


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not any((Path(sys.argv[1]) / name).exists() for name in ("runs", DESIGN)):
        sys.exit("keep.py: name a folder of reproductions, for instance runs/reproduce, or of a comparison")
    print(f"{keep(Path(sys.argv[1]), HERE.joinpath(*sys.argv[2:]))} new runs")
