"""The leading eigenpairs of the symmetric transition operator."""
