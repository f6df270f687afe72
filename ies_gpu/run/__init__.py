"""One run: checked options, inputs, stages, their log, audit and checkpoint."""
