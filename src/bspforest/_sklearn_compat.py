"""Private names of scikit-learn that the estimators rely on, gathered so that a new version breaks one file."""

from __future__ import annotations

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

__all__ = ["Interval", "StrOptions", "check_sample_weight", "fit_context", "validate_parameter_constraints"]
