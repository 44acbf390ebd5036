"""
One tree, row by row
====================

Watch a tree learn: most rows only extend a hull, some bring a new cut, anywhere between the root and a leaf.
"""

# %%
# Above the plane with its cuts, below the tree. The row that arrives is a star, and what it changes is orange.

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from bspforest import BSPForestClassifier
from bspforest.plotting import GrowthDisplay, PartitionDisplay

X, y = make_moons(18, noise=0.1, random_state=0)
forest = BSPForestClassifier(budget_scale=1.3, random_state=57, prediction="mean")
growth = GrowthDisplay.from_stream(forest, X[:9], y[:9])
growth.plot_steps([6, 7, 8, 9])
plt.show()

# %%
# After each row, the tree has the distribution of a tree that was grown on all rows at once. This is the tree of all 18 rows, with
# the nested hulls of its nodes. ``growth.save("growth.gif")`` writes an animation.

forest = BSPForestClassifier(budget_scale=1.3, random_state=57, prediction="mean").partial_fit(X, y, classes=[0, 1])
PartitionDisplay.from_estimator(forest, tree=0).plot()
plt.show()
