"""The page, its JSON interface and /metrics, over HTTP."""
