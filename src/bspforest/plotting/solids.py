"""Convex bodies in three dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..reference import Polytope
from .style import ink, mix


def check_solid_axes(ax: Any) -> None:
    if getattr(ax, "name", "") != "3d":
        raise ValueError('three dimensions need axes made with projection="3d", e.g. plt.subplot(projection="3d")')


def draw_faces(ax: Any, faces: list[np.ndarray], colours: np.ndarray, *, alpha: Any = 1.0, edges: Any = None) -> Any:
    """Polygons in space, with edges in the colour of text unless given."""
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    colours = np.column_stack([np.reshape(colours, (-1, 3)), np.broadcast_to(alpha, len(faces))])
    if not faces:
        faces, colours = [np.zeros((3, 3))], np.zeros((1, 4))  # matplotlib takes no empty collection
    edges = [(*ink()[0], 0.9)] * len(faces) if edges is None or len(edges) == 0 else edges
    return ax.add_collection3d(Poly3DCollection(faces, facecolors=colours, edgecolors=edges, linewidths=0.8))


def shade(face: np.ndarray, middle: np.ndarray, colour: np.ndarray) -> np.ndarray:
    """A face's colour in light from above and the front: darker by a third at most, so that it still reads as its colour."""
    normal = np.cross(face[1] - face[0], face[2] - face[0])
    normal *= np.sign(normal @ (face.mean(axis=0) - middle))
    light = np.array([0.25, -0.6, 0.76])
    return colour * (0.83 + 0.17 * (normal @ light) / max(np.linalg.norm(normal), 1e-300))


def draw_frame(ax: Any, polytope: Polytope, **options: Any) -> None:
    """The edges of a body."""
    from mpl_toolkits.mplot3d.art3d import Line3DCollection

    lines = [np.concatenate([face, face[:1]]) for face in polytope.faces()]
    options = {"colors": [mix(ink()[0], 0.7)], "linewidths": 0.9, **options}
    ax.add_collection3d(Line3DCollection(lines, **options))


def fit_cube(ax: Any, corners: np.ndarray) -> None:
    """Limits around a body, its true shape, and no clutter: the axes named, without ticks or walls.

    To be called before anything is drawn: scaling by itself, matplotlib overflows on lines it has not measured yet.
    """
    low, high = corners.min(axis=0), corners.max(axis=0)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    ax.set_box_aspect(high - low, zoom=0.92)
    ax.set(xticks=[], yticks=[], zticks=[])
    for axis, name in ((ax.xaxis, "$x_1$"), (ax.yaxis, "$x_2$"), (ax.zaxis, "$x_3$")):
        axis.pane.set_visible(False)
        axis.line.set_visible(False)
        axis.set_label_text(name)
        axis.labelpad = -12
    ax.view_init(elev=22, azim=-58)


def set_title(ax: Any, title: str) -> None:
    """A title within the axes, where a body leaves room at the top: above them it would be clipped."""
    ax.set_title(title, y=0.97)
