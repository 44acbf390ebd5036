"""A forest: the rows it stores, their trees, and the rule by which it predicts.

The modules, in the order to read them:

- `rows`, `keys`, `config`: which rows are stored, what users call them, and the parameters of a forest;
- `forest`: `OnlineForest`, the owner of everything; it learns, forgets and makes itself whole;
- `means`, with `leaf_means` and `leaf_quantiles`: predictions from the labels in leaves;
- `ridge`, with `columns` and `calibration`: predictions by ridge regression over all nodes;
- `tree_operations`: what both need of trees, on this machine or on a cluster; `node_sums` and `block_sums` for rows that are learned or
  predicted, `solver` for the duals of all rows;
- `settings`, `tuning`: what a forest decides for itself, and how, with `held_out` (errors), `feature_weights`, `recency` (half-lives), `stepping` and `uncertainty`;
  `steps` spreads this over the rows of a stream;
- `conversion`: other features for the rows stored; `locking`: who may read and change a forest at the same time;
- `tree_view` and `budgets`: trees as users see them, and predictions at earlier budgets.

`kernels` are the compiled functions of this room.
"""
