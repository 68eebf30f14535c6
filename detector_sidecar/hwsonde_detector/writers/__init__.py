"""Where scores go."""
