"""
Uncertainty bands
=================

Quantiles and standard deviations are learned from the errors of predictions that were made before a row was learned.
"""

# %%
# The noise of this curve grows from left to right.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold

from bspforest import BSPForestRegressor

rng = np.random.default_rng(0)
x = np.sort(rng.random(600))
y = np.sin(6 * x) + rng.normal(scale=0.05 + 0.5 * x)
forest = BSPForestRegressor(random_state=0).fit(x[:, None], y)

grid = np.linspace(0, 1, 400)[:, None]
low, middle, high = forest.predict_quantiles(grid, [0.05, 0.5, 0.95]).T
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.plot(x, y, ".", color="gray", alpha=0.5, label="rows")
ax.fill_between(grid[:, 0], low, high, alpha=0.3, label="5 % to 95 %")
ax.plot(grid[:, 0], middle, label="median")
ax.plot(grid[:, 0], np.sin(6 * grid[:, 0]), "k--", linewidth=1, label="true function")
ax.set(xlabel="x", ylabel="y", title="Predictions with their intervals")
ax.legend(loc="lower left", ncols=2)
plt.show()

# %%
# Do intervals hold what they promise? On the diabetes data of scikit-learn, in five folds:

X, y = load_diabetes(return_X_y=True)
inside = []
for train, test in KFold(5, shuffle=True, random_state=0).split(X):
    low, high = BSPForestRegressor(random_state=0).fit(X[train], y[train]).predict_quantiles(X[test], [0.05, 0.95]).T
    inside.append((low <= y[test]) & (y[test] <= high))
print(f"labels inside 90 % intervals: {np.concatenate(inside).mean():.1%}")
