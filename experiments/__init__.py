"""The paper's experiments, run anew: one small module a table or figure, over one runner."""
