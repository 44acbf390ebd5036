"""
Tables with gaps and categories
===============================

DataFrames with missing numbers, text and new categories are learned as they come.
"""

# %%
# A simulated stream of rents. Sizes are missing now and then, and from row 600 on there are flats in a town that is new.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bspforest import BSPForestRegressor

rng = np.random.default_rng(0)
n = 1200
towns = rng.choice(["Bath", "York"], n)
towns = np.where(np.arange(n) < 600, towns, rng.choice(["Bath", "York", "Leeds"], n))
size = rng.uniform(30, 120, n).round()
garden = rng.random(n) < 0.3
by_town = pd.Series(towns).map({"Bath": 250, "York": 0, "Leeds": -250})
rent = 200 + 9 * size + 150 * garden + by_town + rng.normal(0, 40, n)
known_size = np.where(rng.random(n) < 0.1, np.nan, size)
flats = pd.DataFrame({"size": known_size, "town": towns, "garden": garden})

forest = BSPForestRegressor(50, random_state=0)
errors = []
for start in range(0, n, 50):
    rows = slice(start, start + 50)
    if start:
        errors.append(np.abs(forest.predict(flats[rows]) - rent[rows]))
    forest.partial_fit(flats[rows], rent[rows])
print(forest.encoded_feature_names_)
print(dict(zip(forest.feature_names_in_, forest.feature_importances_.round(2).tolist(), strict=True)))

# %%
# Errors are larger for flats of unknown size, and for the first flats in Leeds.

error, at = np.concatenate(errors), np.arange(50, n)
groups = {
    "size unknown": flats["size"].isna()[50:],
    "Leeds": (flats["town"] == "Leeds")[50:] & flats["size"].notna()[50:],
}
figure, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
ax.plot(at, error, ".", color="lightgray", label="all flats")
for name, chosen in groups.items():
    ax.plot(at[chosen], error[chosen], ".", label=name)
ax.set(
    xlabel="row",
    ylabel="absolute error of the rent",
    ylim=(0, None),
    title="Errors in a stream in which new towns and gaps appear",
)
ax.legend()
plt.show()
