"""
Forgetting exactly
==================

A forest that has forgotten rows has the same distribution as one that has never seen them.
"""

# %%
# A sensor sent wrong labels for a while. They are learned, found to be wrong, and forgotten by their key.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import ks_2samp

from bspforest import BSPForestRegressor
from bspforest.datasets import make_friedman

X, y, _ = make_friedman(1200, random_state=0)
X_test, _, truth = make_friedman(1000, random_state=1)
keys = np.where(np.arange(1200) % 6 == 0, "broken", "good")
y_wrong = np.where(keys == "broken", y + 15, y)


def measure(model):
    """Return the root mean squared error to the true function."""
    return np.sqrt(np.mean((model.predict(X_test) - truth) ** 2))


forest = BSPForestRegressor(random_state=0).fit(X, y_wrong, keys=keys)
before = measure(forest)
forest.forget(keys="broken")
never = BSPForestRegressor(random_state=1).fit(X[keys == "good"], y[keys == "good"])
print(f"RMSE: with wrong rows {before:.2f}, forgotten {measure(forest):.2f}, never seen {measure(never):.2f}")

# %%
# The last two differ as two forests with different seeds do: each is one draw from the same distribution.

# %%
# "The same distribution" is a statement about random forests, so it is checked over many of them: 200 forests of five trees that
# have forgotten, 200 that have never seen, and their predictions at one point. Values are means and the scaling is fixed, so the
# trees are the whole model.

small, point = np.arange(60), X_test[:1]
good = small[keys[small] == "good"]
settings = {"n_estimators": 5, "prediction": "mean", "scaling": (0, 1)}
forgot, unseen, with_wrong = [], [], []
for seed in range(200):
    model = BSPForestRegressor(random_state=seed, **settings).fit(X[small], y_wrong[small], keys=keys[small])
    with_wrong.append(model.predict(point)[0])
    forgot.append(model.forget(keys="broken").predict(point)[0])
    unseen.append(BSPForestRegressor(random_state=1000 + seed, **settings).fit(X[good], y[good]).predict(point)[0])
print("Kolmogorov-Smirnov test, p-value:", round(float(ks_2samp(forgot, unseen).pvalue), 2))

# %%
# The same with all defaults, where everything that is fitted on top of the trees is fitted afresh: fewer forests, as each costs
# two fits.

forgot_all, unseen_all = [], []
for seed in range(25):
    model = BSPForestRegressor(10, random_state=seed).fit(X[:200], y_wrong[:200], keys=keys[:200])
    forgot_all.append(measure(model.forget(keys="broken")))
    left = keys[:200] == "good"
    unseen_all.append(measure(BSPForestRegressor(10, random_state=1000 + seed).fit(X[:200][left], y[:200][left])))
print("Kolmogorov-Smirnov test, p-value:", round(float(ks_2samp(forgot_all, unseen_all).pvalue), 2))

figure, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
bins = np.linspace(min(forgot + unseen + with_wrong), max(forgot + unseen + with_wrong), 40)
ax.hist(with_wrong, bins, histtype="stepfilled", alpha=0.25, color="gray", label="with the wrong rows")
ax.hist(forgot, bins, histtype="step", linewidth=2, label="wrong rows forgotten")
ax.hist(unseen, bins, histtype="step", linewidth=2, label="wrong rows never seen")
ax.set(
    xlabel="prediction at one point", ylabel="forests", title="Predictions of 200 forests: forgotten is as never seen"
)
ax.legend()
plt.show()
