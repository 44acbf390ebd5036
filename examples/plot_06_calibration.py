"""
Calibrated probabilities
========================

Probabilities are calibrated with the scores that rows had when they were held out: no further data are needed.
"""

# %%
# Digits 3, 8 and 9 with noise, so that not all of them can be told apart. A forest is compared with a random forest.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import cross_val_predict

from bspforest import BSPForestClassifier

X, y = load_digits(return_X_y=True)
is_used = np.isin(y, (3, 8, 9))
X = X[is_used] + np.random.default_rng(0).normal(scale=6, size=(is_used.sum(), 64))
is_eight = y[is_used] == 8

models = {"bspforest": BSPForestClassifier(random_state=0), "random forest": RandomForestClassifier(random_state=0)}
figure, ax = plt.subplots(figsize=(5, 5), layout="constrained")
for name, model in models.items():
    share = cross_val_predict(model, X, is_eight, cv=5, method="predict_proba")[:, 1]
    loss, brier = log_loss(is_eight, share), brier_score_loss(is_eight, share)
    print(f"{name:13}  log loss {loss:.3f}  Brier score {brier:.3f}")
    CalibrationDisplay.from_predictions(is_eight, share, n_bins=8, strategy="quantile", name=name, ax=ax)
ax.set(
    xlabel="predicted probability of an eight",
    ylabel="share of eights",
    title="Predicted probabilities and what came true",
)
plt.show()
