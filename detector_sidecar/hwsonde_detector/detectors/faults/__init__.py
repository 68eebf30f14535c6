"""What `hwsonde_detector.detectors.data_faults` is made of."""
