"""A plain implementation of the paper's algorithms, line by line, to be read next to it.

Xuhui Fan, Bin Li, Scott A. Sisson. Online Binary Space Partitioning Forests. AISTATS 2020.

It uses only Python, numpy and scipy.spatial, is hundreds to thousands of times slower than the engine behind
`bspforest.BSPForestRegressor`, and shares no code with it: the tests compare the two. Read the modules in this order:

- `polygons`: convex hulls in the plane, and random lines that hit one polygon, or hit one and miss another (Algorithm 6);
- `hulls`: the hulls in every pair of dimensions, the rate of cuts, and how the next cut is drawn;
- `polytopes`: blocks of space, and how a cut splits them;
- `process`: the BSP-Tree process (Algorithms 1 and 2), its restriction (Theorem 1) and its slices (Lemma 1);
- `trees`: online trees on data (Algorithms 3, 4 and 5), as printed and corrected;
- `mondrian`: boxes instead of hulls, which gives the Mondrian process.

Cuts arrive at *half* the sum of the perimeters, as in the paper's experiments. Times are measured from the start of the
process; the paper instead subtracts the cost of each cut from the remaining budget.
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
