"""What the held-out errors of a forest say about its data, and what to do about it."""

from __future__ import annotations

from .settings import Revision

# Rows before anything is said. (With 60 rows, noise explains up to a fifth of itself.)
MIN_JUDGED = 100

# Share of the error of the mean that is to be explained. (Noise with 200 rows: up to 0.034, with 1,000 up to 0.016; whether a flight is late:
# 0.05, with an area under the curve of 0.65.)
MIN_EXPLAINED = 0.02

# Importances are concentrated if they are those of fewer features, effectively, than this share of the features in use. (Where weights were
# rejected: airline delays 0.34 to 0.44, diabetes 0.52, digits 0.65; two features of ten that explain 5 % of 3,000 labels: 0.18.)
MAX_CONCENTRATED = 1 / 3


class TuningWarning(UserWarning):
    """A forest has found that its features say little about labels, or that it cannot tell which ones do."""


def find_advice(revision: Revision) -> str | None:
    """Return what a user should know about what was decided, with what to do; None if all is well."""
    if revision.n_samples_seen < MIN_JUDGED:
        return None
    explained = 1.0 - revision.error / revision.error_of_mean if revision.error_of_mean > 0 else 1.0
    if explained < MIN_EXPLAINED:
        return (
            f"Predictions are hardly better than the mean label: they explain {max(explained, 0.0):.1%} of it in rows held out. Check that "
            "the labels belong to these rows; add features that say more, or more rows."
        )
    n_important, n_used = revision.n_important_features, revision.n_effective_features
    if revision.feature_weights == "rejected" and n_important < MAX_CONCENTRATED * n_used:
        return (
            f"Weights of features did not clearly lower the held-out error, although about {n_important:.0f} of {n_used:.0f} features have "
            "most of the importance: leave out features that do not matter (see feature_importances_), give feature_weights, or add rows."
        )
    return None
