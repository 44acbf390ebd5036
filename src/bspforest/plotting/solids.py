"""Drawing convex polytopes in three dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..reference import Polytope
from .style import fade, need_art3d, text_colour

AXIS_NAMES = ("$x_1$", "$x_2$", "$x_3$")


def check_3d_axes(ax: Any) -> None:
    """Raise an error unless the axes are three-dimensional."""
    if getattr(ax, "name", "") != "3d":
        raise ValueError('three dimensions need axes made with projection="3d", e.g. plt.subplot(projection="3d")')


def draw_faces(ax: Any, faces: list[np.ndarray], colours: np.ndarray, *, alpha: Any = 1.0, edges: Any = None) -> Any:
    """Draw polygons in space, with edges in the text colour unless ``edges`` gives their colours."""
    colours = np.column_stack([np.reshape(colours, (-1, 3)), np.broadcast_to(alpha, len(faces))])
    if not faces:
        faces, colours = [np.zeros((3, 3))], np.zeros((1, 4))  # matplotlib does not accept an empty collection
    edges = [(*text_colour(), 0.9)] * len(faces) if edges is None or len(edges) == 0 else edges
    polygons = need_art3d().Poly3DCollection(faces, facecolors=colours, edgecolors=edges, linewidths=0.8)
    return ax.add_collection3d(polygons)


def shade_face(face: np.ndarray, middle: np.ndarray, colour: np.ndarray) -> np.ndarray:
    """Return the colour of a face of a polytope around ``middle`` in light from above and the front.

    Faces are darkened by a third at most, so the colour can still be read off the colour bar.
    """
    normal = np.cross(face[1] - face[0], face[2] - face[0])
    normal *= np.sign(normal @ (face.mean(axis=0) - middle))
    light = np.array([0.25, -0.6, 0.76])
    return colour * (0.83 + 0.17 * (normal @ light) / max(np.linalg.norm(normal), 1e-300))


def draw_wireframe(ax: Any, polytope: Polytope) -> None:
    """Draw the edges of a polytope."""
    lines = [np.concatenate([face, face[:1]]) for face in polytope.faces()]
    ax.add_collection3d(need_art3d().Line3DCollection(lines, colors=[fade(text_colour(), 0.7)], linewidths=0.9))


def set_3d_limits(ax: Any, points: np.ndarray) -> None:
    """Fit the axes to points with equal scales, and remove ticks and panes.

    Call this before drawing: the autoscaling of matplotlib overflows on collections that were never rendered.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    ax.set_box_aspect(high - low, zoom=0.92)
    ax.set(xticks=[], yticks=[], zticks=[])
    for axis, name in zip((ax.xaxis, ax.yaxis, ax.zaxis), AXIS_NAMES, strict=True):
        axis.pane.set_visible(False)
        axis.line.set_visible(False)
        axis.set_label_text(name)
        axis.labelpad = -12
    ax.view_init(elev=22, azim=-58)


def set_3d_title(ax: Any, title: str) -> None:
    """Set a title inside the axes; above three-dimensional axes it would be clipped."""
    ax.set_title(title, y=0.97)
