"""
Drift
=====

A stream that changes twice, at once and slowly. The forest notices by itself, and lets old rows count less.
"""

# %%
# Two of four features decide between two classes: the label is the side of a line. At row 2,500 the line turns by 135 degrees at once. From
# row 5,000 on it turns slowly. Three labels in a hundred are wrong.

import matplotlib.pyplot as plt
import numpy as np

from bspforest import BSPForestClassifier

n, abrupt, slow = 8500, 2500, 5000
rng = np.random.default_rng(0)
X = rng.random((n, 4))
rows = np.arange(n)
angle = np.where(rows < abrupt, 0.0, 0.75 * np.pi) + 0.75 * np.pi * np.maximum(rows - slow, 0) / (n - slow)
side = (X[:, 0] - 0.5) * np.cos(angle) + (X[:, 1] - 0.5) * np.sin(angle) > 0
y = (side ^ (rng.random(n) < 0.03)).astype(int)

# %%
# One forest chooses its half-life, as by default. One weighs all rows alike, and one stores the latest 1,000 rows only. Each chunk is
# predicted, then learned.

forests = {
    'half_life="auto", the default': BSPForestClassifier(30, random_state=0),
    "half_life=None: all rows count alike": BSPForestClassifier(30, half_life=None, random_state=0),
    "half_life=None, window=1000": BSPForestClassifier(30, half_life=None, window=1000, random_state=0),
}
chunk = 50
ends = np.arange(chunk, n + 1, chunk)
scores = {name: [] for name in forests}
half_lives, stored = [], []
for end in ends:
    for name, forest in forests.items():
        if end > chunk:
            scores[name].append(forest.score(X[end - chunk : end], y[end - chunk : end]))
        forest.partial_fit(X[end - chunk : end], y[end - chunk : end], classes=[0, 1])
    half_lives.append(next(iter(forests.values())).half_life_)
    stored.append(next(iter(forests.values())).n_samples_)

# %%
# With a half-life of h, the latest row counts 1, one that is h rows older 1/2, one that is 2 h older 1/4. So the sum of these weights says how
# many rows count. It grows with the stream while nothing changes. The moment the error rises clearly, an alarm shortens the half-life, and
# rows older than eight half-lives leave the forest. Once the change has passed, the half-life grows again, or all rows count alike: those
# that are left.

counted = [m if h == np.inf else np.sum(0.5 ** (np.arange(m) / h)) for m, h in zip(stored, half_lives, strict=True)]
chosen = [revision.n_samples_seen for revision in next(iter(forests.values())).revisions_]

shown = [(0, "the rule at first"), (abrupt, "from row 2,500"), (slow + 1400, "row 6,400"), (n - 300, "row 8,200")]
figure = plt.figure(figsize=(9, 8), layout="constrained")
strip, below = figure.subfigures(2, 1, height_ratios=(1, 3.4))
for ax, (first, title) in zip(strip.subplots(1, len(shown)), shown, strict=True):
    some = slice(first, first + 300)
    ax.scatter(X[some, 0], X[some, 1], c=np.where(y[some] == 1, "#0072B2", "#E69F00"), s=5)
    ax.set(title=title, xticks=[], yticks=[], aspect="equal")

top, bottom = below.subplots(2, 1, sharex=True, height_ratios=(3, 2))
for (name, values), colour in zip(scores.items(), ("#0072B2", "#E69F00", "#009E73"), strict=True):
    smooth = np.convolve(values, np.full(4, 0.25), mode="valid")
    top.plot(ends[4:], 100 * smooth, color=colour, label=name, linewidth=2 if "auto" in name else 1.3)
top.axhline(97, color="gray", linewidth=0.8)
top.annotate("best possible", (n - 1200, 98), fontsize="small", color="dimgray")
top.set(ylabel="correct among the latest 200 rows, %", ylim=(15, 103))
top.legend(loc="lower left", fontsize="small")
bottom.plot(ends, counted, color="#0072B2", linewidth=2)
bottom.plot(
    chosen, np.interp(chosen, ends, counted), "o", color="#0072B2", markersize=4, label="the half-life is chosen"
)
bottom.set(xlabel="rows learned", ylabel="rows that count", ylim=(0, None))
bottom.legend(loc="upper right", fontsize="small")
for ax in (top, bottom):
    ax.axvline(abrupt, color="gray", linestyle=":")
    ax.axvspan(slow, n, color="#f0e0d0", linewidth=0)
    ax.spines[["top", "right"]].set_visible(False)
top.annotate(" turns at once", (abrupt, 101), fontsize="small", va="center")
top.annotate(" turns slowly", (slow, 101), fontsize="small", va="center")
plt.show()

# %%
# What the forest decided around the abrupt change:

for revision in next(iter(forests.values())).revisions_:
    if abrupt - 1000 < revision.n_samples_seen < abrupt + 1500:
        looks = "all rows alike" if revision.half_life == np.inf else f"half-life {revision.half_life:,.0f} rows"
        print(f"row {revision.n_samples_seen:,}: {looks}")
