#!/usr/bin/python3
"""Prints the one C++ program of a page: extract_program.py PAGE"""

import pathlib
import sys

import blocks

(program,) = [block for block in blocks.blocks(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")) if block.is_program]
sys.stdout.write(program.text)
