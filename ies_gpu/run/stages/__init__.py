"""The stages of the pipeline, one module per stage that a checkpoint saves."""
