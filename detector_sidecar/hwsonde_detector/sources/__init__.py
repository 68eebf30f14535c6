"""Where samples come from; each source knows only `hwsonde_detector.types`."""
