"""
First forest
============

Fit a forest to handwritten digits and compare it with a random forest. No parameter is tuned.
"""

# %%
# The digits of scikit-learn: 1,797 images of 8 × 8 grey values. A forest is fitted and scored like every estimator.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from bspforest import BSPForestClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)

forest = BSPForestClassifier(random_state=0).fit(X_train, y_train)
batch = RandomForestClassifier(random_state=0).fit(X_train, y_train)
for name, model in (("bspforest", forest), ("random forest", batch)):
    accuracy, loss = model.score(X_test, y_test), log_loss(y_test, model.predict_proba(X_test))
    print(f"{name:13}  accuracy {accuracy:.3f}  log loss {loss:.3f}")

# %%
# The images the forest is least sure of, with the two most probable digits.

shares = forest.predict_proba(X_test)
doubtful = shares.max(axis=1).argsort()[:8]
figure, axes = plt.subplots(1, 8, figsize=(10, 1.9), layout="constrained")
for ax, row in zip(axes, doubtful, strict=True):
    first, second = shares[row].argsort()[::-1][:2]
    ax.imshow(X_test[row].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{first}: {shares[row, first]:.0%}\n{second}: {shares[row, second]:.0%}", fontsize=9)
    ax.set_xlabel(f"is {y_test[row]}")
    ax.set(xticks=[], yticks=[])
plt.show()
