"""What operators get that is made from the programs and the rules: completion, objects for Kubernetes, the reference of alerts."""
