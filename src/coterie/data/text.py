"""Text as networks see it: words and letters are numbers first, and vectors when they are used."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coterie.data.federated import Array
from coterie.data.readers.files import opened, reading
from coterie.errors import CoterieError

ALPHABET = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""The 80 letters of LEAF's Shakespeare; others count as a space. It is fixed, as clients could not agree on one."""

_WORD = re.compile(r"[\w']+|[.,!?;]")
_LETTERS = np.full(256, ALPHABET.index(" "), np.uint8)
_LETTERS[[ord(letter) for letter in ALPHABET]] = np.arange(len(ALPHABET))

Floats = npt.NDArray[np.float32]
Vocabulary = dict[str, int]


@dataclass(frozen=True, eq=False)
class Embedding:
    """Frozen vectors (words, features) that take the place of numbers: (n, length) becomes (n, length, features)."""

    vectors: Floats

    def __call__(self, raw: Array) -> Floats:
        """Look up the vectors."""
        return self.vectors[raw]


def one_hot() -> Embedding:
    """Return what turns numbers of letters into (n, length, 80) zeros and ones."""
    return Embedding(np.eye(len(ALPHABET), dtype=np.float32))


def letters(text: str | bytes) -> npt.NDArray[np.uint8]:
    """Return the numbers of letters in the alphabet.

    >>> letters("a—z").tolist()
    [53, 1, 78]
    """
    if isinstance(text, bytes):
        return _LETTERS[np.frombuffer(text, np.uint8)]
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return _LETTERS[np.minimum(codes, 255)]


def words(line: str) -> list[str]:
    """Return words and punctuation as LEAF divides a line, in lower case as GloVe's words are.

    >>> words("Don't stop, it's GREAT!")
    ["don't", 'stop', ',', "it's", 'great', '!']
    """
    return _WORD.findall(line.lower())


def numbered(lines: Iterable[Sequence[str]], vocabulary: Vocabulary, length: int) -> npt.NDArray[np.int32]:
    """Return the first words of each line by their numbers, (n, length); 0 is an unknown word, or none."""
    rows = [[vocabulary.get(word, 0) for word in line[:length]] for line in lines]
    return np.array([row + [0] * (length - len(row)) for row in rows], np.int32).reshape(-1, length)


def read_vectors(path: Path, wanted: Iterable[str]) -> tuple[Vocabulary, Floats]:
    """Read GloVe's vectors of the words that are wanted, with a vector of zeros before them for all others.

    A line is a word and its numbers, divided by spaces; the file may be gzipped.
    """
    wanted, vocabulary, rows = set(wanted), Vocabulary(), list[Floats]()
    with reading(path, "vectors of words, as GloVe has them"), opened(path) as stream, np.errstate(over="ignore"):
        features = 0
        for number, line in enumerate(stream, 1):
            pieces = line.rstrip().split(b" ")
            features = features or len(pieces) - 1
            if len(pieces) - 1 != features or features < 2:
                raise ValueError(
                    f"line {number} has {len(pieces) - 1} numbers behind the word, not {features or 'some'}"
                )
            word = pieces[0].decode("utf-8")
            if word in wanted and word not in vocabulary:
                vocabulary[word] = len(vocabulary) + 1
                rows.append(np.array(pieces[1:], np.float32))
        vectors = np.stack([np.zeros(features, np.float32), *rows])
        if not np.isfinite(vectors).all():
            raise ValueError("it holds numbers that are not finite")
    if not rows:
        raise CoterieError(f"{path} has vectors for none of the words of the data: is it for another language?")
    return vocabulary, vectors
