"""
A stream and its learning curve
===============================

Predict each row before learning it, and compare with a random forest that is refitted from time to time.
"""

# %%
# The digits arrive one chunk of 25 at a time. Every chunk is predicted, scored and then learned: each score is of rows that the
# model has not seen. The random forest is refitted on all rows so far, after every fourth chunk.

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import shuffle

from bspforest import BSPForestClassifier

X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
forest = BSPForestClassifier(50, random_state=0)
batch = RandomForestClassifier(50, random_state=0)

right = {"bspforest": [], "random forest, refitted": []}
seconds = dict.fromkeys(right, 0.0)
for start in range(0, len(X), 25):
    rows = slice(start, start + 25)
    if start:
        right["bspforest"].append(forest.predict(X[rows]) == y[rows])
        right["random forest, refitted"].append(batch.predict(X[rows]) == y[rows])
    began = time.process_time()
    forest.partial_fit(X[rows], y[rows], classes=range(10))
    seconds["bspforest"] += time.process_time() - began
    if start % 100 == 0:
        began = time.process_time()
        batch.fit(X[: start + 25], y[: start + 25])
        seconds["random forest, refitted"] += time.process_time() - began

# %%
# The share of right predictions among the latest 200. With so few rows, refitting still costs less. It costs more with every row, and
# learning does not: on Friedman's function with 50 trees, a refit takes as long as learning 100 rows from about 1,500 rows on, and ten
# times as long at 16,000.

figure, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
for name, parts in right.items():
    each = np.concatenate(parts)
    total = np.cumsum(each)
    latest = np.arange(1, len(each) + 1)
    running = (total - np.where(latest > 200, np.roll(total, 200), 0)) / np.minimum(latest, 200)
    ax.plot(25 + latest, running, label=f"{name}: {each.mean():.3f} over all rows, {seconds[name]:.1f} s to learn")
ax.set(
    xlabel="rows learned",
    ylabel="accuracy, latest 200 rows",
    ylim=(0.6, 1.0),
    title="A stream of digits: the running accuracy",
)
ax.grid(alpha=0.3)
ax.legend(loc="lower right")
plt.show()
