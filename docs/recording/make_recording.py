"""Record a command in a pseudo-terminal as an animated SVG.

    python docs/recording/make_recording.py

The command is run as it is shown, in an empty folder. What it writes is followed on a small terminal of our own, and
every change of the screen becomes a frame. Waiting is shortened, which the last line of the picture says. Without --out
the picture is docs/recording/compare.svg; another command can be given after --.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

COLUMNS, ROWS = 92, 24
COMMAND = (
    "coterie compare --algorithms fedavg,solo,pacfl,kindred --dataset digits-rotated --rounds 20 "
    "--columns L,C,groups,ari"
)
SHOWN, HOLD, TYPING = 8.0, 5.0, 1.2
"""Seconds: that the run takes in the picture, that its end is seen, and that typing takes."""
WIDTH, HEIGHT, MARGIN = 7.83, 17, 14
"""Of a letter, of a line, and around the text, in pixels; letters of 13 pixels."""
LEGEND = "Accuracy in %"
"""What begins so is cut: the legend of the table would fill the screen."""
PLAIN, BRIGHT, DIM = "\ue000", "\ue001", "\ue002"
"""Letters of our own, which say how the next ones look."""
CSI = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])")
Screen = tuple[str, ...]


@dataclass(frozen=True)
class Frame:
    """What the screen showed from a time on, in seconds."""

    at: float
    screen: Screen


class Terminal:
    """As much of a terminal as progress bars need: lines, returns, cursor up and down, erasing, some colour."""

    def __init__(self) -> None:
        self.lines: list[list[tuple[str, str]]] = [[]]
        self.row = self.column = 0
        self.look = PLAIN

    def write(self, text: str) -> None:
        """Take what a program wrote."""
        place = 0
        while place < len(text):
            if match := CSI.match(text, place):
                self._control(match[1], match[2])
                place = match.end()
                continue
            letter = text[place]
            place += 1
            if letter == "\n":
                self._to(self.row + 1)
                self.column = 0
            elif letter == "\r":
                self.column = 0
            elif letter >= " ":
                self._put(letter)

    def _control(self, numbers: str, kind: str) -> None:
        count = int(numbers) if numbers.isdigit() else 1
        if kind == "A":
            self.row = max(self.row - count, 0)
        elif kind == "B":
            self._to(self.row + count)
        elif kind == "K":
            line = self.lines[self.row]
            del line[0 if numbers == "2" else self.column :]
        elif kind == "m":
            dark = numbers in ("38;5;237", "38;2;58;58;58", "2")  # what is left of a progress bar
            self.look = PLAIN if numbers in ("", "0", "1", "39") else DIM if dark else BRIGHT

    def _to(self, row: int) -> None:
        self.row = row
        self.lines += [[] for _ in range(row + 1 - len(self.lines))]

    def _put(self, letter: str) -> None:
        if self.column >= COLUMNS:
            self._to(self.row + 1)
            self.column = 0
        line = self.lines[self.row]
        line += [(" ", PLAIN)] * (self.column + 1 - len(line))
        line[self.column] = (letter, self.look)
        self.column += 1

    def screen(self) -> Screen:
        """Return all lines, with our letters where the look changes."""
        lines = []
        for line in self.lines:
            looks = [PLAIN, *(look for _, look in line)]
            text = "".join(
                (look if look != before else "") + letter for (letter, look), before in zip(line, looks, strict=False)
            )
            lines.append(text.rstrip(f" {PLAIN}"))
        while lines and not lines[-1]:
            lines.pop()
        return tuple(lines)


def record(command: list[str]) -> tuple[list[Frame], float]:
    """Run a command in a pseudo-terminal; return its screens and how long it took."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    variables = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(command, stdin=side, stdout=side, stderr=side, env=variables, cwd=folder)
        os.close(side)
        frames, seconds = _followed(main)
        code = process.wait()
    if code:
        sys.exit(f"{shlex.join(command)} failed:\n" + "\n".join(frames[-1].screen if frames else ()))
    return frames, seconds


def _followed(main: int) -> tuple[list[Frame], float]:
    """Read what a program writes until it ends; return the screens and how long it took."""
    terminal, frames, begin, left = Terminal(), list[Frame](), time.monotonic(), b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:  # Linux says EIO when the last process has closed its side
            piece = b""
        if not piece:
            break
        text, left = _decoded(left + piece)
        terminal.write(text)
        frames.append(Frame(time.monotonic() - begin, terminal.screen()))
    return frames, time.monotonic() - begin


def _decoded(content: bytes) -> tuple[str, bytes]:
    """Return the whole letters of some bytes, and the beginning of one that is cut."""
    for cut in range(4):
        try:
            return content[: len(content) - cut].decode(), content[len(content) - cut :]
        except UnicodeDecodeError:
            continue
    return content.decode(errors="replace"), b""


