"""
Drift and a window
==================

With ``window=1000`` the forest holds the latest 1,000 rows only, and recovers from a sudden change.
"""

# %%
# Two features decide between two classes. After 3,000 rows the rule is reversed.

import matplotlib.pyplot as plt
import numpy as np

from bspforest import BSPForestClassifier

rng = np.random.default_rng(0)
X = rng.random((8000, 2))
y = (X[:, 1] > 0.5 + 0.3 * np.sin(2 * np.pi * X[:, 0])).astype(int)
y[3000:] = 1 - y[3000:]

forests = {
    "window=1000": BSPForestClassifier(30, window=1000, random_state=0),
    "all rows": BSPForestClassifier(30, random_state=0),
}
chunk, scores = 100, {name: [] for name in forests}
for start in range(0, len(X), chunk):
    rows = slice(start, start + chunk)
    for name, forest in forests.items():
        if start:
            scores[name].append(forest.score(X[rows], y[rows]))
        forest.partial_fit(X[rows], y[rows], classes=[0, 1])

# %%
# Rows that leave the window are forgotten exactly: the trees are those of the rows held, and memory stays the same. The forest that
# holds all rows follows its latest rows, too, but falls back whenever it weighs all rows alike again, which it does each time it has
# learned a few percent more.

figure, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
for name, forest in forests.items():
    label = f"{name}: holds {forest.n_samples_:,} rows, {forest.nbytes_ / 1e6:.1f} MB"
    ax.plot(np.arange(chunk, len(X), chunk), scores[name], label=label)
ax.axvline(3000, color="gray", linestyle=":")
ax.set(
    xlabel="rows learned", ylabel="accuracy of the next 100 rows", ylim=(0, 1.02), title="Accuracy while labels drift"
)
ax.legend(loc="lower right")
plt.show()
