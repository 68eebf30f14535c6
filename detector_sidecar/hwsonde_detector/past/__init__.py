"""The past, judged as if it were the present: reading history, scoring it causally, and figures of how well that went."""
