"""Keep the small files of finished reproductions here: configuration, result and metrics of each run.

    python reproductions/keep.py runs/reproduce
    python reproductions/keep.py runs/no-settings no-settings

Then ``coterie reproduce NAME --out reproductions`` shows its table at once, and goes on with what is missing. With a
second word, runs of a catalogue of one's own are kept in a folder of that name: ``--out reproductions/no-settings``.
"""

import re
import shutil
import sys
from pathlib import Path

KEPT = ("config.toml", "result.json", "metrics.jsonl")
HERE = Path(__file__).parent
OUT = re.compile(r'^out = "[^"\n]*"', re.MULTILINE)


def keep(source: Path, target: Path = HERE) -> int:
    """Copy what is kept of the finished runs in a folder of reproductions; return how many runs are new."""
    new = 0
    for result in sorted(source.glob("runs/*/*/result.json")):
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
    if len(sys.argv) not in (2, 3) or not (Path(sys.argv[1]) / "runs").is_dir():
        sys.exit("keep.py: name a folder of reproductions, for instance runs/reproduce")
    print(f"{keep(Path(sys.argv[1]), HERE.joinpath(*sys.argv[2:]))} new runs")