def edited(frames: list[Frame], command: str, seconds: float) -> list[Frame]:
    """Return the frames as they are shown: the command is typed, the run takes SHOWN seconds, equal frames are one."""
    whole = " \\\n    ".join(textwrap.wrap(f"$ {command}", COLUMNS - 6, break_on_hyphens=False))
    prompt = [whole[:end] for end in [*range(2, len(whole), 6), len(whole)]]
    typed = [Frame(TYPING * place / len(prompt), tuple(text.split("\n"))) for place, text in enumerate(prompt)]
    above, scale = typed[-1].screen, SHOWN / max(seconds, SHOWN)
    run = [Frame(TYPING + frame.at * scale, (*above, *_without_legend(frame.screen))[-ROWS:]) for frame in frames]
    kept: list[Frame] = []
    for frame in (*typed, *run):
        if kept and frame.screen == kept[-1].screen:
            continue
        if kept and frame is not run[-1] and frame.at - kept[-1].at < 0.1 and frame.at > TYPING:
            kept[-1] = Frame(kept[-1].at, frame.screen)
        else:
            kept.append(frame)
    return kept


def _without_legend(screen: Screen) -> Screen:
    """Return a screen up to the legend of the table."""
    ends = [row for row, line in enumerate(screen) if line.startswith(LEGEND)]
    return screen[: ends[0]] if ends else screen


def svg(frames: list[Frame], title: str, footer: str) -> str:
    """Write frames as an SVG that shows one after the other, and the last one where motion is not wanted."""
    total = frames[-1].at + HOLD
    rows = max(len(frame.screen) for frame in frames)
    texts, rules = [], {}
    for row in range(rows):
        for text, start, end in _spans(frames, row, total):
            if not text:
                continue
            span = (round(100 * start / total, 2), round(100 * end / total, 2))
            name = rules.setdefault(span, f"s{len(rules)}")
            last = " z" if end == total else ""
            texts.append(f'<text class="{name}{last}" y="{MARGIN + HEIGHT * (row + 1)}">{_spanned(text)}</text>')
    width, height = round(2 * MARGIN + COLUMNS * WIDTH), 2 * MARGIN + HEIGHT * (rows + 2)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_style(rules, total)}</style>",
            f'<rect width="{width}" height="{height}" rx="8"/>',
            f'<g transform="translate({MARGIN} 0)">',
            *texts,
            f'<text class="f" y="{height - MARGIN}">{escape(footer)}</text>',
            "</g>",
            "</svg>",
            "",
        ]
    )


def _spanned(text: str) -> str:
    """Return a line with its colours."""
    classes = {BRIGHT: "b", DIM: "d"}
    pieces = re.split(f"([{PLAIN}{BRIGHT}{DIM}])", PLAIN + text)[1:]
    looks = zip(pieces[::2], pieces[1::2], strict=True)
    return "".join(
        f'<tspan class="{classes[look]}">{escape(piece)}</tspan>' if look in classes else escape(piece)
        for look, piece in looks
        if piece
    )


def _spans(frames: list[Frame], row: int, total: float) -> list[tuple[str, float, float]]:
    """Return what a row shows, from when to when."""
    spans: list[tuple[str, float, float]] = []
    ends = [*(frame.at for frame in frames[1:]), total]
    for frame, end in zip(frames, ends, strict=True):
        text = frame.screen[row] if row < len(frame.screen) else ""
        if spans and spans[-1][0] == text:
            spans[-1] = (text, spans[-1][1], end)
        else:
            spans.append((text, frame.at, end))
    return spans


def _style(rules: dict[tuple[float, float], str], total: float) -> str:
    """Return the CSS: colours by the reader's scheme, and when each line is seen."""
    style = [
        "rect{fill:#f6f8fa;stroke:#d0d7de}",
        "text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1f2328;"
        "white-space:pre;visibility:hidden}",
        ".z,.f{visibility:visible}.f{fill:#57606a;font-size:11px}.b{fill:#0969da}.d{fill:#c9d1d9}",
        "@media(prefers-color-scheme:dark){rect{fill:#0d1117;stroke:#30363d}text{fill:#e6edf3}.f{fill:#8b949e}"
        ".b{fill:#58a6ff}.d{fill:#30363d}}",
    ]
    moving = [f".{name}{{animation:{name} {total:.2f}s step-end infinite}}" for name in rules.values()]
    keys = []
    for (start, end), name in rules.items():
        frames = {0.0: "hidden", start: "visible"} | ({end: "hidden"} if end < 100 else {})
        steps = "".join(f"{at:g}%{{visibility:{state}}}" for at, state in frames.items())
        keys.append(f"@keyframes {name}{{{steps}}}")
    return "".join([*style, *keys, f"@media(prefers-reduced-motion:no-preference){{{''.join(moving)}}}"])


def main() -> None:
    """Record, and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("compare.svg"))
    parser.add_argument("command", nargs="*", default=shlex.split(COMMAND))
    given = parser.parse_args()
    command = shlex.join(given.command)
    frames, seconds = record(given.command)
    shown = edited(frames, command, seconds)
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    busy = f" that other programs kept busy (load {load:.0f})" if load > 2 * cores else ""
    footer = f"Recorded in {seconds:.0f} s on {cores} cores{busy}"
    footer += f", shown in {SHOWN:.0f} s" if seconds > SHOWN + 1 else ""
    given.out.write_text(svg(shown, command, f"{footer}; the table's legend is cut."), encoding="utf-8")
    print(f"{given.out}: {len(shown)} frames, {given.out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
