"""What a choice is worth: baselines, volumes, stability, diagnosis."""
