"""
Importances and the learned metric
==================================

Cuts do not depend on labels, but the forest stretches features by how much labels depend on them.
"""

# %%
# Friedman's function depends on the first five of ten features.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.inspection import permutation_importance

from bspforest import BSPForestRegressor
from bspforest.datasets import make_friedman

X, y, _ = make_friedman(1500, 10, random_state=0)
X_test, y_test, truth = make_friedman(1000, 10, random_state=1)
forest = BSPForestRegressor(random_state=0).fit(X, y)
equal = BSPForestRegressor(feature_weights=None, random_state=0).fit(X, y)
for name, model in (("learned metric", forest), ("all features alike", equal)):
    print(f"{name:18}  RMSE to the truth {np.sqrt(np.mean((model.predict(X_test) - truth) ** 2)):.2f}")

# %%
# `feature_importances_` cost nothing extra and agree with permutation importances, which need test rows and time.
# `feature_weights_` are what features are stretched by.

permuted = permutation_importance(forest, X_test, y_test, n_repeats=3, random_state=0).importances_mean
shown = {
    "feature_importances_": forest.feature_importances_,
    "permutation importance": permuted / permuted.sum(),
    "feature_weights_": forest.feature_weights_,
}
figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained", sharey=True)
for ax, (name, numbers) in zip(axes, shown.items(), strict=True):
    ax.barh([f"x{k + 1}" for k in range(10)], numbers)
    ax.set_title(name, fontsize=10)
axes[0].invert_yaxis()
plt.show()

# %%
# ``revisions_`` lists what the forest has decided.

for revision in forest.revisions_:
    print(revision)
