#!/usr/bin/python3
"""Makes a folder of photographs out of one: crops of it, turned and mirrored, without loss.

    /usr/bin/python3 examples/python/make_photographs.py --output=out/photographs --count=200

The other examples that want a folder of photographs take any folder of JPEG files; this is for who has none at hand.
"""

import argparse
import ctypes
import os
import random
import sys

PHOTOGRAPH = "/usr/share/matplotlib/mpl-data/sample_data/grace_hopper.jpg"

# From turbojpeg.h: the eight ways to turn and mirror are 0 to 7; blocks that would be cut at an edge are left out.
_WAYS = 8
_TRIM = 1 << 1
_CROP = 1 << 2
# Lossless crops begin at blocks, which are 16 x 16 pixels at most for what cameras write.
_BLOCK = 16


class _Transform(ctypes.Structure):
    """turbojpeg's tjtransform."""

    _fields_ = [
        ("x", ctypes.c_int),
        ("y", ctypes.c_int),
        ("width", ctypes.c_int),
        ("height", ctypes.c_int),
        ("op", ctypes.c_int),
        ("options", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("filter", ctypes.c_void_p),
    ]


class Turbo:
    """The part of libturbojpeg that changes pictures without decoding them."""

    def __init__(self):
        self._library = ctypes.CDLL("libturbojpeg.so.0")
        self._library.tjInitTransform.restype = ctypes.c_void_p
        self._library.tjGetErrorStr2.restype = ctypes.c_char_p
        self._handle = ctypes.c_void_p(self._library.tjInitTransform())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._library.tjDestroy(self._handle)

    def size(self, jpeg):
        """Width and height."""
        width, height, other = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self._check(
            self._library.tjDecompressHeader3(
                self._handle,
                jpeg,
                ctypes.c_ulong(len(jpeg)),
                ctypes.byref(width),
                ctypes.byref(height),
                ctypes.byref(other),
                ctypes.byref(other),
            )
        )
        return width.value, height.value

    def transform(self, jpeg, way, crop):
        """Turned or mirrored, and then cropped to (x, y, width, height)."""
        change = _Transform(*crop, way, _TRIM | _CROP, None, None)
        out, out_size = ctypes.c_void_p(), ctypes.c_ulong()
        self._check(
            self._library.tjTransform(
                self._handle,
                jpeg,
                ctypes.c_ulong(len(jpeg)),
                1,
                ctypes.byref(out),
                ctypes.byref(out_size),
                ctypes.byref(change),
                0,
            )
        )
        try:
            return ctypes.string_at(out, out_size.value)
        finally:
            self._library.tjFree(out)

    def _check(self, code):
        if code:
            raise ValueError(self._library.tjGetErrorStr2(self._handle).decode())


def variants(jpeg, count, seed=1):
    """Yields `count` JPEG files made of one, the same for the same seed."""
    chance = random.Random(seed)
    with Turbo() as turbo:
        width, height = turbo.size(jpeg)
        for _ in range(count):
            way = chance.randrange(_WAYS)
            # Ways 3, 4, 5 and 7 (transpose, transverse, 90 and 270 degrees) exchange the sides.
            sides = (height, width) if way in (3, 4, 5, 7) else (width, height)
            crop = [0, 0, 0, 0]
            for axis, side in enumerate(sides):
                # What does not fill a block at the edge is trimmed away.
                blocks = max(1, side // _BLOCK)
                length = chance.randint(max(1, blocks * 3 // 4), blocks)
                crop[axis] = _BLOCK * chance.randint(0, blocks - length)
                crop[axis + 2] = _BLOCK * length
            yield turbo.transform(jpeg, way, crop)


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes a folder of photographs out of one.")
    parser.add_argument("--input", default=PHOTOGRAPH, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--output", required=True, metavar="DIR", help="made if it is not there")
    parser.add_argument("--count", type=int, default=200, metavar="N", help="default: %(default)s")
    options = parser.parse_args()
    if options.count < 1:
        parser.error("--count must be at least 1")

    try:
        with open(options.input, "rb") as file:
            photograph = file.read()
        os.makedirs(options.output, exist_ok=True)
        size = 0
        for number, jpeg in enumerate(variants(photograph, options.count)):
            with open(os.path.join(options.output, "%04d.jpg" % number), "wb") as file:
                file.write(jpeg)
            size += len(jpeg)
    except (OSError, ValueError) as error:
        print("make_photographs.py: %s: %s" % (options.input, error), file=sys.stderr)
        return 1
    print("%d photographs (%.1f MB) in %s" % (options.count, size / 1e6, options.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
