"""From raw scores to decisions: calibration, fusion, learning, episodes. No input or output."""
