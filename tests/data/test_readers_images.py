"""Folders of images by class, and CelebA."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from dataset_writers import pixels
from PIL import Image

from coterie.data import read, recognise
from coterie.errors import CoterieError


def save(path: Path, image: np.ndarray) -> np.ndarray:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path)
    return image


def test_classes_are_folders_in_alphabetical_order(tmp_path: Path) -> None:
    dogs = [save(tmp_path / "dog" / f"{n}.png", pixels(6, 5, 3)) for n in range(3)]
    cats = [save(tmp_path / "cat" / f"{n}.PNG", pixels(6, 5, 3)) for n in range(2)]
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    assert recognise(tmp_path).format == "images"
    data = read(tmp_path)
    assert (data.name, data.shape, data.classes, data.test) == (tmp_path.name, (3, 6, 5), 2, None)
    assert data.train.y.tolist() == [0, 0, 1, 1, 1]
    assert np.array_equal(data.train.x.transpose(0, 2, 3, 1), np.stack(cats + dogs))


def test_train_and_test_folders(tmp_path: Path) -> None:
    for part, count in (("train", 3), ("test", 1)):
        for label in ("a", "b", "c"):
            for number in range(count):
                save(tmp_path / part / label / f"{number}.png", pixels(4, 4))
    data = read(tmp_path)
    assert data.test is not None
    assert (len(data.train), len(data.test), data.shape, data.classes) == (9, 3, (1, 4, 4), 3)
    save(tmp_path / "test" / "d" / "0.png", pixels(4, 4))
    with pytest.raises(CoterieError, match=r"the class 'd' is in the test part only: there are: a, b, c"):
        read(tmp_path)


def test_grey_and_colours_may_be_mixed(tmp_path: Path) -> None:
    grey = save(tmp_path / "train" / "a" / "0.png", pixels(4, 4))
    save(tmp_path / "test" / "a" / "0.png", pixels(4, 4, 3))
    data = read(tmp_path)
    assert data.shape == (3, 4, 4)
    assert (data.train.x[0] == grey).all()
    assert read(tmp_path, grey=True).shape == (1, 4, 4)
    palette = Image.fromarray(pixels(4, 4, 3)).quantize(4)
    palette.save(tmp_path / "train" / "a" / "1.png")
    assert np.array_equal(read(tmp_path).train.x[1].transpose(1, 2, 0), np.asarray(palette.convert("RGB")))


def test_images_of_several_sizes_need_one(tmp_path: Path) -> None:
    save(tmp_path / "a" / "0.png", pixels(6, 6))
    save(tmp_path / "b" / "1.png", np.full((6, 10), 77, np.uint8))
    with pytest.raises(CoterieError, match=r"1\.png is 10 x 6, but 0\.png is 6 x 6: give the option size"):
        read(tmp_path)
    data = read(tmp_path, size=3)
    assert data.shape == (1, 3, 3)
    assert (data.train.x[1] == 77).all()


def test_the_middle_square_is_used(tmp_path: Path) -> None:
    wide = np.zeros((4, 8), np.uint8)
    wide[:, 2:6] = 200
    save(tmp_path / "a" / "0.png", wide)
    save(tmp_path / "b" / "0.png", wide.T.copy())
    assert (read(tmp_path, size=2).train.x == 200).all()


def png(width: int, height: int) -> bytes:
    """A PNG file that announces a size and has hardly any pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 10)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("content", [b"", b"no image", png(8, 8)[:40], png(8, 8), png(60000, 60000), png(9000, 9000)])
def test_broken_images_are_refused(tmp_path: Path, content: bytes) -> None:
    save(tmp_path / "a" / "0.png", pixels(8, 8))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "broken.png").write_bytes(content)
    with pytest.raises(CoterieError, match=r"broken\.png cannot be read as a PNG or JPEG image"):
        read(tmp_path)


@pytest.mark.integration
def test_another_format_does_not_hide_behind_an_ending(tmp_path: Path) -> None:
    save(tmp_path / "a" / "0.png", pixels(8, 8))
    (tmp_path / "b").mkdir()
    Image.fromarray(pixels(8, 8)).save(tmp_path / "b" / "0.png", format="TIFF")
    with pytest.raises(CoterieError, match=r"0\.png cannot be read as a PNG or JPEG image"):
        read(tmp_path)


# CelebA

ATTRIBUTES = ["Male", "Smiling", "Young"]


def write_celeba(folder: Path, count: int = 6, images: int = 6, identities: bool = True) -> np.ndarray:
    values = np.array([[1 if (n >> bit) & 1 else -1 for bit in range(3)] for n in range(count)])
    names = [f"{n:06}.jpg" for n in range(1, count + 1)]
    (folder / "Anno").mkdir(parents=True)
    rows = [f"{name}  " + " ".join(f"{v:2}" for v in row) for name, row in zip(names, values, strict=True)]
    (folder / "Anno" / "list_attr_celeba.txt").write_text("\n".join([str(count), " ".join(ATTRIBUTES), *rows, ""]))
    if identities:
        people = [f"{name} {2880 + n % 2}\n" for n, name in enumerate(names)]
        (folder / "Anno" / "identity_CelebA.txt").write_text("".join(people))
    for n, name in enumerate(names[:images]):
        save(folder / "Img" / "img_align_celeba" / name, np.full((218, 178, 3), 40 * n, np.uint8))
    return values


def test_celeba_has_an_attribute_as_label_and_people_as_users(tmp_path: Path) -> None:
    values = write_celeba(tmp_path)
    assert recognise(tmp_path).format == "celeba"
    data = read(tmp_path)
    assert (data.name, data.shape, data.classes) == ("celeba", (3, 32, 32), 2)
    assert data.train.y.tolist() == (values[:, 1] == 1).astype(int).tolist()
    assert data.users is not None
    assert data.users.tolist() == [2880, 2881] * 3
    assert data.attributes is not None
    assert (data.attributes == (values == 1)).all()
    assert data.attribute_names == tuple(ATTRIBUTES)
    assert np.abs(data.train.x.reshape(6, -1).astype(int) - 40 * np.arange(6)[:, None]).max() <= 2
    data = read(tmp_path, attribute="Young")
    assert data.train.y.tolist() == (values[:, 2] == 1).astype(int).tolist()
    assert read(tmp_path, size=8, limit=2).train.x.shape == (2, 3, 8, 8)


def test_celeba_without_identities_or_with_some_of_the_images(tmp_path: Path) -> None:
    write_celeba(tmp_path, images=4, identities=False)
    data = read(tmp_path)
    assert data.users is None
    assert len(data.train) == 4


def test_wrong_lists_are_refused(tmp_path: Path) -> None:
    write_celeba(tmp_path)
    with pytest.raises(CoterieError, match=r"no attribute 'Smilling': did you mean 'Smiling'\?"):
        read(tmp_path, attribute="Smilling")
    listed = tmp_path / "Anno" / "list_attr_celeba.txt"
    whole = listed.read_text()
    for broken, message in (
        (whole.replace(" 1", " 2"), "must have 3 numbers 1 or -1"),
        (whole.rstrip()[:-2], "must have 3 numbers 1 or -1"),
        ("6\n", "lists no images"),
        (whole.replace(".jpg", "x.jpg"), "has none of the images"),
    ):
        listed.write_text(broken)
        with pytest.raises(CoterieError, match=message):
            read(tmp_path)
    listed.write_text(whole)
    (tmp_path / "Anno" / "identity_CelebA.txt").write_text("000001.jpg 5\n")
    with pytest.raises(CoterieError, match=r"identity_CelebA\.txt must have a number behind each image"):
        read(tmp_path)
