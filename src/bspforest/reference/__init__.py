"""The paper, line by line: its algorithms as it wrote them, to be read beside it.

Xuhui Fan, Bin Li, Scott A. Sisson. Online Binary Space Partitioning Forests. AISTATS 2020.

Plain Python with numpy and scipy.spatial, hundreds to thousands of times slower than the engine behind
`bspforest.BSPForestRegressor`, with which it shares no code: the tests hold one against the other. Read it in this
order:

- `polygons`: convex hulls in the plane and uniform lines that hit them, or hit one and miss another (Algorithm 6);
- `hulls`: the same in every pair of dimensions: how fast cuts come, and where the next one falls;
- `polytopes`: blocks of space, and how a cut parts them;
- `process`: the BSP-Tree process (Algorithms 1 and 2), its restriction (Theorem 1) and its slices (Lemma 1);
- `trees`: online trees on data (Algorithms 3, 4 and 5), as printed and as they should be;
- `mondrian`: boxes in the place of hulls, which makes a Mondrian process of all this.

Everywhere, cuts come at *half* the sum of the perimeters, as in the paper's experiments, and times are counted from the
start, where the paper counts a cost from the cut before and takes it off the budget.
"""

from .hulls import Cut, PairHulls
from .mondrian import Box
from .polytopes import Polytope, make_box, make_polytope, order_polygon
from .process import Block, draw_partition, restrict, slice_line
from .trees import Node, Tree, grow_forest

__all__ = [
    "Block",
    "Box",
    "Cut",
    "Node",
    "PairHulls",
    "Polytope",
    "Tree",
    "draw_partition",
    "grow_forest",
    "make_box",
    "make_polytope",
    "order_polygon",
    "restrict",
    "slice_line",
]
