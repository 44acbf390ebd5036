"""Test that the gallery writes figures for light and dark backgrounds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image


def test_gallery_writes_light_and_dark_figures(tmp_path):
    script = Path(__file__).parents[2] / "examples" / "gallery.py"
    command = [sys.executable, str(script), "--out", str(tmp_path), "--only", "slice_of_square", "--dpi", "40"]
    subprocess.run(command, capture_output=True, check=True)
    light, dark = (np.asarray(Image.open(tmp_path / f"slice_of_square{end}.png").convert("L")) for end in ("", "-dark"))
    assert light[0, 0] == 255 and dark[0, 0] == 0
